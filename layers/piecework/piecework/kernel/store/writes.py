"""The one transaction of a command: everything a `Change` says, derived and laid out as writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.due_table import key_of, writes_between
from piecework.aws.writes import ABSENT, Delete, Key, Put, Update, Write, at
from piecework.clock import DAY_MS
from piecework.durable.due import Due
from piecework.jsons import Json
from piecework.kernel.model.changes import Change, JobPush, Push
from piecework.kernel.model.due_times import EXECUTION_DUE
from piecework.kernel.model.ports.executions import Approval
from piecework.kernel.model.state import Connection, Execution
from piecework.kernel.model.timers import due_at, ends_at
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store import keys
from piecework.kernel.store.hints import hint
from piecework.kernel.store.items import (
    approval_item,
    approval_of,
    by_item,
    events_value,
    execution_item,
    is_long,
    push_value,
    question_item,
    queued_item,
)
from piecework.kernel.store.leases import SAME
from piecework.kernel.store.values import KernelValues, text_of
from piecework.kernel.streams.hints import runner_key
from piecework.values import dataclass

AS_READ: Final = "version = :version"
IDLE: Final = "is_open = :true AND job_id = :none"
HOLDS: Final = "job_id = :job"
SET_JOB: Final = "SET job_id = :new_job, execution_id = :execution"


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a change by what their failure means; `execution` is the first one of the transaction."""

    execution: Write
    key: tuple[Write, ...]  # fails: the idempotency key was answered meanwhile, or a lost consumer came back
    claim: tuple[Write, ...]  # fails: the connection was taken
    frees: tuple[Write, ...]  # fails: the connection was freed already
    others: tuple[Write, ...]


