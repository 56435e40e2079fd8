"""GET /ops/status: what is shown, and what never is."""

import re

import pytest

from piecework import __version__
from piecework.durable.pauses import Pause
from piecework.errors import Forbidden, Unavailable
from piecework.ops.ages import KEPT_MS, Age, Ages
from piecework.ops.standing import AGENTS_SHOWN, Oldest, Standing, Unknowable
from piecework.ops.status import SHOWN, Status, Watched
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.requests import NOBODY, VIEWER

ENV = {"PIECEWORK_MODEL_ID": "m-1", "PIECEWORK_OPS_TOKENS": "ann=s3cret", "FACILITATOR_URL": "https://f.example/key"}


STANDING = Standing(list, list, {}, FakeClock())
AGES = {"task": Age(61, 0)}


class Line:
    def __init__(self, *depth):
        self.found = depth

    def depth(self):
        if not self.found:
            raise Unavailable("the queue is out of reach; try again")
        return self.found


def test_the_status_names_version_doors_settings_and_what_waits():
    queues = {"task": Watched(Line(3, 1, 2), Line(4, 1, 0)), "due": Watched(Line(), Line())}

    found = Status("runtime=true,worker=false,kernel=true", ENV, queues, lambda: AGES, STANDING).read(VIEWER)

    assert found == {
        "version": __version__,
        "doors": {"runtime": True, "worker": False, "kernel": True},
        "settings": {"PIECEWORK_MODEL_ID": "m-1"},
        "queues": {
            "task": {
                **{"waiting": 3, "in_flight": 1, "delayed": 2, "dead_letters": 5},
                **{"oldest_age_seconds": 61, "oldest_dead_letter_age_seconds": 0},
            },
            "due": {
                **{"waiting": None, "in_flight": None, "delayed": None, "dead_letters": None},
                **{"oldest_age_seconds": None, "oldest_dead_letter_age_seconds": None},
            },
        },
        "paused": [],
        "paused_agents": [],
        "has_more_paused_agents": False,
        "oldest": {},
    }


class TestAges:
    def setup_method(self):
        self.clock, self.answers, self.asked = FakeClock(), [AGES, {"task": Age(121, 0)}], 0
        self.ages = Ages(self.read, self.clock)

    def read(self):
        self.asked += 1
        if not self.answers:
            raise Unavailable("CloudWatch is out of reach; try again")
        return self.answers.pop(0)

    def test_they_are_asked_for_once_a_minute(self):
        assert [self.ages(), self.ages()] == [AGES, AGES] and self.asked == 1
        self.clock.now_ms += KEPT_MS
        assert self.ages() == {"task": Age(121, 0)} and self.asked == 2

    def test_a_service_that_fails_leaves_them_unknown_and_is_not_waited_for_again_within_the_minute(self):
        self.answers.clear()

        assert [self.ages(), self.ages()] == [{}, {}] and self.asked == 1
        self.clock.now_ms += KEPT_MS
        self.answers.append(AGES)
        assert self.ages() == AGES

    def test_a_clock_that_was_set_back_keeps_no_old_ages(self):
        self.ages()
        self.clock.now_ms -= 10 * KEPT_MS

        assert self.ages() == {"task": Age(121, 0)}


def test_no_setting_that_is_shown_may_hold_a_secret():
    assert not [name for name in SHOWN if re.search("SECRET|TOKEN|KEY|URL|AUTH|WALLET", name)]


def test_who_may_not_read_is_refused_by_the_domain_too():
    with pytest.raises(Forbidden):
        Status("", {}, {}, dict, STANDING).read(NOBODY)


def out_of_reach():
    raise Unavailable("the table is out of reach; try again")


def hidden():
    raise Unknowable


UNKNOWN = {"is_known": False, "of": None, "since_ms": None, "age_seconds": None}


def test_the_status_says_what_is_paused_and_since_when_the_oldest_waits():
    pause = Pause("door:worker", START_MS, "mia", "500s")
    looks = {"doubt": lambda: Oldest(START_MS - 61_500, "ctr_1"), "approval": lambda: None}

    found = Standing(lambda: [pause], list, looks, FakeClock()).read()

    assert found["paused"] == [{"scope": "door:worker", "since_ms": START_MS, "by": "mia", "reason": "500s"}]
    assert found["oldest"] == {
        "doubt": {"is_known": True, "of": "ctr_1", "since_ms": START_MS - 61_500, "age_seconds": 61},
        "approval": {**UNKNOWN, "is_known": True},
    }


def test_a_clock_that_is_ahead_makes_no_negative_age():
    look = {"doubt": lambda: Oldest(START_MS + 5_000, "ctr_1")}

    assert Standing(list, list, look, FakeClock()).read()["oldest"]["doubt"]["age_seconds"] == 0


def test_what_cannot_be_read_is_unknown_and_spoils_nothing_else():
    found = Standing(out_of_reach, out_of_reach, {"doubt": out_of_reach, "approval": hidden}, FakeClock()).read()

    assert (found["paused"], found["paused_agents"], found["has_more_paused_agents"]) == (None, None, False)
    assert found["oldest"] == {"doubt": UNKNOWN, "approval": UNKNOWN}


def test_more_paused_agents_than_are_shown_are_said():
    agents = [Pause(f"agent:a{number}", START_MS, "mia", "x") for number in range(AGENTS_SHOWN + 1)]

    found = Standing(list, lambda: agents, {}, FakeClock()).read()
    assert len(found["paused_agents"]) == AGENTS_SHOWN and found["has_more_paused_agents"]
