"""Events: the immutable log of an execution (specification section 4)."""

from dataclasses import dataclass
from typing import Final

from piecework.jsons import Json

SCHEMA_VERSION: Final = 1
TERMINAL: Final = frozenset({"execution.completed", "execution.failed", "execution.cancelled"})
TYPES: Final = (
    "execution.created",
    "execution.started",
    "execution.blocked",
    "execution.resumed",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "execution.reset",
    "intent.accepted",
    "intent.denied",
    "step.created",
    "step.dispatched",
    "step.started",
    "step.completed",
    "step.failed",
    "step.timed_out",
    "step.retried",
    "step.cancelled",
    "step.approval_required",
    "signal.received",
    "agent.timeout",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log; `sequence` counts from 1 without a gap inside its execution."""

    id: str
    execution_id: str
    sequence: int
    type: str
    at_ms: int
    payload: dict[str, Json]
    causation_id: str
    correlation_id: str
    step_id: str = ""
