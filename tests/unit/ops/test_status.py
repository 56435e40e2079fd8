"""GET /ops/status: what is shown, and what never is."""

import re

import pytest

from piecework import __version__
from piecework.errors import Forbidden, Unavailable
from piecework.ops.status import SHOWN, Status, Watched
from tests.support.ops.requests import NOBODY, VIEWER

ENV = {"PIECEWORK_MODEL_ID": "m-1", "PIECEWORK_OPS_TOKENS": "ann=s3cret", "FACILITATOR_URL": "https://f.example/key"}


class Line:
    def __init__(self, *depth):
        self.found = depth

    def depth(self):
        if not self.found:
            raise Unavailable("the queue is out of reach; try again")
        return self.found


def test_the_status_names_version_doors_settings_and_what_waits():
    queues = {"task": Watched(Line(3, 1, 2), Line(4, 1, 0)), "due": Watched(Line(), Line())}

    found = Status("runtime=true,worker=false,kernel=true", ENV, queues).read(VIEWER)

    assert found == {
        "version": __version__,
        "doors": {"runtime": True, "worker": False, "kernel": True},
        "settings": {"PIECEWORK_MODEL_ID": "m-1"},
        "queues": {
            "task": {"waiting": 3, "in_flight": 1, "delayed": 2, "dead_letters": 5},
            "due": {"waiting": None, "in_flight": None, "delayed": None, "dead_letters": None},
        },
    }


def test_no_setting_that_is_shown_may_hold_a_secret():
    assert not [name for name in SHOWN if re.search("SECRET|TOKEN|KEY|URL|AUTH|WALLET", name)]


def test_who_may_not_read_is_refused_by_the_domain_too():
    with pytest.raises(Forbidden):
        Status("", {}, {}).read(NOBODY)
