"""Creating, assigning, ending and resetting executions (specification sections 1.1, 1.7, 1.8)."""

from typing import Literal

from piecework.kernel.decide import checks, denials
from piecework.kernel.model import timers
from piecework.kernel.model.change_builder import ChangeBuilder, Decision, Entry, excess
from piecework.kernel.model.changes import LostConsumer
from piecework.kernel.model.commands import AgentLost, Assign, Create, SendFailed
from piecework.kernel.model.payloads import (
    AgentTimeout,
    ExecutionCancelled,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionReset,
    ExecutionStarted,
    StepTimedOut,
)
from piecework.kernel.model.state import Execution, Status, Step, StepStatus
from piecework.kernel.policy.verdicts import OnTimeout
from piecework.kernel.settings import ENDED_AT_ONCE
from piecework.values import replace

CANCELLED_BY_REQUEST = "cancelled by request"
OUT_OF_TIME = "execution exceeded maximum duration"
STEP_OUT_OF_TIME = "step timed out"

BY_CANCEL = "execution cancelled"  # reasons of `step.cancelled`
BY_DISCONNECT = "agent disconnected"
BY_SIBLING = "sibling step timed out"
BY_TIMEOUT = "execution timed out"
BY_SILENCE = "approval timed out"

NOTHING = Decision(None, answer=False)


def create(builder: ChangeBuilder, command: Create) -> Decision:
    """A new execution is tied to the consumer that was chosen, or waits for one."""
    payload = ExecutionCreated(agent_id=command.agent_id, input=command.input, labels=dict(command.labels))
    if command.again_of:
        payload["again_of"] = command.again_of
    builder.append("execution.created", payload)
    builder.input, builder.again_of = command.input, command.again_of
    if command.consumer_id:
        _give(builder, command.consumer_id)
    return Decision(builder.change())


def assign(builder: ChangeBuilder, command: Assign) -> Decision:
    """A waiting execution is tied to a consumer; one that runs with nobody working on it starts over."""
    if not builder.state.is_waiting:
        return NOTHING
    if builder.state.status is Status.RUNNING:
        if excess(builder.state):
            return _shed(builder, BY_DISCONNECT)
        builder.batch([*_cancelled(builder, BY_DISCONNECT), _reset(builder.state, "recovery")])
    _give(builder, command.consumer_id)
    return Decision(builder.change(), answer=True)


def cancel(builder: ChangeBuilder) -> Decision:
    """A client's wish to end it is final."""
    checks.not_ended(builder.state)
    if excess(builder.state):
        return _shed(builder, BY_CANCEL)
    for kind, payload, step_id in _cancelled(builder, BY_CANCEL):
        builder.append(kind, payload, step_id)
    builder.push("execution.cancelled", reason=CANCELLED_BY_REQUEST)
    builder.append("execution.cancelled", ExecutionCancelled(reason=CANCELLED_BY_REQUEST))
    builder.keep_session_after_end()
    return Decision(builder.change())


def agent_lost(builder: ChangeBuilder, command: AgentLost) -> Decision:
    """A running execution starts over elsewhere; a blocked one only notes that its agent is gone."""
    state = builder.state
    if state.status.is_terminal or state.session is None or state.session.id != command.session_id:
        return NOTHING
    _leave_answers(builder, command)
    gone = ("agent.timeout", AgentTimeout(session_id=command.session_id), "")
    if state.status is Status.BLOCKED:
        builder.batch([gone])
        return Decision(builder.change(), answer=True)
    if excess(state):
        return _shed(builder, BY_DISCONNECT)
    builder.batch([gone, *_cancelled(builder, BY_DISCONNECT), _reset(state, "agent_disconnect")])
    return Decision(builder.change(), answer=True)


def _leave_answers(builder: ChangeBuilder, command: AgentLost) -> None:
    """What a person answered after the last stream of a lost consumer had ended has reached nobody."""
    consumer = command.consumer
    if consumer is None:
        return
    approvals = builder.approvals.not_taken(consumer.generation)
    if approvals != builder.approvals:
        builder.approvals = approvals
        builder.lost = LostConsumer(consumer.agent_id, consumer.consumer_id, consumer.generation)


def send_failed(builder: ChangeBuilder, command: SendFailed) -> Decision:
    """An assignment that never reached its stream is taken back."""
    state = builder.state
    if state.status is not Status.RUNNING or state.session is None or state.session.id != command.session_id:
        return NOTHING
    if excess(state):
        return _shed(builder, BY_DISCONNECT)
    builder.batch([*_cancelled(builder, BY_DISCONNECT), _reset(state, "send_failed")])
    return Decision(builder.change(), answer=True)


