"""Frames of the three streams and the objects inside them (specification sections 3 and 4.1)."""

import json
from collections.abc import Sequence
from typing import Final

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.changes import HistoryEntry, JobPush, Outcome, Push, StepRecord
from piecework.kernel.model.events import SCHEMA_VERSION, Event, shown
from piecework.kernel.model.ports.executions import Details
from piecework.kernel.model.state import StepStatus

PRELUDE: Final = b"retry: 5000\n\n"
HEARTBEAT: Final = b":heartbeat\n\n"
HISTORY_ENTRIES: Final = 50
HISTORY_BYTES: Final = 512 * 1024  # as JSON; older entries go first


def frame(event: str, data: Json, sequence: int | None = None) -> bytes:
    """One frame. The data is pure ASCII: clients that split lines as Python does would break at U+2028 and its like."""
    number = "" if sequence is None else f"id: {sequence}\n"
    return f"{number}event: {event}\ndata: {_compact(data)}\n\n".encode("ascii")


def event_body(event: Event, *, to_approver: bool = False) -> dict[str, Json]:
    """An event as clients see it; `by` is there where a caller with a name has caused it."""
    body: dict[str, Json] = {
        "id": event.id,
        "execution_id": event.execution_id,
        "step_id": event.step_id,
        "type": event.type,
        "schema_version": SCHEMA_VERSION,
        "timestamp": rfc3339(event.at_ms),
        "payload": shown(event, to_approver=to_approver),
        "causation_id": event.causation_id,
        "correlation_id": event.correlation_id,
        "idempotency_key": "",
        "sequence": event.sequence,
    }
    return body | {"by": event.by} if event.by else body


def assigned_body(
    view: Details, session_id: str, history: Sequence[tuple[HistoryEntry, StepRecord]]
) -> dict[str, Json]:
    """`execution.assigned`; empty labels and history are left out, because clients refuse null."""
    execution, told = view.execution, _bounded([_entry(entry, record) for entry, record in history])
    body: dict[str, Json] = {
        "execution_id": execution.id,
        "session_id": session_id,
        "agent_id": execution.agent_id,
        "input": view.input,
    }
    if execution.labels:
        body["labels"] = dict(execution.labels)
    return body | ({"history": told} if told else {})


def result_body(push: Push, outcome: Outcome) -> dict[str, Json]:
    """`tool.result`."""
    body: dict[str, Json] = {"execution_id": push.execution_id, "step_id": push.ref, "status": outcome.status.value}
    if outcome.status is StepStatus.SUCCEEDED or outcome.result is not None:
        body["result"] = outcome.result
    return body if outcome.status is StepStatus.SUCCEEDED else body | {"error": outcome.error}


def job_body(push: JobPush, record: StepRecord) -> dict[str, Json]:
    """`job.assigned`."""
    return {
        "id": push.job_id,
        "execution_id": push.execution_id,
        "step_id": push.step_id,
        "attempt": push.attempt,
        "tool_id": push.tool_id,
        "tool_version": 0,
        "arguments": record.arguments,
        "deadline": rfc3339(push.deadline_ms),
        "not_before": rfc3339(push.not_before_ms or None),
    }


def _entry(entry: HistoryEntry, record: StepRecord) -> dict[str, Json]:
    body: dict[str, Json] = {"step_id": entry.step_id, "tool_id": entry.tool_id, "status": entry.status.value}
    if record.has_arguments:
        body["arguments"] = record.arguments
    if entry.status is StepStatus.SUCCEEDED and record.outcome is not None:
        body["result"] = record.outcome.result
    if entry.error:
        body["error"] = entry.error
    return body | {"completed_at": rfc3339(entry.completed_at_ms)}


def _bounded(entries: list[dict[str, Json]]) -> list[dict[str, Json]]:
    kept, size = [], 2
    for entry in reversed(entries[-HISTORY_ENTRIES:]):
        size += len(_compact(entry)) + 1
        if size > HISTORY_BYTES:
            break
        kept.append(entry)
    return kept[::-1]


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
