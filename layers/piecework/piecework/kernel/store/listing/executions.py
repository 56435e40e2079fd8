"""Lists of executions, from the kernel table's indexes, newest first; a page reads a bounded part of them.

A filter picks the index: an agent's own, else that of a status, else that of all. Times narrow the range of its keys.
What the index does not know is filtered by DynamoDB among the rows that it looks at. A page looks at so many at most,
and then ends where it stands: with fewer executions than asked for, or none, and a place to go on from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import Index, Part, Table
from piecework.aws.writes import Key
from piecework.jsons import Json
from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.executions import Filter, Place, Standing, Summaries, Summary
from piecework.kernel.model.state import Execution, Status
from piecework.kernel.store import keys
from piecework.kernel.store.items import events_from, execution_from, row_from
from piecework.kernel.store.listing.merging import merged
from piecework.kernel.store.values import text_of
from piecework.kernel.wire.cursors import enough

ValueOf = Callable[[Item], Json]
LabelsOf = Callable[[Item], Mapping[str, str]]

MORE: Final = 10  # rows a shard is asked for beyond its even share
AGENT_ID_BYTES: Final = 256  # of the longest id there can be; DynamoDB refuses to look for a key over 2,048
ID_CHARACTERS: Final = 200  # of a cursor's id, which is a caller's text
FILTERED_LABELS: Final = 10  # an expression has 4,096 bytes
FILTERED_PAGE: Final = 500  # rows that one request looks at when some of them are left out
REQUESTS: Final = 16  # of one page; enough to fill any without a filter, should all of it lie in one shard
LONG_LABELS: Final = 250  # executions of one page whose labels have a row of their own, which costs a request


class ExecutionLists:
    """Reads the lists."""

    def __init__(self, table: Table, labels_of: LabelsOf, value_of: ValueOf) -> None:
        self._table, self._labels_of, self._value_of = table, labels_of, value_of

    def rows(self, which: Filter, after: Place | None, limit: int) -> Summaries:
        """Newest first, strictly after that place; fewer than `limit` when their labels fill a page, too."""
        reading = _Reading(self._table, self._labels_of, which, after, limit)
        found = list(islice(enough(reading.matching()), limit))
        return Summaries(found, reading.then if reading.is_done else (found[-1].created_at_ms, found[-1].id))

    def holder(self, step_id: str, execution_ids: Sequence[str]) -> str:
        """As in `Executions`."""
        places = {keys.step(one, step_id): one for one in execution_ids}
        found = self._table.find(list(places), only="pk, sk")
        return next((one for place, one in places.items() if place in found), "")

    def standing(self, execution_ids: Sequence[str]) -> Mapping[str, Standing]:
        """As in `Executions`; a last event whose row is too large to hold it is not looked up."""
        rows = self._table.find([keys.meta(one) for one in execution_ids]).values()
        found = {execution.id: execution for execution in (execution_from(row, {}) for row in rows)}
        failed = [one for one in found.values() if one.status is Status.FAILED and not one.forgotten]
        logs = self._table.find([keys.event(one.id, one.sequence) for one in failed]) if failed else {}
        return {one.id: Standing(one, self._last(one, logs)) for one in found.values()}

    def _last(self, execution: Execution, logs: Mapping[Key, Item]) -> Event | None:
        row = logs.get(keys.event(execution.id, execution.sequence))
        if row is None or "far" in row:
            return None
        return events_from(execution.id, row, self._value_of(row))[-1]


class _Reading:
    """One page's reading of the partitions that hold what a filter names; `then` is where it has ended."""

    def __init__(self, table: Table, labels_of: LabelsOf, which: Filter, after: Place | None, limit: int) -> None:
        self._table, self._labels_of, self._which = table, labels_of, which
        self._index, self._partitions = _partitions(which)
        self._where, self._values = _filtered(which)
        self._page = FILTERED_PAGE if self._where else limit // len(self._partitions) + MORE
        self._begin, self._end = _bounds(which, after)
        self.then: Place | None = None
        self.is_done = False

    def matching(self) -> Iterator[Summary]:
        """The executions that fit, in order, as far as the page may read."""
        looked_up = 0
        for row in self._rows():
            looked_up += "labels" not in row
            summary = row_from(row, self._labels_of(row))
            if self._which.labels.items() <= summary.labels.items():
                yield summary
            if looked_up >= LONG_LABELS:
                self.then = _place(row["created_id"])
                break
        self.is_done = True

    def _rows(self) -> Iterator[Item]:
        """The rows of all partitions in order; a partition is read on when the others go further than it."""
        if len(self._which.agent_id.encode()) > AGENT_ID_BYTES or (self._begin and self._begin <= self._end):
            return
        parts = {partition: self._part(partition, self._begin) for partition in self._partitions}
        requests, told = len(parts), self._begin
        while True:
            whole = merged(list(parts.values()), self._index.sk, newest_first=True)
            yield from (row for row in whole.rows if not told or row["created_id"] < told)
            told = whole.read_to
            if not told:
                return
            behind = [partition for partition, part in parts.items() if part.read_to == told]
            requests += len(behind)
            if requests > REQUESTS:
                self.then = _place(told)
                return
            parts |= {partition: self._part(partition, told) for partition in behind}

    def _part(self, partition: str, before: str) -> Part:
        return self._table.part(
            partition,
            self._page,
            index=self._index,
            after=self._end,
            before=before,
            newest_first=True,
            where=self._where,
            values=self._values,
        )


def _place(created_id: str) -> Place:
    created, _, execution_id = created_id.partition("#")
    return int(created), execution_id


def _bounds(which: Filter, after: Place | None) -> tuple[str, str]:
    """Sort keys between which the page lies, the newer one first; empty where there is none."""
    newest = [keys.time(which.created_before_ms)] if which.created_before_ms is not None else []
    newest += [f"{keys.time(after[0])}#{after[1][:ID_CHARACTERS]}"] if after else []
    oldest = keys.time(which.created_after_ms) if which.created_after_ms is not None else ""
    return min(newest, default=""), oldest


def _partitions(which: Filter) -> tuple[Index, list[str]]:
    """The index and the partitions of it that hold every execution asked for."""
    if which.agent_id:
        return keys.BY_AGENT, [which.agent_id]
    shards = range(keys.LIST_SHARDS)
    if which.status:
        return keys.BY_STATUS, [f"{which.status}#{shard}" for shard in shards]
    return keys.BY_AGE, [f"AGE#{shard}" for shard in shards]


def _filtered(which: Filter) -> tuple[str, dict[str, str]]:
    """The filter for DynamoDB and its values; labels are found by their text, and compared when the row is read."""
    conditions, values = list[str](), dict[str, str]()
    if which.agent_id and which.status:
        conditions.append("#status = :status")
        values["status"] = which.status
    for number, (key, value) in enumerate(islice(which.labels.items(), FILTERED_LABELS)):
        conditions.append(f"(attribute_not_exists(labels) OR contains(labels, :label{number}))")
        values[f"label{number}"] = text_of({key: value})[1:-1]
    return " AND ".join(conditions), values
