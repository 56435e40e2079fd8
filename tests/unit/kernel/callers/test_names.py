"""`by`: the name of the token of the caller who caused an event, in every event of a command."""

from collections.abc import Callable
from typing import Any

import pytest

from kernel.http.api import ROUTES
from kernel.http.routes import DescribedRoute
from piecework_cli.kernel_executions import line_of
from tests.support.kernel.desk import GATED, Desk, NamedDesk, Work

TOKENS = ("setup", "ada", "bob")


NO_EVENTS = {
    "/v0/agents/{agent_id}/pause",
    "/v0/agents/{agent_id}/resume",
    "/v0/runners/{runner_id}/capabilities",
    "/v0/runners/{runner_id}/tools",
    "/v0/runners/{runner_id}",
    "/v0/executions/{execution_id}/forget",
}
Act = Callable[[], Any]


def created(desk: NamedDesk) -> tuple[str, Act]:
    return "", desk.create


def created_for_a_connected_agent(desk: NamedDesk) -> tuple[str, Act]:
    desk.agent()
    return "", desk.create


def on_work(prepare: Callable[[Work], Act]) -> Callable[[NamedDesk], tuple[str, Act]]:
    def prepared(desk: NamedDesk) -> tuple[str, Act]:
        work = desk.work()
        return work.id, prepare(work)

    return prepared


def reporting(success: bool) -> Callable[[Work], Act]:
    def prepared(work: Work) -> Act:
        step_id = work.step()
        return lambda: work.report(step_id, success, error="" if success else "no")

    return prepared


def with_job(act: Callable[[Work, Any], Any]) -> Callable[[Work], Act]:
    def prepared(work: Work) -> Act:
        runner = work.desk.stage.runner()
        work.remote()
        job = runner.take("job.assigned")
        return lambda: act(work, job)

    return prepared


def answering(tool: dict[str, Any], **said: Any) -> Callable[[Work], Act]:
    def prepared(work: Work) -> Act:
        step_id = work.step(GATED, **tool)
        return lambda: work.desk.signal(work.id, "step.approve", payload={"step_id": step_id, **said})

    return prepared


def cancelling(work: Work) -> Act:
    work.step()
    work.step()
    return lambda: work.desk.cancel(work.id)


def repeating(desk: NamedDesk) -> tuple[str, Act]:
    work = desk.work()
    work.intend("complete")
    return "", lambda: desk.post(f"/v0/executions/{work.id}/again").json()["id"]


def cancelling_all(work: Work) -> Act:
    return lambda: work.desk.post("/v0/executions/cancel", {"agent_id": "triage", "confirm": 1})


def waiting(work: Work) -> Act:
    work.intend("wait", signal_type="go")
    return lambda: work.desk.signal(work.id, "go")


COMMANDS: dict[str, tuple[Callable[[NamedDesk], tuple[str, Act]], list[str]]] = {
    "create": (created, ["execution.created"]),
    "create and give": (created_for_a_connected_agent, ["execution.created", "execution.started"]),
    "call a local tool": (
        on_work(lambda work: work.call),
        ["intent.accepted", "step.created"],
    ),
    "call a remote tool": (on_work(lambda work: lambda: work.call("geo.lookup", remote=True)), ["step.created"]),
    "call a gated tool": (on_work(lambda work: lambda: work.call(GATED)), ["execution.blocked"]),
    "call a denied tool": (on_work(lambda work: lambda: work.call("rm.all")), ["intent.denied"]),
    "wait": (on_work(lambda work: lambda: work.intend("wait", signal_type="go")), ["execution.blocked"]),
    "complete": (on_work(lambda work: lambda: work.intend("complete", output=1)), ["execution.completed"]),
    "fail": (on_work(lambda work: lambda: work.intend("fail", error="no")), ["execution.failed"]),
    "report a result": (on_work(reporting(True)), ["step.completed"]),
    "report a failure": (on_work(reporting(False)), ["step.failed"]),
    "begin a job": (on_work(with_job(lambda work, job: work.started(job["step_id"]))), ["step.started"]),
    "finish a job": (on_work(with_job(lambda work, job: work.result(job))), ["step.completed"]),
    "fail a job": (on_work(with_job(lambda work, job: work.result(job, False, error="no"))), ["step.failed"]),
    "fail a job for now": (
        on_work(with_job(lambda work, job: work.result(job, False, error="no", retryable=True))),
        ["step.failed", "step.retried"],
    ),
    "send a signal": (on_work(lambda work: lambda: work.desk.signal(work.id)), ["signal.received"]),
    "send what it waits for": (on_work(waiting), ["signal.received", "execution.resumed"]),
    "approve": (on_work(answering({}, approved=True)), ["step.dispatched", "execution.resumed"]),
    "approve a remote step": (on_work(answering({"remote": True}, approved=True)), ["step.dispatched"]),
    "deny": (on_work(answering({}, approved=False)), ["step.failed", "execution.resumed"]),
    "cancel": (on_work(cancelling), ["step.cancelled", "execution.cancelled"]),
    "cancel all": (on_work(cancelling_all), ["execution.cancelled"]),
    "run again": (repeating, ["execution.created"]),
}


