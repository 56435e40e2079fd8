"""Events: the immutable log of an execution (specification section 4)."""

import uuid
from collections.abc import Mapping
from typing import Final

from piecework.jsons import Json
from piecework.values import dataclass

SCHEMA_VERSION: Final = 1
TERMINAL: Final = frozenset({"execution.completed", "execution.failed", "execution.cancelled"})
SESSIONS: Final = uuid.UUID("6f1b8f0e-5a5c-4d0c-9a53-6d1c2f7e9b11")  # the namespace of their names; an arbitrary one
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


def shown(event: Event) -> dict[str, Json]:
    """The payload as readers of the log see it: a session's id opens the session, so they get a name for it instead.

    One session always has the same name; the id cannot be found from it.
    """
    session_id = event.payload.get("session_id") if event.type in TELL_SESSIONS else ""
    return {**event.payload, "session_id": session_name(session_id)} if session_id else dict(event.payload)


def session_name(session_id: str) -> str:
    """A UUID that names a session and is not its credential."""
    return str(uuid.uuid5(SESSIONS, session_id))
