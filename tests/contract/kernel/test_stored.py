"""Rows that earlier code wrote, and rows that later code may write, are read by this code."""

import pytest

from piecework.kernel.errors import Conflict, Invalid
from piecework.kernel.model.state import Status
from tests.support.fakes import FakeClock
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.stored import WRITTEN_MS, put
from tests.support.kernel.tables import new_tables

NAMES = ("asked", "asked_twice", "granted", "many", "ended")


@pytest.fixture
def tables(embedded_aws):
    return new_tables(embedded_aws, FakeClock(WRITTEN_MS + 1_000))


@pytest.fixture
def stage(tables):
    return KernelStage(clock=FakeClock(WRITTEN_MS + 1_000), store=tables)


@pytest.mark.parametrize("newer", [False, True], ids=["of earlier code", "with members that nobody knows yet"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stored_execution_is_shown_listed_and_told(stage, tables, name, newer):
    old = put(stage, tables, name, newer)

    view = stage.kernel.get(old.id)
    events = stage.kernel.events(old.id, 0, 100)

    assert (view.execution.agent_id, view.input) == ("triage", {"ticket": 91})
    assert [event.sequence for event in events] == list(range(1, view.execution.sequence + 1))
    assert len(tables.executions.history(old.id, 50)) == {"asked_twice": 2, "ended": 1}.get(name, 0)
    waiting = [approval.step_id for approval in stage.kernel.approvals(10) if approval.execution_id == old.id]
    assert waiting == ([old.steps["asked"]] if "asked" in old.steps else [])


@pytest.mark.parametrize("newer", [False, True])
def test_a_question_that_earlier_code_asked_first_is_answered_without_naming_it(stage, tables, newer):
    old = put(stage, tables, "asked", newer)

    stage.kernel.signal(old.id, "approval", {"approved": True})

    assert stage.status(old.id) is Status.RUNNING
    stage.report(old.session, old.steps["asked"])


def test_a_later_question_of_earlier_code_must_be_named(stage, tables):
    old = put(stage, tables, "asked_twice")
    before = old.types

    with pytest.raises(Invalid, match="step_id is required"):
        stage.kernel.signal(old.id, "approval", {"approved": True})

    assert old.types == before
    stage.kernel.signal(old.id, "step.approve", {"step_id": old.steps["asked"], "approved": True})
    assert stage.status(old.id) is Status.RUNNING


@pytest.mark.parametrize("step", ["granted", "denied", "open"])
def test_a_late_answer_about_a_step_of_earlier_code_is_a_conflict(stage, tables, step):
    old = put(stage, tables, "asked_twice")
    before = old.types

    with pytest.raises(Conflict, match="denied" if step == "denied" else "does not wait"):
        stage.kernel.signal(old.id, "step.approve", {"step_id": old.steps[step], "approved": True})

    assert old.types == before


def test_work_of_earlier_code_goes_on(stage, tables):
    old = put(stage, tables, "granted")

    stage.report(old.session, old.steps["granted"], {"paid": True})
    stage.intend(old.session, "complete")

    assert stage.status(old.id) is Status.COMPLETED