def recover(builder: ChangeBuilder) -> Decision:
    """Nobody works on it and nobody could: it waits for a consumer from the start."""
    state = builder.state
    if state.unattended_at_ms is None or state.session is not None:
        return NOTHING
    if excess(state):
        return _shed(builder, BY_DISCONNECT)
    gone = ("agent.timeout", AgentTimeout(session_id=""), "")
    builder.batch([*_cancelled(builder, BY_DISCONNECT), gone, _reset(state, "recovery")])
    return Decision(builder.change(), answer=True)


def expire(builder: ChangeBuilder) -> Decision:
    """Settle the time that is up: that of an approval, else the execution's own, else a step's."""
    state = builder.state
    if timers.is_unanswered(state, builder.now_ms):
        return _unanswered(builder)
    if timers.is_out_of_time(state, builder.now_ms, builder.settings):
        if excess(state):
            return _shed(builder, BY_TIMEOUT)
        return _failed(builder, [], list(state.steps.values()), BY_TIMEOUT, OUT_OF_TIME)
    late = timers.overdue_step(state, builder.now_ms)
    if late is None:
        return NOTHING
    others = [step for step in state.steps.values() if step.id != late.id]
    if ahead := [step for step in excess(state) if step.id != late.id]:
        builder.batch(builder.cancelling(ahead, BY_SIBLING))
        return Decision(builder.change(), again=True)
    return _failed(builder, [late], others, BY_SIBLING, STEP_OUT_OF_TIME)


def _unanswered(builder: ChangeBuilder) -> Decision:
    """Nobody has answered in time: the call is denied, or the execution fails, as the rule says."""
    state, blocked = builder.state, builder.state.blocked
    step = state.steps.get(blocked.ref) if blocked else None
    if blocked is None or step is None:
        return NOTHING
    if blocked.on_timeout != OnTimeout.FAIL:
        denials.deny_by_time(builder, step, blocked)
        return Decision(builder.change(), answer=True)
    others = [other for other in state.steps.values() if other is not step]
    if len(others) >= ENDED_AT_ONCE:
        builder.batch(builder.cancelling(others[:ENDED_AT_ONCE], BY_SILENCE))
        return Decision(builder.change(), again=True)
    builder.decisions[step.id] = denials.timed_out(builder, step, blocked)
    return _failed(builder, [], [*others, step], BY_SILENCE, denials.unanswered(step.tool_id, blocked))


def move_clock(builder: ChangeBuilder) -> Decision:
    """Nothing happens, at a later time: whatever was due is not in the future any more."""
    if builder.state.status.is_terminal:
        return NOTHING
    if builder.state.unattended_at_ms is not None:
        builder.state = replace(builder.state, unattended_at_ms=builder.now_ms)
    return Decision(builder.change())


def _give(builder: ChangeBuilder, consumer_id: str) -> None:
    builder.append("execution.started", ExecutionStarted(session_id=builder.fresh(), consumer_id=consumer_id))
    session = builder.state.session
    if session:
        until = builder.now_ms + builder.settings.agent_timeout_ms
        builder.state = replace(builder.state, session=replace(session, expires_at_ms=until))
    builder.push("execution.assigned")


def _failed(builder: ChangeBuilder, late: list[Step], others: list[Step], reason: str, error: str) -> Decision:
    entries: list[Entry] = []
    for step in late:
        builder.drop_job(step, frees=False)
        builder.note(step, StepStatus.TIMED_OUT, STEP_OUT_OF_TIME)
        entries.append(("step.timed_out", StepTimedOut(), step.id))
    entries += builder.cancelling(others, reason)
    builder.push("execution.cancelled", reason=error)
    builder.batch([*entries, ("execution.failed", ExecutionFailed(error=error), "")])
    builder.keep_session_after_end()
    return Decision(builder.change(), answer=True)


def _cancelled(builder: ChangeBuilder, reason: str) -> list[Entry]:
    return builder.cancelling(list(builder.state.steps.values()), reason, keeps_answers=reason == BY_DISCONNECT)


def _reset(state: Execution, reason: Literal["agent_disconnect", "recovery", "send_failed"]) -> Entry:
    return "execution.reset", ExecutionReset(reason=reason, from_status=state.status.value), ""


def _shed(builder: ChangeBuilder, reason: str) -> Decision:
    """Cancel some steps ahead of an end that would be too big for one transaction; the same command then comes again.

    Whatever asked for the end still stands after a crash between the two: a deadline, a lost stream, a caller that got
    no answer.
    """
    builder.batch(builder.cancelling(excess(builder.state), reason, keeps_answers=reason == BY_DISCONNECT))
    return Decision(builder.change(), again=True)
