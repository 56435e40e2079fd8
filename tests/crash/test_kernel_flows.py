"""Crash sweep of the kernel: every command stopped before and after each call its process makes, then recovered.

Safety: no gap in the log, one end and it is the last event, every step ends once, GET agrees with the log. Liveness:
an agent, a runner and a client that merely go on bring the execution to its expected end, and nothing is left behind:
no busy connection, no queued job, no waiting marker. Whoever got no answer asks again, as the clients do.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from piecework.kernel.backends import Places
from piecework.kernel.errors import KernelError
from piecework.kernel.model.change_builder import ChangeBuilder
from piecework.kernel.model.state import Status
from piecework.kernel.settings import KernelSettings
from piecework.kernel.wiring import KernelDoor
from tests.support.crash import Crashed, Tap, Tapped, report
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.stage import GATED
from tests.support.kernel.tables import Strict
from tests.support.kernel.world import World

TWO_KEYS = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
Deed = Callable[[World], object]


@dataclass(frozen=True)
class Flow:
    """What is there before, the command, and how the execution must end."""

    name: str
    prepare: Deed
    act: Deed
    end: Status = Status.COMPLETED
    asks_again: bool = False  # its caller repeats a request that got no answer


def nothing(world: World) -> None:
    pass


def assigned(world: World) -> None:
    world.connect()
    world.create()


def without_runner(world: World) -> None:
    world.connect_agent()
    world.create()


def called(world: World) -> None:
    assigned(world)
    world.call()


def called_locally(world: World) -> None:
    assigned(world)
    world.call("notes.find", remote=False, key="local")


def queued(world: World) -> None:
    without_runner(world)
    world.call()


def tool_done(world: World) -> None:
    called(world)
    world._work()
    world.listen()


def waited(world: World) -> None:
    tool_done(world)
    world.wait()


def signalled(world: World) -> None:
    tool_done(world)
    world.stage.kernel.signal(world.execution_id, "go", 1)


def gated(world: World) -> None:
    assigned(world)
    world.call(GATED, remote=False, key="gated")


def gated_remotely(world: World) -> None:
    assigned(world)
    world.call(GATED, remote=True, key="gated")


def resumed(world: World) -> None:
    waited(world)
    world.stage.kernel.signal(world.execution_id, "go", 1)


def agent_gone(world: World) -> None:
    called(world)
    world.lose_agent()


def agent_gone_while_blocked(world: World) -> None:
    waited(world)
    world.lose_agent()


def unattended(world: World) -> None:
    agent_gone_while_blocked(world)
    world.stage.kernel.agent_lost(world.execution_id, world.state.session.id)


def retried(world: World) -> None:
    called(world)
    fail_retryably(world)
    world.clock.move(2)


def many_calls(world: World) -> None:
    assigned(world)
    for number in range(90):
        world.invoke("notes.find", remote=False, key=f"many-{number}")


def job_untaken(world: World) -> None:
    called(world)
    world.lose_runner()


def step_of(world: World) -> str:
    return next(iter(world.state.steps))


def job_of(world: World) -> tuple[str, str, str]:
    step = world.state.steps[step_of(world)]
    assert step.job is not None
    return world.execution_id, step.id, step.job.id


def finish_job(world: World) -> None:
    world.finish(world.jobs[-1])


def fail_retryably(world: World) -> None:
    world.done_jobs.add(world.jobs[-1]["id"])
    world.finish(world.jobs[-1], success=False, error="busy", retryable=True)


def resolve(approved: bool) -> Deed:
    def deed(world: World) -> None:
        payload = {"step_id": step_of(world), "approved": approved}
        world.stage.kernel.signal(world.execution_id, "step.approve", payload)

    return deed


def after(seconds: float) -> Deed:
    def deed(world: World) -> None:
        world.clock.move(seconds)
        world.stage.kernel.run_due_timers(world.execution_id)

    return deed


def signal_go(world: World) -> None:
    world.stage.kernel.signal(world.execution_id, "go", {"by": "mia"})


def lose(world: World) -> None:
    world.stage.kernel.agent_lost(world.execution_id, world.state.session.id)


def intend(kind: str, **members: object) -> Deed:
    return lambda world: world.stage.intend(world.session, kind, **members)


FLOWS = [
    Flow("create", World.connect, World.create),
    Flow("create_and_wait", nothing, World.create),
    Flow("connect_agent", World.create, World.connect_agent),
    Flow("connect_runner", queued, World.connect_runner),
    Flow("invoke_local", assigned, lambda world: world.invoke("notes.find", remote=False, key="x"), asks_again=True),
    Flow("invoke_remote", assigned, World.call, asks_again=True),
    Flow("invoke_queued", without_runner, World.call, asks_again=True),
    Flow("invoke_gated", assigned, lambda world: world.invoke(GATED, key="gated"), asks_again=True),
    Flow("invoke_again", tool_done, World.call, asks_again=True),
    Flow("step_result", called_locally, lambda world: world.stage.report(world.session, step_of(world))),
    Flow("job_result", called, finish_job, asks_again=True),
    Flow("job_failure", called, fail_retryably, asks_again=True),
    Flow("job_retry", retried, after(0)),
    Flow("started", called, lambda world: world.stage.kernel.started(step_of(world), world.execution_id, "geo-1")),
    Flow("requeue", job_untaken, lambda world: world.stage.kernel.requeue(*job_of(world))),
    Flow("wait", tool_done, World.wait),
    Flow("wait_for_stored_signal", signalled, World.wait),
    Flow("signal", waited, signal_go),
    Flow("signal_unattended", unattended, signal_go),
    Flow("approve", gated, resolve(True)),
    Flow("approve_remote", gated_remotely, resolve(True)),
    Flow("deny", gated, resolve(False)),
    Flow("complete", resumed, intend("complete", output=1)),
    Flow("fail", resumed, intend("fail", error="boom"), Status.FAILED, asks_again=True),
    Flow("cancel", called, lambda world: world.stage.kernel.cancel(world.execution_id), Status.CANCELLED, True),
    Flow(
        "cancel_many", many_calls, lambda world: world.stage.kernel.cancel(world.execution_id), Status.CANCELLED, True
    ),
    Flow("agent_lost", agent_gone, lose),
    Flow("agent_lost_blocked", agent_gone_while_blocked, lose),
    Flow("recover", unattended, after(31)),
    Flow("send_failed", assigned, lambda w: w.stage.kernel.send_failed(w.execution_id, w.session["session_id"])),
    Flow("step_timeout", called_locally, after(301), Status.FAILED),
    Flow("execution_timeout", waited, after(3_601), Status.FAILED),
]


QUICK = ("invoke_queued", "cancel")  # over the embedded AWS; the rest of the flows make the same kinds of call
Worlds = Callable[[], World]


def in_memory() -> World:
    """Every call to a port is a point."""
    clock = FakeClock(START_MS)
    return World(new_store(clock, KernelSettings()), clock)


@pytest.fixture(scope="module")
def on_aws(embedded_aws) -> Worlds:
    """Every call to AWS is a point; each world has tables of its own."""
    dynamodb, s3 = embedded_aws.client("dynamodb"), embedded_aws.client("s3")
    bucket = embedded_aws.new_bucket()

    def new_world() -> World:
        clock, tap = FakeClock(START_MS), Tap()
        kernel, due = new_table(dynamodb), new_table(dynamodb)
        places = Places(table=kernel, due_table=due, bucket=bucket)
        tapped = SimpleNamespace(dynamodb=Tapped(Strict(dynamodb), tap), s3=Tapped(s3, tap))
        plain = SimpleNamespace(dynamodb=Strict(dynamodb), s3=s3)
        stores = [KernelDoor({}), KernelDoor({})]
        for door, clients in zip(stores, (plain, tapped), strict=True):
            vars(door).update(clients=clients, places=places, clock=clock)
        return World(stores[0], clock, stores[1], tap, sweep_seconds=5)

    return new_world


def new_table(dynamodb: Any) -> str:
    name = f"two-keys-{uuid4().hex}"
    dynamodb.create_table(TableName=name, **TWO_KEYS)
    return name


def count_calls(worlds: Worlds, flow: Flow) -> int:
    """The calls of the command when nothing goes wrong."""
    world = worlds()
    flow.prepare(world)
    world.tap.arm(None)
    flow.act(world)
    return len(world.tap.calls)


def sweep(worlds: Worlds, flow: Flow, point: int) -> list[str]:
    """Crash at one point, recover, and say what was broken."""
    world = worlds()
    flow.prepare(world)
    world.tap.arm(point)
    try:
        flow.act(world)
        problems = ["the crash did not happen"]
    except Crashed:
        problems = []
    world.tap.arm(None)
    if flow.name.startswith("create") and not exists(world):
        return problems
    world.killed()
    if flow.asks_again:
        with suppress(KernelError):
            flow.act(world)
    if not world.recover(lambda: world.execution_id != "" and world.state.status.is_terminal):
        return [f"{flow.name}@{point}: still {world.state.status} after {world.types}"]
    if world.state.status is not flow.end:
        problems.append(f"ended as {world.state.status}")
    return [f"{flow.name}@{point}: {problem}" for problem in problems + world.problems()]


def exists(world: World) -> bool:
    """Whether the execution was created; a client whose request got no answer does not know."""
    waiting = world.store.agents.agent_queue(world.agent_id).waiting
    held = world.store.agents.sessions(world.agent_id, world.consumer_id)
    world.execution_id = next(iter([*waiting, *held]), "")
    return world.execution_id != ""


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_no_crash_point_of_a_kernel_command_breaks_a_promise(flow):
    assert swept(in_memory, flow, f"kernel_{flow.name}") == []


@pytest.mark.parametrize(
    "flow",
    [pytest.param(flow, marks=[] if flow.name in QUICK else pytest.mark.slow, id=flow.name) for flow in FLOWS],
)
def test_no_crash_between_calls_to_aws_breaks_a_promise(on_aws, flow):
    assert swept(on_aws, flow, f"kernel_aws_{flow.name}") == []


def swept(worlds: Worlds, flow: Flow, name: str) -> list[str]:
    """What was broken, over all points of a flow; a flow without a name is not reported."""
    points = 2 * count_calls(worlds, flow)
    assert points > 0
    violations = [problem for point in range(points) for problem in sweep(worlds, flow, point)]
    if name:
        report(name, points, violations)
    return violations


def test_the_sweep_notices_a_result_that_nobody_is_told(monkeypatch):
    pushing = ChangeBuilder.push

    def forgetful(builder, kind, *ref, **data):
        if kind != "tool.result":
            pushing(builder, kind, *ref, **data)

    monkeypatch.setattr(ChangeBuilder, "push", forgetful)
    flow = next(flow for flow in FLOWS if flow.name == "job_result")

    assert swept(in_memory, flow, "")


def test_an_execution_past_its_retention_is_gone_after_a_crash_too():
    world = in_memory()
    assigned(world)
    world.stage.intend(world.session, "complete")
    world.clock.move(604_801)
    for point in range(2):
        world.tap.arm(point)
        with suppress(Crashed):
            world.stage.kernel.run_due_timers(world.execution_id)
        world.tap.arm(None)
        world.stage.kernel.run_due_timers(world.execution_id)

    assert world.store.executions.view(world.execution_id) is None
