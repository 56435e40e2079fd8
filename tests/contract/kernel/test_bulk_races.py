"""Cancelling many executions, while they go on: a list is old when its executions are cancelled."""

import pytest

from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.model.state import Status
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables


@pytest.fixture(params=["memory", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    store = None if request.param == "memory" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    return KernelStage(store=store, clock=clock)


def listed_then(stage, happens):
    """The list is read, and then something happens."""
    listed = stage.kernel.executions

    def executions(*asked):
        page = listed(*asked)
        happens()
        return page

    stage.kernel.executions = executions


def test_an_execution_that_has_left_the_status_of_the_filter_goes_on(stage):
    execution = stage.create(agent_id="triage")
    lines = []
    listed_then(stage, lambda: lines or lines.append(stage.agent("triage", "one")))

    answer = stage.kernel.cancel_all(Filter(Status.PENDING), "", 1)

    assert (answer["cancelled"], answer["remaining"]) == (0, 0)
    assert stage.kernel.get(execution).execution.status == "running"


def test_without_a_status_in_the_filter_an_open_execution_ends_whatever_it_has_become(stage):
    execution = stage.create(agent_id="triage")
    lines = []
    listed_then(stage, lambda: lines or lines.append(stage.agent("triage", "one")))

    answer = stage.kernel.cancel_all(Filter(agent_id="triage"), "", 1)

    assert (answer["cancelled"], answer["remaining"]) == (1, 0)
    assert stage.kernel.get(execution).execution.status == "cancelled"
