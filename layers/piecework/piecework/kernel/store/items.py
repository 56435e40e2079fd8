"""Executions and what belongs to them, as attributes of the kernel table's items and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from piecework.aws.attributes import Item
from piecework.aws.writes import at
from piecework.jsons import Json
from piecework.jsons.stored import known, record_of
from piecework.kernel.model.changes import Decided, HistoryEntry, JobPush, Outcome, Push, QueuedJob, StepRecord
from piecework.kernel.model.events import Event
from piecework.kernel.model.kept_answers import Approvals, Call, Kept
from piecework.kernel.model.ports.executions import Approval, Summary
from piecework.kernel.model.questions import Question
from piecework.kernel.model.state import (
    Blocked,
    Connection,
    Execution,
    Forgotten,
    Job,
    Session,
    Status,
    Step,
    StepStatus,
    StoredSignal,
)
from piecework.kernel.store import keys
from piecework.kernel.store.values import text_of

PACKED_FROM: Final = 2_000  # characters: some five active steps; a command pays twice for each 1 KB of its checkpoint
NO_APPROVALS: Final = Approvals()
LABELS_BYTES: Final = 4_000  # of labels in the checkpoint; they are copied into every index and read by every command


def execution_item(execution: Execution, write: str) -> Item:
    """The checkpoint; its attributes outside `record` are what the lists show, so most commands leave indexes alone."""
    record = {
        "sequence": execution.sequence,
        "clock_ms": execution.clock_ms,
        "session": execution.session,
        **_blocked_members(execution.blocked),
        "steps": list(execution.steps.values()),
        "step_count": execution.step_count,
        "signals": [[signal.sequence, signal.type] for signal in execution.signals],
        "resumed_by": execution.resumed_by,
        "unattended_at_ms": execution.unattended_at_ms,
        "ended_at_ms": execution.ended_at_ms,
        **({"paused_ms": execution.paused_ms} if execution.paused_ms else {}),
        "is_tainted": execution.is_tainted,
        "has_answered": execution.has_answered,
        **({"worked_by": list(execution.worked_by)} if execution.worked_by else {}),
        **_approvals_member(execution.approvals),
    }
    shard = keys.shard(execution.id)
    item: Item = {
        **at(keys.meta(execution.id)),
        "version": execution.version,
        "write": write,
        "record": _packed(text_of(record)),
        "status": execution.status,
        "agent_id": execution.agent_id,
        "updated_at": execution.updated_at_ms,
        "created_id": f"{keys.time(execution.created_at_ms)}#{execution.id}",
        "age_shard": f"AGE#{shard}",
        "status_shard": f"{execution.status}#{shard}",
        **({"forgotten": text_of(execution.forgotten)} if execution.forgotten else {}),
    }
    labels = text_of(dict(execution.labels))
    return item if is_long(labels) else item | {"labels": labels}


def _packed(record: str) -> str | bytes:
    return zlib.compress(record.encode(), level=1) if len(record) > PACKED_FROM else record


def _unpacked(record: str | bytes) -> str:
    return record if isinstance(record, str) else zlib.decompress(record).decode()


def is_long(labels: str) -> bool:
    """Whether labels have a row of their own."""
    return len(labels) > LABELS_BYTES


def execution_from(item: Item, labels: Mapping[str, str]) -> Execution:
    """A stored checkpoint."""
    record, row = json.loads(_unpacked(item["record"])), row_from(item, labels)
    session, blocked, resumed_by = record["session"], record["blocked"], record["resumed_by"]
    steps = [_step_from(step) for step in record["steps"]]
    return Execution(
        id=row.id,
        agent_id=row.agent_id,
        labels=labels,
        status=row.status,
        version=item["version"],
        sequence=record["sequence"],
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        clock_ms=record["clock_ms"],
        session=known(Session, session) if session else None,
        blocked=known(Blocked, blocked | record.get("wait", {})) if blocked else None,
        steps={step.id: step for step in steps},
        step_count=record["step_count"],
        signals=tuple(StoredSignal(*signal[:2]) for signal in record["signals"]),
        resumed_by=known(StoredSignal, resumed_by) if resumed_by else None,
        unattended_at_ms=record["unattended_at_ms"],
        ended_at_ms=record["ended_at_ms"],
        paused_ms=record.get("paused_ms", 0),
        is_tainted=record["is_tainted"],
        worked_by=tuple(record.get("worked_by", ())),
        has_answered=_has_answered(record),
        approvals=_approvals_from(record.get("approvals")),
        forgotten=known(Forgotten, json.loads(item["forgotten"])) if "forgotten" in item else None,
    )


def _blocked_members(blocked: Blocked | None) -> dict[str, Any]:
    """What only some waits have stands beside it: earlier code refuses more than two members."""
    if blocked is None or (blocked.until_ms is None and not blocked.notify):
        return {"blocked": blocked and {"reason": blocked.reason, "ref": blocked.ref}}
    members = record_of(blocked)
    return {"blocked": {name: members.pop(name) for name in ("reason", "ref")}, "wait": members}


def _approvals_member(approvals: Approvals) -> dict[str, Approvals]:
    return {"approvals": approvals} if approvals != NO_APPROVALS else {}


def _approvals_from(record: Mapping[str, Any] | None) -> Approvals:
    if record is None:
        return NO_APPROVALS
    calls = {step_id: known(Call, call) for step_id, call in record["calls"].items()}
    kept = tuple(known(Kept, {**each, "call": known(Call, each["call"])}) for each in record["kept"])
    return Approvals(calls, record["counts"], kept)


def _has_answered(record: Mapping[str, Any]) -> bool:
    """Whether a person may have answered; a row that does not say so, of earlier code, tells by its steps."""
    if "has_answered" in record:
        return bool(record["has_answered"])
    asks_first = (
        record["step_count"] == 1 and record["blocked"] is not None and record["blocked"]["reason"] == "approval"
    )
    return bool(record["step_count"]) and not asks_first


def _step_from(record: dict[str, Any]) -> Step:
    job = record["job"]
    if job is not None:
        held_by = known(Connection, job["held_by"]) if job["held_by"] else None
        job = known(Job, {**job, "held_by": held_by})
    return known(Step, {**record, "status": StepStatus(record["status"]), "job": job})


def row_from(item: Item, labels: Mapping[str, str]) -> Summary:
    """An execution as lists show it."""
    created, _, execution_id = item["created_id"].partition("#")
    return Summary(
        id=execution_id,
        status=Status(item["status"]),
        agent_id=item["agent_id"],
        labels=labels,
        created_at_ms=int(created),
        updated_at_ms=item["updated_at"],
    )


def approval_of(execution: Execution | None) -> Approval | None:
    """What an execution asks a person, if it does."""
    if execution is None or execution.blocked is None or execution.blocked.reason != "approval":
        return None
    step = execution.steps.get(execution.blocked.ref)  # None: it was ended ahead of an end that is too big at once
    if step is None:
        return None
    return Approval(execution.id, execution.agent_id, step.id, step.tool_id, execution.updated_at_ms)


def approval_of_step(
    execution: Execution, record: StepRecord, question: Question | None
) -> tuple[Approval, StepRecord] | None:
    """A step that a person was asked about, or None; earlier code tells only of one that waits, or was answered."""
    waits = execution.waits_for("approval", record.id)
    if not (record.asked or waits or record.decided):
        return None
    since_ms = question.since_ms if question else execution.updated_at_ms if waits else execution.created_at_ms
    approval = Approval(
        execution.id, execution.agent_id, record.id, record.tool_id, since_ms, question, record.decided, waits=waits
    )
    return approval, record


def approval_item(approval: Approval) -> Item:
    """An approval in a list, without what is beside its step."""
    names = ("execution_id", "agent_id", "step_id", "tool_id", "since_ms")
    return {"approval": text_of({name: getattr(approval, name) for name in names})}


def approval_from(row: Item) -> Approval:
    """An approval in a list."""
    return known(Approval, {**json.loads(row["approval"]), "key": row["sk"]})


def question_item(question: Question) -> Item:
    """What a person is told."""
    return {"question": text_of(question)}


def question_from(row: Item | None) -> Question | None:
    """What a person is told; earlier code has not kept it."""
    return known(Question, json.loads(row["question"])) if row else None


def events_value(events: tuple[Event, ...]) -> Json:
    """The events of one command as one value, without who caused it: earlier code refuses a member more."""
    members = [record_of(event) for event in events]
    for member in members:
        del member["execution_id"], member["by"]
    return members


def by_item(events: tuple[Event, ...]) -> Item:
    """Who caused a command, beside the value of its events."""
    return {"by": events[0].by} if events and events[0].by else {}


def events_from(execution_id: str, item: Item, value: Json) -> list[Event]:
    """The events of one command."""
    by = {"by": item.get("by", "")}
    return [known(Event, by | member | {"execution_id": execution_id}) for member in value]


def outcome_from(value: Json) -> Outcome:
    """How a step ended."""
    return known(Outcome, {**value, "status": StepStatus(value["status"])})


def decided_from(value: Json) -> Decided:
    """What a person said."""
    return known(Decided, value)


def history_from(value: Json) -> list[HistoryEntry]:
    """What one command noted."""
    return [known(HistoryEntry, {**entry, "status": StepStatus(entry["status"])}) for entry in value]


def push_value(push: Push | JobPush) -> str:
    """A message as text."""
    return text_of(push)


def push_from(text: str) -> Push | JobPush:
    """A message."""
    record = json.loads(text)
    if "job_id" in record:
        return known(JobPush, {**record, "to": known(Connection, record["to"])})
    return known(Push, record)


def queued_item(job: QueuedJob) -> Item:
    """A job in its queue."""
    return at(keys.queued(job.tool_id, job.not_before_ms, job.job_id)) | {
        "tool_id": job.tool_id,
        "execution_id": job.execution_id,
        "step_id": job.step_id,
    }


def queued_from(item: Item) -> QueuedJob:
    """A job in its queue."""
    at_ms, _, job_id = item["sk"].partition("#")
    return QueuedJob(item["tool_id"], int(at_ms), job_id, item["execution_id"], item["step_id"])
