"""An execution that this version cannot read, as after a rollback, is in nobody's way."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from piecework.errors import PieceworkError
from piecework.kernel.model.due_times import AGENT_DUE
from piecework.kernel.model.state import Status
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.stage import KernelStage

TROUBLE = [TypeError("a member that this version does not know"), PieceworkError("the table refuses this for good")]


@pytest.fixture
def stage() -> KernelStage:
    return KernelStage()


@pytest.fixture(params=TROUBLE, ids=["unreadable", "refused for good"])
def spoil(request, stage, monkeypatch) -> Callable[[str], None]:
    """Make each read of an execution fail."""
    kind = type(stage.store.executions)

    def spoiled(unreadable: str) -> None:
        for name in ("read", "view"):
            monkeypatch.setattr(kind, name, failing(getattr(kind, name), unreadable, request.param))

    return spoiled


def failing(read: Any, unreadable: str, trouble: Exception) -> Any:
    def found(self: Any, execution_id: str, **more: Any) -> Any:
        if execution_id == unreadable:
            raise trouble
        return read(self, execution_id, **more)

    return found


def created(stage: KernelStage, count: int) -> list[str]:
    """Executions, the oldest first."""
    names = list[str]()
    for number in range(count):
        names.append(stage.create({"n": number}))
        stage.clock.move(0.1)
    return names


def test_an_agent_that_connects_gets_all_that_wait_but_this_one(stage, spoil):
    waiting = created(stage, 3)
    spoil(waiting[0])

    agent = stage.agent()
    for _ in range(3):
        agent.look()

    assert [assigned["execution_id"] for assigned in agent.of("execution.assigned")] == waiting[1:]


def test_who_reports_a_job_is_answered_though_the_next_job_is_of_this_one(stage, spoil):
    agent = stage.agent()
    runner = stage.runner()
    first, second, third = created(stage, 3)
    agent.look()
    sessions = {each["execution_id"]: each for each in agent.of("execution.assigned")}
    steps = dict[str, str]()
    for name in (first, second, third):
        steps[name] = stage.invoke(sessions[name], remote=True)
        stage.clock.move(0.1)
    job = runner.take("job.assigned")
    spoil(second)

    stage.finish(job)

    for _ in range(3):
        stage.clock.move(5)
        runner.look()
    assert stage.store.executions.read(first, step_id=steps[first]).step.outcome is not None
    assert [each["step_id"] for each in runner.of("job.assigned")] == [steps[first], steps[third]]


def test_a_stream_writes_the_messages_behind_one_of_this_one(stage, spoil):
    agent = stage.agent()
    names = created(stage, 3)
    spoil(names[0])

    for _ in range(3):
        stage.clock.move(5)
        agent.look()

    assert [assigned["execution_id"] for assigned in agent.of("execution.assigned")] == names[1:]
    assert not agent.has_ended


def test_a_successor_goes_on_behind_an_assignment_of_this_one_that_may_never_have_been_read(spoil, stage):
    stage = KernelStage(KernelSettings(rotation_ms=45_000), stage.clock, stage.store)
    agent = stage.agent()
    [name] = created(stage, 1)
    agent.look()
    spoil(name)
    agent.is_lost = agent.has_ended = True

    again = stage.agent()
    for _ in range(5):
        stage.clock.move(4)
        again.look()
    other = stage.create()

    assert again.take("execution.assigned")["execution_id"] == other


def test_the_loss_of_an_agent_ends_all_its_sessions_but_this_one(stage, spoil):
    agent = stage.agent()
    names = created(stage, 5)
    agent.look()
    spoil(names[2])
    agent.close()

    for _ in range(4):
        stage.clock.move(10)
        for due in list(stage.store.due_times.ripe(AGENT_DUE, stage.clock())):
            with suppress(PieceworkError, TypeError):  # as a sweep does
                stage.liveness.check(due)

    others = [name for name in names if name != names[2]]
    assert [stage.status(name) for name in others] == [Status.PENDING] * 4
    assert stage.store.agents.find("triage", "one"), "who can read it ends its session, too"


def test_what_several_sessions_meet_at_the_end_is_all_told(stage, spoil, caplog):
    agent = stage.agent()
    names = created(stage, 3)
    agent.look()
    spoil(names[0])
    spoil(names[2])
    agent.close()
    stage.clock.move(10)

    [due] = stage.store.due_times.ripe(AGENT_DUE, stage.clock())
    with pytest.raises((PieceworkError, TypeError)):
        stage.liveness.check(due)

    assert [record.exc_info is not None for record in caplog.records if "further session" in record.message] == [True]


def test_a_call_is_answered_though_what_follows_it_meets_a_bug(stage, monkeypatch):
    agent = stage.agent()
    execution_id = stage.create()
    session = agent.take("execution.assigned")

    def meets_a_bug(tool_id: str) -> bool:
        raise KeyError(tool_id)

    monkeypatch.setattr(stage.dispatcher, "pump_tool", meets_a_bug)

    step_id = stage.invoke(session, remote=True)

    assert step_id in stage.state(execution_id).steps
    assert stage.status(execution_id) is Status.RUNNING
