"""Signals from outside, and the approvals among them (specification sections 1.4, 1.5)."""

from piecework.jsons import Json
from piecework.kernel import checks
from piecework.kernel.changes import Outcome
from piecework.kernel.clocks import rfc3339
from piecework.kernel.commands import Signal
from piecework.kernel.drafts import Decision, Draft
from piecework.kernel.errors import ConflictError, ValidationError
from piecework.kernel.events import Event
from piecework.kernel.evolve import SIGNAL_RESUMES, is_approval
from piecework.kernel.ports import Read
from piecework.kernel.rules import MAX_STORED_SIGNALS
from piecework.kernel.state import Blocked, Execution, Step, StepStatus

DENIED = "approval denied by human"


def signal(draft: Draft, command: Signal) -> Decision:
    """Resume what waits for exactly this type; keep any other for a later wait."""
    state = draft.state
    checks.not_ended(state)
    if is_approval(state, command.type):
        return _resolve(draft, command)
    resumes = state.blocked == Blocked("signal", command.type)
    if not resumes and len(state.signals) >= MAX_STORED_SIGNALS:
        raise ConflictError(f"an execution stores at most {MAX_STORED_SIGNALS} signals")
    received = _received(draft, command)
    if resumes:
        reason = f"{SIGNAL_RESUMES}{command.type}"
        draft.append("execution.resumed", {"reason": reason}, cause=received.id, chain=received.id)
    draft.push("signal.received", str(received.sequence))
    return Decision(draft.change())


def tool_to_dispatch(read: Read, command: Signal) -> str:
    """The tool whose runner a signal needs, because it approves a remote step; else empty."""
    execution = read.execution
    if execution is None or execution.status.is_terminal or not is_approval(execution, command.type):
        return ""
    step, approved, _ = _approval(execution, command)
    return step.tool_id if approved and step.remote else ""


def _received(draft: Draft, command: Signal) -> Event:
    payload = {"signal_type": command.type, "payload": command.payload}
    received = draft.append("signal.received", payload)
    draft.signals[received.sequence] = payload
    return received


def _resolve(draft: Draft, command: Signal) -> Decision:
    step, approved, reason = _approval(draft.state, command)
    received = _received(draft, command)
    if approved:
        _grant(draft, step, command, received)
    else:
        _deny(draft, step, reason, received)
    draft.push("approval.resolved", step.id, approved=approved)
    draft.push("signal.received", str(received.sequence))
    draft.keep_session(shows_life=False)
    return Decision(draft.change())


def _approval(execution: Execution, command: Signal) -> tuple[Step, bool, str]:
    """The step an approval is about, whether it is granted, and why not.

    Raises:
        ValidationError: the payload does not resolve what the execution waits for.
    """
    payload: Json = command.payload
    waiting = execution.blocked.ref if execution.blocked else ""
    if not isinstance(payload, dict):
        raise ValidationError("the payload of an approval is an object")
    default = waiting if command.type != "step.approve" else None
    if payload.get("step_id", default) != waiting:
        raise ValidationError("payload.step_id is not the step that waits for an approval")
    approved = payload.get("approved")
    if not isinstance(approved, bool):
        raise ValidationError("payload.approved is true or false")
    reason = payload.get("reason")
    return execution.steps[waiting], approved, reason if isinstance(reason, str) and reason else DENIED


def _grant(draft: Draft, step: Step, command: Signal, received: Event) -> None:
    until = draft.now_ms + draft.rules.step_timeout_ms
    job_id = draft.fresh() if step.remote else ""
    dispatched = {"runner_id": "", "job_id": job_id, "deadline": rfc3339(until)}
    draft.append("step.dispatched", dispatched, step.id, cause=received.id, chain=received.id)
    draft.append("execution.resumed", {"reason": "approval granted"}, cause=received.id, chain=received.id)
    if step.remote:
        draft.dispatch(step.id, command.linked)


def _deny(draft: Draft, step: Step, reason: str, received: Event) -> None:
    draft.outcomes[step.id] = Outcome(StepStatus.FAILED, error=reason, is_denied=True)
    draft.note(step, StepStatus.FAILED, reason)
    draft.batch(
        [
            ("step.failed", {"error": reason, "retryable": False}, step.id),
            ("execution.resumed", {"reason": "approval denied"}, ""),
        ],
        chain=received.id,
    )
