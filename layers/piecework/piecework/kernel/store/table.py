"""Executions in the kernel table: one batch read and one transaction per command; the layout is in keys.py.

A command meets another one in two ways, and both say `VersionConflict`: the version has changed, or DynamoDB refuses to
run two transactions on one item at the same time. `write` is drawn anew for every transaction, so that a repeated
request recognises its own first try.

A batch read is not a snapshot. When it finds an answer to an idempotency key, the answer is therefore read again after
the execution; when it finds none, the answer must be absent in the transaction too. So it cannot belong to a later
version unnoticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.due_table import key_of
from piecework.aws.table import TRIES, Table
from piecework.aws.writes import PRESENT, Delete, Key, Write, new_write
from piecework.jsons import Json
from piecework.kernel.model.changes import Change, HistoryEntry, IdempotencyRecord, StepRecord
from piecework.kernel.model.events import Event
from piecework.kernel.model.metrics import counts_of
from piecework.kernel.model.payloads import emptied
from piecework.kernel.model.ports.executions import (
    Approval,
    ApprovalPage,
    Beside,
    Details,
    Executions,
    Filter,
    Message,
    Place,
    Read,
    Standing,
    Summaries,
    VersionConflict,
)
from piecework.kernel.model.ports.runners import ConnectionTaken
from piecework.kernel.model.state import Execution, Forgotten
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store import keys
from piecework.kernel.store.agents import consumer_from
from piecework.kernel.store.counters import CountWrites
from piecework.kernel.store.items import (
    approval_of_step,
    decided_from,
    events_from,
    events_value,
    execution_from,
    execution_item,
    history_from,
    outcome_from,
    question_from,
)
from piecework.kernel.store.listing.executions import ExecutionLists
from piecework.kernel.store.lists import KernelLists
from piecework.kernel.store.outbox import message_from
from piecework.kernel.store.values import KernelValues, text_of
from piecework.kernel.store.writes import AS_READ, Plan, Planner
from piecework.kernel.wire.pages import page_of_events
from piecework.values import replace

PAGE_ROWS: Final = 100
NO_ARGUMENTS: Final = {"body": "null", "has_arguments": False}
AFTER_ALL: Final = "~"  # sorts after every digit


class KernelTable(Executions):
    """Executions in DynamoDB; due times go to their own table in the same transaction."""

    def __init__(self, table: Table, due_table: str, values: KernelValues, settings: KernelSettings) -> None:
        self._table, self._due_table, self._values = table, due_table, values
        self._planner = Planner(due_table, values, settings)
        self._lists = KernelLists(table, values.value)
        self._listed = ExecutionLists(table, self._labels, values.value)
        self._counting = CountWrites()

    def read(
        self, execution_id: str, *, key: str = "", step_id: str = "", session_id: str = "", with_decision: bool = False
    ) -> Read:
        wanted = {"meta": keys.meta(execution_id)}
        if key:
            wanted["answer"] = keys.answered(execution_id, key)
        if step_id:
            wanted |= {"step": keys.step(execution_id, step_id), "done": keys.done(execution_id, step_id)}
        if with_decision:
            wanted["said"] = keys.decided(execution_id, step_id)
        if session_id:
            wanted["session"] = keys.session(session_id)
        rows = self._table.find(list(wanted.values()))
        if wanted.get("answer") in rows:
            rows |= self._table.find([wanted["answer"]])
        found = {name: rows[place] for name, place in wanted.items() if place in rows}
        item, of = found.get("meta"), found.get("session")
        return Read(
            execution_from(item, self._labels(item)) if item else None,
            self._answered(key, found.get("answer")),
            self._step(step_id, found.get("step"), found.get("done"), found.get("said")),
            of["execution_id"] if of else None,
        )

    def commit(self, change: Change) -> None:
        plan, counts = self._planner.plan(change, new_write()), counts_of(change)
        frees = list(plan.frees)
        for attempt in range(TRIES):
            writes = [plan.execution, *plan.key, *plan.claim, *frees, *plan.others, *self._counting.of(counts)]
            failed = self._table.transact(writes, tries=1)
            if not failed:
                return
            if not any(failed):
                self._counting.move()
            gone = _judge(plan, failed, frees, is_new=change.before is None)
            frees = [free for free in frees if free not in gone]
            self._table.pause(attempt)
        raise self._table.busy()

    def view(self, execution_id: str) -> Details | None:
        pk = keys.execution(execution_id)
        return self._details(pk, self._table.find([(pk, keys.META), (pk, keys.INPUT), (pk, keys.OUTPUT)]))

    def _details(self, pk: str, found: Mapping[Key, Item]) -> Details | None:
        item, given, output = (found.get((pk, sk)) for sk in (keys.META, keys.INPUT, keys.OUTPUT))
        execution = execution_from(item, self._labels(item)) if item else None
        if execution and execution.forgotten:
            return Details(execution, None, None, execution.forgotten.again_of)
        if execution is None or given is None:
            return None
        made = self._values.value(output) if output else None
        return Details(execution, self._values.value(given), made, given.get("again_of", ""))

    def message(self, agent_id: str, consumer_id: str, key: str, execution_id: str) -> Message | None:
        place, consumer = (keys.outbox("agent", agent_id, consumer_id), key), keys.consumer(agent_id, consumer_id)
        pk = keys.execution(execution_id)
        found = self._table.find([place, consumer, (pk, keys.META), (pk, keys.INPUT), (pk, keys.OUTPUT)])
        message = message_from(found[place]) if place in found else None
        if message is None:
            return None
        beside = Beside(consumer_from(found[consumer]) if consumer in found else None, self._details(pk, found))
        return replace(message, beside=beside)

    def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        return page_of_events(self._log(execution_id, after, min(limit, PAGE_ROWS)), limit)

    def _log(self, execution_id: str, after: int, page: int) -> Iterator[Event]:
        begin = keys.EVENTS + keys.number(after)
        rows = self._table.query(keys.execution(execution_id), after=begin, before=keys.EVENTS + AFTER_ALL, page=page)
        for item in rows:
            batch = events_from(execution_id, item, self._values.value(item))
            yield from (event for event in batch if event.sequence > after)

    def history(self, execution_id: str, limit: int) -> list[tuple[HistoryEntry, StepRecord]]:
        entries: list[HistoryEntry] = []
        pk, bounds = keys.execution(execution_id), (keys.HISTORY, keys.HISTORY + AFTER_ALL)
        for item in self._table.query(pk, after=bounds[0], before=bounds[1], page=limit, newest_first=True):
            entries = history_from(self._values.value(item)) + entries
            if len(entries) >= limit:
                break
        entries = entries[-limit:]
        records = self._steps(execution_id, list(dict.fromkeys(entry.step_id for entry in entries)))
        return [(entry, records[entry.step_id]) for entry in entries]

    def signal(self, execution_id: str, sequence: int) -> Json:
        item = self._table.get(*keys.signal(execution_id, sequence))
        return self._values.value(item) if item else None

    def rows(self, which: Filter, after: Place | None, limit: int) -> Summaries:
        return self._listed.rows(which, after, limit)

    def holder(self, step_id: str, execution_ids: Sequence[str]) -> str:
        return self._listed.holder(step_id, execution_ids)

    def standing(self, execution_ids: Sequence[str]) -> Mapping[str, Standing]:
        return self._listed.standing(execution_ids)

    def approvals(self, limit: int, after: str = "") -> list[Approval]:
        return self._lists.approvals(limit, after)

    def answered(self, limit: int, before: str = "") -> ApprovalPage:
        return self._lists.answered(limit, before)

    def approval(
        self, execution_id: str, step_id: str, *, with_arguments: bool = True
    ) -> tuple[Approval, StepRecord] | None:
        shown = self._approval(execution_id, step_id, with_arguments)
        if shown is None or shown[0].waits or shown[0].decided:
            return shown
        return self._approval(execution_id, step_id, with_arguments)  # cancelled, or answered while it was read

    def _approval(self, execution_id: str, step_id: str, with_arguments: bool) -> tuple[Approval, StepRecord] | None:
        meta, asked = keys.meta(execution_id), keys.asked(execution_id, step_id)
        step, said = keys.step(execution_id, step_id), keys.decided(execution_id, step_id)
        found = self._table.find([meta, asked, step, said])
        execution = execution_from(found[meta], self._labels(found[meta])) if meta in found else None
        if execution is None or execution.forgotten:
            return None
        if step in found and not with_arguments:
            found[step] |= NO_ARGUMENTS
        record = self._step(step_id, found.get(step), None, found.get(said))
        if record is None:
            return None
        return approval_of_step(execution, record, question_from(found.get(asked)))

    def note_forgotten(self, execution: Execution, forgotten: Forgotten) -> None:
        noted = replace(execution, version=execution.version + 1, labels={}, forgotten=forgotten)
        item = execution_item(noted, new_write())
        if not self._table.put(item, AS_READ, {"version": execution.version}).done:
            raise VersionConflict

    def erase(self, execution_id: str, goes_on: Callable[[], bool]) -> bool:
        pk, log = keys.execution(execution_id), (keys.EVENTS, keys.EVENTS + AFTER_ALL)
        for batch in _batches(self._table.query(pk, page=PAGE_ROWS, only="pk, sk, far")):
            gone = [row for row in batch if row["sk"] != keys.META and not log[0] < row["sk"] < log[1]]
            for row in gone:  # before its row, so that a repeat after a crash still finds its name
                self._values.drop(row)
            self._table.delete_all([_key(row) for row in gone])
            if not goes_on():
                return False
        for row in self._table.query(pk, after=log[0], before=log[1], page=PAGE_ROWS):
            self._empty(execution_id, row)
            if not goes_on():
                return False
        return self._drop_steps(execution_id, goes_on)

    def _drop_steps(self, execution_id: str, goes_on: Callable[[], bool]) -> bool:
        """Remove the recorded steps of a hosted agent's runs, as the index shows them."""
        from piecework.aws.steps_table import steps_of
        from piecework.kernel.hosted.lasting import steps_key

        partition = steps_of(steps_key(execution_id))
        for batch in _batches(self._table.query(partition, page=PAGE_ROWS, index=keys.BY_AGE)):
            self._table.delete_all([_key(row) for row in batch])
            if not goes_on():
                return False
        return True

    def _empty(self, execution_id: str, row: Item) -> None:
        """Take the bodies out of the events of one command; from then on its object is not read any more."""
        if "emptied" not in row:
            events = events_from(execution_id, row, self._values.value(row))
            left = tuple(replace(event, payload=emptied(event.type, event.payload)) for event in events)
            body = text_of(events_value(left))
            self._table.update(_key(row), "SET body = :body, emptied = :true", {"body": body, "true": True}, PRESENT)
        if "far" in row:
            self._values.drop(row)
            self._table.update(_key(row), "REMOVE far, #bytes", {}, PRESENT)

    def forget(self, execution_id: str) -> None:
        meta = keys.meta(execution_id)
        item = self._table.get(*meta)
        if item is None:
            return
        due = self._planner.due(execution_from(item, self._labels(item)))
        for batch in _batches(self._table.query(meta[0], page=PAGE_ROWS, only="pk, sk, far")):
            self._table.delete_all([key for key in map(_key, batch) if key != meta])
            for row in batch:  # after the rows that name them: a reader in between finds nothing, not half of it
                self._values.drop(row)
        self._table.transact([Delete(meta), Delete(key_of(due), table=self._due_table)], tries=1)

    def _labels(self, item: Item) -> Mapping[str, str]:
        """An execution's labels, from a row of their own when they are long."""
        if "labels" in item:
            labels: dict[str, str] = json.loads(item["labels"])
            return labels
        far = self._table.get(keys.execution(item["created_id"].partition("#")[2]), keys.LABELS)
        return dict(self._values.value(far)) if far else {}

    def _answered(self, key: str, item: Item | None) -> IdempotencyRecord | None:
        if item is None:
            return None
        text = {name: item[name] for name in ("fingerprint", "step_id", "session_id")}
        return IdempotencyRecord(
            key, text["fingerprint"], self._values.value(item), text["step_id"], text["session_id"]
        )

    def _step(self, step_id: str, item: Item | None, done: Item | None, said: Item | None = None) -> StepRecord | None:
        if item is None:
            return None
        return StepRecord(
            id=step_id,
            tool_id=item["tool_id"],
            remote=item["remote"],
            arguments=self._values.value(item),
            has_arguments=item["has_arguments"],
            outcome=outcome_from(self._values.value(done)) if done else None,
            asked=item.get("asked"),
            is_private=item.get("private", False),
            decided=decided_from(self._values.value(said)) if said else None,
        )

    def _steps(self, execution_id: str, step_ids: Sequence[str]) -> dict[str, StepRecord]:
        both = [key(execution_id, step_id) for step_id in step_ids for key in (keys.step, keys.done)]
        found = self._table.find(both)
        made = {
            step_id: self._step(
                step_id, found.get(keys.step(execution_id, step_id)), found.get(keys.done(execution_id, step_id))
            )
            for step_id in step_ids
        }
        return {step_id: record for step_id, record in made.items() if record}


def _judge(plan: Plan, failed: Sequence[bool], frees: Sequence[Write], *, is_new: bool) -> list[Write]:
    """What a refused transaction means; returns the writes to leave out when that is all that is wrong.

    Raises:
        VersionConflict: the execution must be read again.
        ConnectionTaken: another connection must be chosen.
    """
    keyed = 1 + len(plan.key)
    claimed = keyed + len(plan.claim)
    if any(failed[:keyed]):
        raise VersionConflict
    if any(failed[keyed:claimed]):
        raise ConnectionTaken
    gone = [free for free, is_gone in zip(frees, failed[claimed:], strict=False) if is_gone]
    if not gone and not is_new:
        raise VersionConflict  # it met another transaction, which has changed something by now; or too many writes
    return gone


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == PAGE_ROWS:
            yield batch
            batch = []
    yield batch


def _key(item: Item) -> Key:
    return item["pk"], item["sk"]
