"""A person's answer about a step: which step it names, what it says, and whether it comes too late (section 1.5).

| the answer is about | it gets |
|---|---|
| the step that waits | the step goes on, or ends |
| a step that was answered before: the same caller says the same | 200 with `already`: the first reply may be lost |
| the same, but another caller or another answer | 409 with the answer that stands |
| a step about which nobody answered in time | 409 with that denial, `by` nobody |
| a step that was cancelled unanswered | 409 |
| a step that nobody was asked about, or that does not exist | 400 |
"""

from typing import Final

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import checks
from piecework.kernel.errors import AlreadyDecided, Conflict, Forbidden, Invalid
from piecework.kernel.model.changes import StepRecord
from piecework.kernel.model.commands import Signal
from piecework.kernel.model.evolve import ALIAS, DECISIONS
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.state import Execution
from piecework.kernel.settings import MOST_NAMES
from piecework.values import dataclass

DENIED: Final = "approval denied by human"
DENY: Final = "step.deny"
ALREADY: Final[dict[str, Json]] = {"already": True}


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer says about a step."""

    step_id: str
    approved: bool
    reason: str


def is_answer(execution: Execution, command: Signal) -> bool:
    """Whether a signal answers about a step; what an agent waits for by its very type is an ordinary signal."""
    if command.is_answer:
        return True
    if execution.waits_for("signal", command.type):
        return False
    if command.type != ALIAS:
        return command.type in DECISIONS
    if execution.blocked is not None and execution.blocked.reason == "approval":
        return True
    payload = command.payload if isinstance(command.payload, dict) else {}
    is_late = execution.has_answered and isinstance(payload.get("approved"), bool)
    return is_late or payload.get("step_id") is not None


def check_others(execution: Execution, command: Signal, by: str) -> None:
    """Nobody answers about a step of the agent that he works as, whatever other roles he has.

    `served` is None where that cannot be told: the caller does not have the role of agents, or no name has roles.

    Raises:
        Forbidden: the execution's agent has connected or sent intents by this token, or by that of `works_as`. If it
            has used more tokens than an execution keeps, no token of agents is let through.
    """
    if command.works_as:
        works = f"the agent {execution.agent_id} works by the token {command.works_as}"
        raise Forbidden(f"{works}; somebody else must answer")
    if command.served is None:
        return
    if command.served or by in execution.worked_by or len(execution.worked_by) >= MOST_NAMES:
        raise Forbidden(
            f"the token {by} works as the agent {execution.agent_id}, which asks; somebody else must answer"
        )


def said(execution: Execution, command: Signal) -> Said:
    """What an answer says.

    Raises:
        Invalid: the payload is not an answer, or leaves open about which step.
        ExecutionTerminal: the same, where nothing can be answered any more.
    """
    payload: Json = command.payload
    if not isinstance(payload, dict):
        checks.not_ended(execution)
        raise Invalid("the payload of an approval is an object")
    step_id = _step_named(execution, command, payload)
    approved = payload.get("approved", False if command.type == DENY else None)
    if not isinstance(approved, bool):
        raise Invalid("payload.approved is true or false")
    if approved and command.type == DENY:
        raise Invalid(f"{DENY} says no; leave payload.approved out, or send step.approve")
    reason = payload.get("reason")
    return Said(step_id, approved, reason if isinstance(reason, str) and reason else DENIED)


def needs_another_look(read: Read, command: Signal) -> bool:
    """Whether a step's answer may have come between the two halves of a read, which is not a snapshot."""
    execution, step = read.execution, read.step
    if execution is None or step is None or not is_answer(execution, command):
        return False
    return step.decided is None and step.asked is not False and not checks.awaits_approval(execution, step.id)


def late(execution: Execution, read: Read, by: str, answer: Said) -> dict[str, Json]:
    """The reply to an answer, by the token of that name, about a step that does not wait.

    Raises:
        AlreadyDecided: another answer stands, or another caller's.
        ExecutionTerminal: the execution has ended, and the step was never answered.
        Invalid: nobody was asked about such a step.
        Conflict: the step was cancelled before anybody answered.
    """
    record = read.step
    if record is not None and record.decided is not None:
        decided = record.decided
        if not decided.timed_out and (decided.approved, decided.by) == (answer.approved, by):
            return ALREADY
        raise AlreadyDecided(record.id, approved=decided.approved, by=decided.by or None, at=rfc3339(decided.at_ms))
    if record is not None and _was_denied(record):
        raise AlreadyDecided(record.id, approved=False, by=None, at=None)
    checks.not_ended(execution)
    if record is None:
        raise Invalid("payload.step_id names no step of this execution")
    if record.asked is False:
        raise Invalid("payload.step_id names a step that needs no approval")
    raise Conflict("the step does not wait for an approval any more")


def _step_named(execution: Execution, command: Signal, payload: dict[str, Json]) -> str:
    named = payload.get("step_id")
    if named is None:
        checks.not_ended(execution)
        if command.type == ALIAS and execution.blocked and not execution.has_answered:
            return execution.blocked.ref
        why = ": another step of this execution was answered before" if execution.has_answered else ""
        raise Invalid(f"payload.step_id is required{why}")
    if not isinstance(named, str) or not named:
        raise Invalid("payload.step_id is the id of a step")
    return named


def _was_denied(record: StepRecord) -> bool:
    """Whether a step was denied by code that did not keep who said so."""
    return record.outcome is not None and record.outcome.is_denied
