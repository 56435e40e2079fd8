"""Creating, assigning, ending and resetting executions (specification sections 1.1, 1.7, 1.8)."""

from dataclasses import replace
from typing import Literal

from piecework.kernel.decide import checks
from piecework.kernel.model import timers
from piecework.kernel.model.changes import LostConsumer
from piecework.kernel.model.commands import AgentLost, Assign, Create, SendFailed
from piecework.kernel.model.drafts import Decision, Draft, Entry, excess
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

CANCELLED_BY_REQUEST = "cancelled by request"
OUT_OF_TIME = "execution exceeded maximum duration"
STEP_OUT_OF_TIME = "step timed out"

BY_CANCEL = "execution cancelled"  # reasons of `step.cancelled`
BY_DISCONNECT = "agent disconnected"
BY_SIBLING = "sibling step timed out"
BY_TIMEOUT = "execution timed out"

NOTHING = Decision(None, answer=False)


def create(draft: Draft, command: Create) -> Decision:
    """A new execution is tied to the consumer that was chosen, or waits for one."""
    payload = ExecutionCreated(agent_id=command.agent_id, input=command.input, labels=dict(command.labels))
    draft.append("execution.created", payload)
    draft.input = command.input
    if command.consumer_id:
        _give(draft, command.consumer_id)
    return Decision(draft.change())


def assign(draft: Draft, command: Assign) -> Decision:
    """A waiting execution is tied to a consumer; one that runs with nobody working on it starts over."""
    if not draft.state.is_waiting:
        return NOTHING
    if draft.state.status is Status.RUNNING:
        if excess(draft.state):
            return _shed(draft, BY_DISCONNECT)
        draft.batch([*_cancelled(draft, BY_DISCONNECT), _reset(draft.state, "recovery")])
    _give(draft, command.consumer_id)
    return Decision(draft.change(), answer=True)


def cancel(draft: Draft) -> Decision:
    """A client's wish to end it is final."""
    checks.not_ended(draft.state)
    if excess(draft.state):
        return _shed(draft, BY_CANCEL)
    for kind, payload, step_id in _cancelled(draft, BY_CANCEL):
        draft.append(kind, payload, step_id)
    draft.push("execution.cancelled", reason=CANCELLED_BY_REQUEST)
    draft.append("execution.cancelled", ExecutionCancelled(reason=CANCELLED_BY_REQUEST))
    draft.keep_session_after_end()
    return Decision(draft.change())


def agent_lost(draft: Draft, command: AgentLost) -> Decision:
    """A running execution starts over elsewhere; a blocked one only notes that its agent is gone."""
    state = draft.state
    if state.status.is_terminal or state.session is None or state.session.id != command.session_id:
        return NOTHING
    _leave_answers(draft, command)
    gone = ("agent.timeout", AgentTimeout(session_id=command.session_id), "")
    if state.status is Status.BLOCKED:
        draft.batch([gone])
        return Decision(draft.change(), answer=True)
    if excess(state):
        return _shed(draft, BY_DISCONNECT)
    draft.batch([gone, *_cancelled(draft, BY_DISCONNECT), _reset(state, "agent_disconnect")])
    return Decision(draft.change(), answer=True)


def _leave_answers(draft: Draft, command: AgentLost) -> None:
    """What a person answered after the last stream of a lost consumer had ended has reached nobody."""
    consumer = command.consumer
    if consumer is None:
        return
    approvals = draft.approvals.not_taken(consumer.generation)
    if approvals != draft.approvals:
        draft.approvals = approvals
        draft.lost = LostConsumer(consumer.agent_id, consumer.consumer_id, consumer.generation)


def send_failed(draft: Draft, command: SendFailed) -> Decision:
    """An assignment that never reached its stream is taken back."""
    state = draft.state
    if state.status is not Status.RUNNING or state.session is None or state.session.id != command.session_id:
        return NOTHING
    if excess(state):
        return _shed(draft, BY_DISCONNECT)
    draft.batch([*_cancelled(draft, BY_DISCONNECT), _reset(state, "send_failed")])
    return Decision(draft.change(), answer=True)


def recover(draft: Draft) -> Decision:
    """Nobody works on it and nobody could: it waits for a consumer from the start."""
    state = draft.state
    if state.unattended_at_ms is None or state.session is not None:
        return NOTHING
    if excess(state):
        return _shed(draft, BY_DISCONNECT)
    gone = ("agent.timeout", AgentTimeout(session_id=""), "")
    draft.batch([*_cancelled(draft, BY_DISCONNECT), gone, _reset(state, "recovery")])
    return Decision(draft.change(), answer=True)


def expire(draft: Draft) -> Decision:
    """End it if its time is up, or if a step's is: first the execution's own time, then the steps'."""
    state = draft.state
    if timers.is_out_of_time(state, draft.now_ms, draft.rules):
        if excess(state):
            return _shed(draft, BY_TIMEOUT)
        return _failed(draft, [], list(state.steps.values()), BY_TIMEOUT, OUT_OF_TIME)
    late = timers.overdue_step(state, draft.now_ms)
    if late is None:
        return NOTHING
    others = [step for step in state.steps.values() if step.id != late.id]
    if ahead := [step for step in excess(state) if step.id != late.id]:
        draft.batch(draft.cancelling(ahead, BY_SIBLING))
        return Decision(draft.change(), again=True)
    return _failed(draft, [late], others, BY_SIBLING, STEP_OUT_OF_TIME)


def look(draft: Draft) -> Decision:
    """Nothing happens, at a later time: whatever was due is not in the future any more."""
    if draft.state.status.is_terminal:
        return NOTHING
    if draft.state.unattended_at_ms is not None:
        draft.state = replace(draft.state, unattended_at_ms=draft.now_ms)
    return Decision(draft.change())


def _give(draft: Draft, consumer_id: str) -> None:
    draft.append("execution.started", ExecutionStarted(session_id=draft.fresh(), consumer_id=consumer_id))
    session = draft.state.session
    if session:
        until = draft.now_ms + draft.rules.agent_timeout_ms
        draft.state = replace(draft.state, session=replace(session, expires_at_ms=until))
    draft.push("execution.assigned")


def _failed(draft: Draft, late: list[Step], others: list[Step], reason: str, error: str) -> Decision:
    entries: list[Entry] = []
    for step in late:
        draft.drop_job(step, frees=False)
        draft.note(step, StepStatus.TIMED_OUT, STEP_OUT_OF_TIME)
        entries.append(("step.timed_out", StepTimedOut(), step.id))
    entries += draft.cancelling(others, reason)
    draft.push("execution.cancelled", reason=error)
    draft.batch([*entries, ("execution.failed", ExecutionFailed(error=error), "")])
    draft.keep_session_after_end()
    return Decision(draft.change(), answer=True)


def _cancelled(draft: Draft, reason: str) -> list[Entry]:
    return draft.cancelling(list(draft.state.steps.values()), reason, keeps_answers=reason == BY_DISCONNECT)


def _reset(state: Execution, reason: Literal["agent_disconnect", "recovery", "send_failed"]) -> Entry:
    return "execution.reset", ExecutionReset(reason=reason, from_status=state.status.value), ""


def _shed(draft: Draft, reason: str) -> Decision:
    """Cancel some steps ahead of an end that would be too big for one transaction; the same command then comes again.

    Whatever asked for the end still stands after a crash between the two: a deadline, a lost stream, a caller that got
    no answer.
    """
    draft.batch(draft.cancelling(excess(draft.state), reason, keeps_answers=reason == BY_DISCONNECT))
    return Decision(draft.change(), again=True)
