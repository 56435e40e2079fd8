"""Every kind of waiting and of failing that an execution can show, each brought about at a kernel door.

KINDS["a signal"].happen(stage)     # the execution's id
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.kernel.service.assigning import CLAIM_MS
from tests.support.kernel.stage import GATED, KernelStage

AGENT = "refund-desk"
HOSTED = "hosted-desk"  # an executor's name
TOOL = "web.search"


@dataclass(frozen=True)
class Kind:
    """How an execution comes to stand so, and what is then shown."""

    happen: Callable[[KernelStage], str]
    waiting_for: str | None = None
    error: str | None = None


def a_stage(store: Any = None, clock: Any = None) -> KernelStage:
    """A kernel that knows one hosted agent; nobody runs it."""
    parts = {"can_wake": True, "hosted_names": {HOSTED}, "wake": lambda execution_id, delay_ms: None}
    return KernelStage(store=store, clock=clock, **parts)


def running(stage: KernelStage) -> Any:
    """An execution's assignment to a connected agent."""
    agent = stage.agent(AGENT)
    stage.create({"order": 7}, AGENT)
    return agent.take("execution.assigned")


def with_runner(stage: KernelStage) -> tuple[str, Any]:
    """An execution, and the job of it that a runner was given."""
    runner, session = stage.runner("search-1", "one", TOOL), running(stage)
    stage.invoke(session, TOOL, remote=True)
    return session["execution_id"], runner.take("job.assigned")


def nobody(stage: KernelStage) -> str:
    return stage.create({"order": 7}, AGENT)


def about_to_be_taken(stage: KernelStage) -> str:
    execution = nobody(stage)
    [waiting] = stage.store.agents.waiting(AGENT)
    stage.store.agents.claim(AGENT, waiting, stage.clock() + CLAIM_MS)  # somebody else is giving it out
    stage.agent(AGENT)
    return execution


def paused(stage: KernelStage) -> str:
    execution = nobody(stage)
    stage.kernel.pause(AGENT, "it refunds twice", "mia")
    stage.agent(AGENT)
    return execution


def left_after_an_answer(stage: KernelStage) -> str:
    """Its agent left while it was blocked, and the signal has come since."""
    execution = for_signal(stage)
    stage.lines[0].close()
    stage.pass_time(12)
    stage.signal(execution, "go", None)
    return execution


def at_work(stage: KernelStage) -> str:
    return str(running(stage)["execution_id"])


def hosted_at_work(stage: KernelStage) -> str:
    return stage.create({"order": 7}, HOSTED)


def local_step(stage: KernelStage) -> str:
    session = running(stage)
    stage.invoke(session, "orders.find")
    return str(session["execution_id"])


def for_person(stage: KernelStage) -> str:
    session = running(stage)
    stage.invoke(session, GATED)
    return str(session["execution_id"])


def for_signal(stage: KernelStage) -> str:
    session = running(stage)
    stage.intend(session, "wait", signal_type="go")
    return str(session["execution_id"])


def for_runner(stage: KernelStage) -> str:
    session = running(stage)
    stage.invoke(session, TOOL, remote=True)
    return str(session["execution_id"])


def job_given(stage: KernelStage) -> str:
    return with_runner(stage)[0]


def job_begun(stage: KernelStage) -> str:
    execution, job = with_runner(stage)
    stage.started(job, "search-1")
    return execution


def for_retry(stage: KernelStage) -> str:
    execution, job = with_runner(stage)
    ids = ("search-1", job["id"], job["execution_id"], job["step_id"])
    stage.kernel.job_result(*ids, False, None, "busy", True)
    return execution


def several(stage: KernelStage) -> str:
    session = running(stage)
    for tool_id, remote in (("orders.find", False), (TOOL, True), ("orders.note", False)):
        stage.invoke(session, tool_id, remote=remote, key=tool_id)
    return str(session["execution_id"])


def two(stage: KernelStage) -> str:
    session = running(stage)
    for tool_id in ("orders.find", "orders.note"):
        stage.invoke(session, tool_id, key=tool_id)
    return str(session["execution_id"])


def given_up(stage: KernelStage) -> str:
    session = running(stage)
    stage.intend(session, "fail", error="order 7 is not ours")
    return str(session["execution_id"])


def out_of_time(stage: KernelStage) -> str:
    execution = nobody(stage)
    stage.clock.move(stage.settings.execution_timeout_ms / 1000)
    return execution


def step_out_of_time(stage: KernelStage) -> str:
    execution = local_step(stage)
    stage.clock.move(stage.settings.step_timeout_ms / 1000)
    return execution


def ended_well(stage: KernelStage) -> str:
    session = running(stage)
    stage.intend(session, "complete", output={"refunded": True}, has_output=True)
    return str(session["execution_id"])


def cancelled(stage: KernelStage) -> str:
    execution = for_signal(stage)
    stage.cancel(execution)
    return execution


KINDS = {
    "no process of its agent is connected": Kind(nobody, f'no agent "{AGENT}" is connected'),
    "a process of its agent is connected and is about to get it": Kind(
        about_to_be_taken, f'agent "{AGENT}" to take it'
    ),
    "operators have paused its agent": Kind(paused, f'agent "{AGENT}" to be resumed; it is paused'),
    "its agent has left, and what it waited for has come": Kind(
        left_after_an_answer, f'no agent "{AGENT}" is connected'
    ),
    "its agent is at work": Kind(at_work, f'agent "{AGENT}" to go on'),
    "it is the turn of a hosted agent": Kind(hosted_at_work, f'hosted agent "{HOSTED}" to go on'),
    "its agent does a step itself": Kind(local_step, f'agent "{AGENT}": orders.find'),
    "a person has to approve a call": Kind(for_person, f"a person: {GATED}"),
    "a signal": Kind(for_signal, 'signal "go"'),
    "no runner is free for a call": Kind(for_runner, f"a runner for {TOOL}"),
    "a runner was given a call": Kind(job_given, f'runner "search-1" to begin {TOOL}'),
    "a runner is at work": Kind(job_begun, f'runner "search-1": {TOOL}'),
    "a call is tried again later": Kind(for_retry, f"attempt 2 of {TOOL} at {{retry}}"),
    "two steps": Kind(two, f'agent "{AGENT}": orders.find, and 1 more step'),
    "several steps; the one that needs somebody is named": Kind(several, f"a runner for {TOOL}, and 2 more steps"),
    "its agent has given up": Kind(given_up, error="order 7 is not ours"),
    "its time is over": Kind(out_of_time, error="execution exceeded maximum duration"),
    "the time of a step is over": Kind(step_out_of_time, error="step timed out"),
    "it has completed": Kind(ended_well),
    "it was cancelled": Kind(cancelled),
}
