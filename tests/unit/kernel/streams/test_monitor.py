"""The monitor stream's route: where it goes on, and when there is nothing to go on with."""

import pytest

from tests.support.kernel.desk import Caller
from tests.support.kernel.functions import streams_function
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.stage import KernelStage

LOG = ["execution.created", "execution.started", "intent.accepted", "execution.completed"]


@pytest.fixture
def stage():
    return KernelStage()


@pytest.fixture
def door(stage):
    """The streams' application over stores in memory."""
    with streams_function(stage, FakeHints(), origins=("*",)) as module:
        yield Caller(module.app)


@pytest.fixture
def ended(stage):
    agent = stage.agent()
    execution_id = stage.create()
    stage.intend(agent.take("execution.assigned"), "complete")
    return execution_id


def told(answer) -> list[str]:
    return [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]


@pytest.mark.parametrize(
    ("query", "last_event_id", "after"),
    [
        ("", None, 0),
        ("", "2", 2),
        ("", "3", 3),
        ("", "junk", 0),
        ("", "", 0),
        ("", "-1", 0),
        ("?after_sequence=1", "3", 1),
        ("?after_sequence=0", "3", 0),
        ("?after_sequence=junk", "3", 0),
        ("?after_sequence=2", None, 2),
    ],
)
def test_a_reader_that_comes_again_is_told_the_rest_only(door, ended, query, last_event_id, after):
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}

    answer = door.get(f"/v0/executions/{ended}/stream{query}", headers=headers)

    assert answer.status_code == 200
    assert told(answer) == LOG[after:]


@pytest.mark.parametrize(
    ("query", "headers"), [("", {"Last-Event-ID": "4"}), ("?after_sequence=4", {}), ("", {"Last-Event-ID": "999"})]
)
def test_a_reader_that_knows_the_end_is_told_not_to_come_again(door, ended, query, headers):
    answer = door.get(f"/v0/executions/{ended}/stream{query}", headers=headers)

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["x-request-id"] and answer.headers["access-control-allow-origin"] == "*"


def test_a_log_that_nobody_has_is_404_wherever_the_reader_was(door):
    assert door.get("/v0/executions/unknown/stream", headers={"Last-Event-ID": "4"}).status_code == 404