class Planner:
    """Lays changes out as writes; long values go to the bucket on the way."""

    def __init__(self, due_table: str, values: KernelValues, settings: KernelSettings) -> None:
        self._due_table, self._values, self._settings = due_table, values, settings

    def plan(self, change: Change, write: str) -> Plan:
        """Everything the change writes."""
        key_put, key_delete = self._key(change)
        return Plan(
            execution=self._execution(change, write),
            key=(*key_put, *self._lost(change)),
            claim=(self._claim(change.job_push),) if change.job_push else (),
            frees=tuple(self._free(connection, job_id) for connection, job_id in change.free),
            others=(*key_delete, *self._values_of(change), *self._markers(change), *self._messages(change)),
        )

    def due(self, execution: Execution) -> Due:
        """When the execution must be checked again."""
        return Due(due_at(execution, self._settings), EXECUTION_DUE, execution.id)

    def _execution(self, change: Change, write: str) -> Write:
        item = execution_item(change.after, write)
        if change.before is None:
            return Put(item, condition=ABSENT)
        return Put(item, condition=AS_READ, values={"version": change.before.version})

    def _key(self, change: Change) -> tuple[tuple[Write, ...], tuple[Write, ...]]:
        """The stored answer, and the one that is removed."""
        answered, freed, id_ = change.answered, change.freed_key, change.after.id
        if answered is None:
            return (), ((Delete(keys.answered(id_, freed)),) if freed else ())
        item = self._valued(keys.answered(id_, answered.key), id_, answered.answer) | {
            "fingerprint": answered.fingerprint,
            "step_id": answered.step_id,
            "session_id": answered.session_id,
        }
        removed = (Delete(keys.answered(id_, freed)),) if freed not in ("", answered.key) else ()
        return (Put(item, condition="" if freed == answered.key else ABSENT),), removed

    def _lost(self, change: Change) -> tuple[Write, ...]:
        """That a consumer has opened no other stream."""
        lost = change.lost
        if lost is None:
            return ()
        values = {"generation": lost.generation}
        key = keys.consumer(lost.agent_id, lost.consumer_id)
        return (Update(key, "SET generation = :generation", condition=SAME, values=values),)

    def _claim(self, push: JobPush) -> Write:
        values = {
            "true": True,
            "none": "",
            "new_job": push.job_id,
            "execution": push.execution_id,
        }
        return Update(keys.link(push.to.runner_id, push.to.consumer_id), SET_JOB, condition=IDLE, values=values)

    def _free(self, connection: Connection, job_id: str) -> Write:
        values = {"job": job_id, "new_job": "", "execution": ""}
        key = keys.link(connection.runner_id, connection.consumer_id)
        return Update(key, SET_JOB, condition=HOLDS, values=values)

    def _values_of(self, change: Change) -> Iterator[Write]:
        """What is written once and never changed."""
        id_, pk = change.after.id, keys.execution(change.after.id)
        found: list[tuple[Key, Json]] = []
        if change.before is None:
            link = {"again_of": change.again_of} if change.again_of else {}  # here no command of older code drops it
            yield Put(self._valued((pk, keys.INPUT), id_, change.input) | link)
            labels = dict(change.after.labels)
            found += [((pk, keys.LABELS), labels)] if is_long(text_of(labels)) else []
        if change.output is not None:
            found.append(((pk, keys.OUTPUT), change.output))
        if change.events:
            last = change.events[-1].sequence
            value = self._valued(keys.event(id_, last), id_, events_value(change.events))
            yield Put(value | by_item(change.events))
        found += [(keys.done(id_, step_id), outcome) for step_id, outcome in change.outcomes.items()]
        found += [(keys.decided(id_, step_id), said) for step_id, said in change.decisions.items()]
        found += [(keys.signal(id_, sequence), payload) for sequence, payload in change.signals.items()]
        if change.history:
            found.append(((pk, keys.HISTORY + keys.number(change.after.version)), change.history))
        for key, value in found:
            yield Put(self._valued(key, id_, value))
        for record in change.new_steps:
            known = {"has_arguments": record.has_arguments, "remote": record.remote}
            known |= {"private": True} if record.is_private else {}
            item = self._valued(keys.step(id_, record.id), id_, record.arguments)
            asked = {} if record.asked is None else {"asked": record.asked}
            yield Put(item | known | asked | {"tool_id": record.tool_id})
            if record.question:
                yield Put(at(keys.asked(id_, record.id)) | question_item(record.question))

    def _markers(self, change: Change) -> Iterator[Write]:
        """What is derived from the execution before and after: due time, board, sessions, approvals, queue."""
        before, after = change.before, change.after
        yield from writes_between(self._due_table, self.due(before) if before else None, self.due(after))
        for notice in change.notices:
            yield Put(at(key_of(notice.due(after.id, after.clock_ms))), table=self._due_table)
        yield from self._moved(_waiting(before), _waiting(after))
        yield from self._moved(_held(before), _held(after))
        asked, asks = approval_of(before), approval_of(after)
        if asked != asks:
            for approval in (one for one in (asked, asks) if one):
                key = keys.waiting_approval(approval.since_ms, approval.execution_id)
                yield Put(at(key) | approval_item(approval)) if approval is asks else Delete(key)
        yield from self._answered(asked, change)
        if after.session and (before is None or before.session is None or before.session.id != after.session.id):
            yield Put(self._session(after, after.session.id))
        yield from (Put(queued_item(job)) for job in change.queue)
        for job in change.unqueue:
            yield Delete(keys.queued(job.tool_id, job.not_before_ms, job.job_id))

    def _answered(self, asked: Approval | None, change: Change) -> Iterator[Write]:
        """A decided step's row in the list of those; it goes when its execution may be gone."""
        decided = change.decisions.get(asked.step_id) if asked else None
        if asked is None or decided is None:
            return
        key = keys.answered_approval(decided.at_ms, asked.execution_id, asked.step_id)
        kept_ms = self._settings.execution_timeout_ms + self._settings.retention_ms
        yield Put(at(key) | approval_item(asked) | {"expires_at": (decided.at_ms + kept_ms) // 1000})

    def _session(self, execution: Execution, session_id: str) -> Item:
        ends_ms = ends_at(execution, self._settings) + self._settings.retention_ms
        expires = (ends_ms + DAY_MS) // 1000
        return at(keys.session(session_id)) | {"execution_id": execution.id, "expires_at": expires}

    def _messages(self, change: Change) -> Iterator[Write]:
        pushes: list[Push | JobPush] = [*change.pushes, *([change.job_push] if change.job_push else [])]
        for number, push in enumerate(pushes):
            pk = (
                keys.outbox("runner", push.to.runner_id, push.to.consumer_id)
                if isinstance(push, JobPush)
                else keys.outbox("agent", push.agent_id, push.consumer_id)
            )
            expires = (change.after.clock_ms + DAY_MS) // 1000  # of a consumer that never comes back
            told = {"push": push_value(push), "taken_by": 0, "expires_at": expires}
            yield Put(at((pk, change.message_key(number))) | told)
        if change.job_push is not None:  # a claim of the connection at the same time is refused anyway
            yield hint(runner_key(change.job_push.to.runner_id, change.job_push.to.consumer_id))

    @staticmethod
    def _moved(before: Key | None, after: Key | None) -> Iterator[Write]:
        if before != after:
            yield from (Delete(key) for key in (before,) if key)
            yield from (Put(at(key)) for key in (after,) if key)

    def _valued(self, key: Key, folder: str, value: Json) -> Item:
        return at(key) | self._values.packed(folder, value)


def _waiting(execution: Execution | None) -> Key | None:
    """The marker on the board of an execution that waits."""
    if execution is None or not execution.is_waiting:
        return None
    return keys.waiting(execution.agent_id, execution.created_at_ms, execution.id)


def _held(execution: Execution | None) -> Key | None:
    """The row of a session among its consumer's."""
    if execution is None or execution.session is None or execution.status.is_terminal:
        return None
    return keys.held(execution.agent_id, execution.session.consumer_id), execution.id
