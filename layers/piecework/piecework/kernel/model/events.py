"""Events: the immutable log of an execution (specification section 4)."""

import uuid
from collections.abc import Mapping
from typing import Final

from piecework.jsons import Json
from piecework.kernel.model.questions import HIDDEN
from piecework.values import dataclass

SCHEMA_VERSION: Final = 1
TERMINAL: Final = frozenset({"execution.completed", "execution.failed", "execution.cancelled"})
SESSIONS: Final = uuid.UUID("6f1b8f0e-5a5c-4d0c-9a53-6d1c2f7e9b11")  # the namespace of their names; an arbitrary one
TELL_CALLS: Final = frozenset(  # whose payloads, or the details in them, hold the arguments of a call
    {"intent.accepted", "intent.denied", "step.created", "step.approval_required", "execution.blocked"}
)
TELL_SESSIONS: Final = frozenset({"execution.started", "agent.timeout"})  # whose payloads name one


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log; `sequence` counts from 1 without a gap inside its execution."""

    id: str
    execution_id: str
    sequence: int
    type: str
    at_ms: int
    payload: Mapping[str, Json]  # as payloads.py has it for this type
    causation_id: str
    correlation_id: str
    step_id: str = ""
    by: str = ""  # the name of the token of the caller who caused it; empty for what the kernel does by itself


def shown(event: Event, *, to_approver: bool = False) -> dict[str, Json]:
    """The payload as readers of the log see it: a session's id opens the session, so they get a name for it instead.

    One session always has the same name; the id cannot be found from it. Private arguments are for approvers: others
    get a mark instead of them.
    """
    if not to_approver and is_private(event):
        return _without_arguments(event.payload)
    session_id = event.payload.get("session_id") if event.type in TELL_SESSIONS else ""
    return {**event.payload, "session_id": session_name(session_id)} if session_id else dict(event.payload)


def is_private(event: Event) -> bool:
    """Whether it tells arguments that are for approvers only; events of earlier code never say so."""
    return event.type in TELL_CALLS and bool(_call_of(event.payload).get("private"))


def _call_of(payload: Mapping[str, Json]) -> Mapping[str, Json]:
    return payload.get("details") or payload


def _without_arguments(payload: Mapping[str, Json]) -> dict[str, Json]:
    hidden = {**_call_of(payload), "arguments": dict(HIDDEN)}
    return {**payload, "details": hidden} if "details" in payload else hidden


def session_name(session_id: str) -> str:
    """A UUID that names a session and is not its credential."""
    return str(uuid.uuid5(SESSIONS, session_id))
