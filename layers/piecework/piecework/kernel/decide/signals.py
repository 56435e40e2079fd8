"""Signals from outside, and people's answers among them (specification sections 1.4, 1.5)."""

from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import answers, checks
from piecework.kernel.decide.answers import Said
from piecework.kernel.errors import ConflictError
from piecework.kernel.model.changes import Decided, Outcome
from piecework.kernel.model.commands import Signal
from piecework.kernel.model.drafts import Decision, Draft
from piecework.kernel.model.events import Event
from piecework.kernel.model.payloads import (
    ExecutionResumed,
    SignalReceived,
    StepDispatched,
    StepFailed,
    resumed_by_signal,
)
from piecework.kernel.model.ports import Consumer, Read
from piecework.kernel.model.state import Blocked, Step, StepStatus
from piecework.kernel.rules import MAX_STORED_SIGNALS


def signal(draft: Draft, read: Read, command: Signal) -> Decision:
    """Resume what waits for exactly this type; keep any other for a later wait."""
    state = draft.state
    if answers.is_answer(state, command):
        return _answer(draft, read, command)
    checks.not_ended(state)
    resumes = state.blocked == Blocked("signal", command.type)
    if not resumes and len(state.signals) >= MAX_STORED_SIGNALS:
        raise ConflictError(f"an execution stores at most {MAX_STORED_SIGNALS} signals")
    received = _received(draft, command)
    if resumes:
        draft.append("execution.resumed", resumed_by_signal(command.type), cause=received.id, chain=received.id)
    draft.push("signal.received", str(received.sequence))
    return Decision(draft.change(), {})


def step_let_through(read: Read, command: Signal) -> Step | None:
    """The step that a signal lets through."""
    execution = read.execution
    if execution is None or execution.status.is_terminal or not answers.is_answer(execution, command):
        return None
    said = answers.said(execution, command)
    if not said.approved or not checks.awaits_approval(execution, said.step_id):
        return None
    return execution.steps[said.step_id]


def _received(draft: Draft, command: Signal) -> Event:
    payload = SignalReceived(signal_type=command.type, payload=command.payload)
    received = draft.append("signal.received", payload)
    draft.signals[received.sequence] = payload
    return received


def _answer(draft: Draft, read: Read, command: Signal) -> Decision:
    said = answers.said(draft.state, command)
    if not checks.awaits_approval(draft.state, said.step_id):
        return Decision(None, answers.late(draft.state, read, command, said))
    step = draft.state.steps[said.step_id]
    received = _received(draft, command)
    if said.approved:
        _grant(draft, step, command, received)
    else:
        _deny(draft, step, said, received)
    draft.decisions[step.id] = Decided(said.approved, command.by, draft.now_ms)
    draft.push("approval.resolved", step.id, approved=said.approved)
    draft.push("signal.received", str(received.sequence))
    draft.keep_session(shows_life=False)
    return Decision(draft.change(), {})


def _grant(draft: Draft, step: Step, command: Signal, received: Event) -> None:
    until = draft.now_ms + draft.rules.step_timeout_ms
    job_id = draft.fresh() if step.remote else ""
    dispatched = StepDispatched(runner_id="", job_id=job_id, deadline=rfc3339(until))
    draft.append("step.dispatched", dispatched, step.id, cause=received.id, chain=received.id)
    draft.append("execution.resumed", ExecutionResumed(reason="approval granted"), cause=received.id, chain=received.id)
    if step.remote:
        draft.dispatch(step.id, command.linked)
    elif draft.state.session is not None:
        _tell_agent(draft, step, command.consumer)


def _tell_agent(draft: Draft, step: Step, consumer: Consumer | None) -> None:
    """A local step is worked on as soon as its agent is told; while no stream is open, only a successor can be."""
    if consumer is None or consumer.is_open:
        draft.approvals = draft.approvals.worked_on(step.id)
    else:
        draft.approvals = draft.approvals.left_for(step.id, consumer.generation)


def _deny(draft: Draft, step: Step, said: Said, received: Event) -> None:
    draft.outcomes[step.id] = Outcome(StepStatus.FAILED, error=said.reason, is_denied=True)
    draft.note(step, StepStatus.FAILED, said.reason)
    keeps = draft.state.session is None and draft.approvals.can_keep(step.id)
    failed = StepFailed(error=said.reason, retryable=False)
    if keeps:
        draft.approvals = draft.approvals.keep(step.id, approved=False, reason=said.reason)
        failed["answer_kept"] = True
    draft.batch(
        [("step.failed", failed, step.id), ("execution.resumed", ExecutionResumed(reason="approval denied"), "")],
        chain=received.id,
    )