@pytest.mark.parametrize("caller", ["ada", "bob"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_event_of_a_command_names_its_caller(command, caller):
    desk = NamedDesk(TOKENS)
    prepare, types = COMMANDS[command]
    execution_id, act = prepare(desk)
    before = len(desk.events(execution_id)) if execution_id else 0

    with desk.turned(caller):
        made = act()

    events = desk.events(execution_id or made)[before:]
    assert {event.get("by") for event in events} == {caller}
    assert set(types) <= {event["type"] for event in events}


def test_every_route_that_writes_events_is_among_these_commands():
    asked = set()
    for prepare, _ in COMMANDS.values():
        desk = NamedDesk(TOKENS)
        _, act = prepare(desk)
        desk.signing.sent.clear()
        act()
        asked |= {route.path for method, path in desk.signing.sent for route in ROUTES if matches(route, method, path)}

    assert {route.path for route in ROUTES if "GET" not in route.methods} - NO_EVENTS == asked


def matches(route: DescribedRoute, method: str, path: str) -> bool:
    """Whether a route would serve a request, which none before it does."""
    serving = [one for one in ROUTES if method in one.methods and one.path_regex.match(path)]
    return serving[:1] == [route]


def test_what_the_kernel_does_by_itself_names_nobody():
    desk = NamedDesk(TOKENS)
    first, second = desk.work(), desk.create("away")
    first.step()
    desk.stage.runner()
    before = len(desk.events(first.id))
    first.agent.close()
    desk.stage.pass_time(60)
    desk.agent("away").look()
    desk.stage.pass_time(3_600)

    own = desk.events(first.id)[before:]
    given = desk.events(second)[1:]
    assert {"agent.timeout", "step.cancelled", "execution.failed"} <= {event["type"] for event in own}
    assert {"execution.started", "execution.failed"} <= {event["type"] for event in given}
    assert [event for event in (*own, *given) if "by" in event] == []


def test_a_timer_that_a_callers_command_meets_is_not_the_callers_doing():
    desk = NamedDesk(TOKENS)
    work = desk.work()
    desk.stage.clock.move(3_601)

    with desk.turned("ada"):
        assert desk.cancel(work.id).status_code == 409

    assert work.types[-1] == "execution.failed"
    assert [event for event in work.desk.events(work.id) if event.get("by") == "ada"] == []


def test_a_door_without_tokens_names_nobody():
    desk = Desk()
    work = desk.work()
    work.intend("complete")

    assert [event for event in desk.events(work.id) if "by" in event] == []


def test_a_reader_of_the_stream_sees_the_same_names_as_one_of_the_pages():
    desk = NamedDesk(TOKENS)
    work = desk.work()
    with desk.turned("ada"):
        work.step()

    streamed = [data for _, data in desk.stage.monitor(work.id).seen]
    assert streamed == desk.events(work.id)
    assert [event.get("by") for event in streamed] == ["setup", "setup", "ada", "ada"]


def test_a_line_of_the_command_names_who_caused_an_event():
    event = {"sequence": 3, "timestamp": "2026-01-01T00:00:00Z", "type": "execution.cancelled", "payload": {}}

    assert "  by ada  {}" in line_of({**event, "by": "ada"})
    assert "by" not in line_of(event)
