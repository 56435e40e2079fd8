"""A call that a person was asked about is denied: by that person, or because nobody answered in time (section 1.5)."""

from typing import Final

from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.change_builder import ChangeBuilder
from piecework.kernel.model.changes import Decided, Outcome
from piecework.kernel.model.notices import What
from piecework.kernel.model.payloads import ExecutionResumed, StepFailed
from piecework.kernel.model.state import Blocked, Step, StepStatus

BY_PERSON: Final = "approval denied"  # reasons of `execution.resumed`
BY_TIME: Final = "approval timed out"


def deny(builder: ChangeBuilder, step: Step, reason: str, *, chain: str, resumed: str = BY_PERSON) -> None:
    """End the step, and let its execution go on."""
    builder.outcomes[step.id] = Outcome(StepStatus.FAILED, error=reason, is_denied=True)
    builder.note(step, StepStatus.FAILED, reason)
    failed = StepFailed(error=reason, retryable=False)
    if builder.state.session is None and builder.approvals.can_keep(step.id):
        builder.approvals = builder.approvals.keep(step.id, approved=False, reason=reason)
        failed["answer_kept"] = True
    builder.batch(
        [("step.failed", failed, step.id), ("execution.resumed", ExecutionResumed(reason=resumed), "")], chain=chain
    )


def deny_by_time(builder: ChangeBuilder, step: Step, blocked: Blocked) -> None:
    """The same where nobody has answered; the agent is told as of a person's denial."""
    deny(builder, step, f"{BY_TIME}: {unanswered(step.tool_id, blocked)}", chain="", resumed=BY_TIME)
    builder.decisions[step.id] = timed_out(builder, step, blocked)
    builder.push("approval.resolved", step.id, approved=False)
    builder.keep_session(shows_life=False)


def timed_out(builder: ChangeBuilder, step: Step, blocked: Blocked) -> Decided:
    """What stands about a step that nobody has answered in time."""
    builder.notice(What.EXPIRED, blocked)
    reason = unanswered(step.tool_id, blocked)
    return Decided(approved=False, by="", at_ms=builder.now_ms, timed_out=True, reason=reason)


def unanswered(tool_id: str, blocked: Blocked) -> str:
    """What agents and clients read then."""
    return f"nobody answered about {tool_id} until {rfc3339(blocked.until_ms)}"
