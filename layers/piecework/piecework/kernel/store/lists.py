"""Lists of executions, from the kernel table's indexes: a query per shard, merged newest first.

A filter picks the index: an agent's own, else that of a status, else that of all. What the index does not know is
filtered by DynamoDB among the rows it reads, so a list by label alone reads until it has found enough.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import Index, Table
from piecework.aws.writes import Key
from piecework.jsons import Json
from piecework.kernel.model.ports import Approval, Filter, Summary
from piecework.kernel.store import keys
from piecework.kernel.store.items import approval_from, decided_from, question_from, row_from
from piecework.kernel.store.values import text_of
from piecework.kernel.wire.cursors import enough
from piecework.values import replace

LabelsOf = Callable[[Item], Mapping[str, str]]

MORE: Final = 10  # rows a shard is asked for beyond its even share
AGENT_ID_BYTES: Final = 256  # of the longest id there can be; DynamoDB refuses to look for a key over 2,048
ID_CHARACTERS: Final = 200  # of a cursor's id, which is a caller's text
FILTERED_LABELS: Final = 10  # an expression has 4,096 bytes
LOOKS: Final = 5  # pages of answers read for one; those of forgotten executions are the oldest, and go by their TTL
FILTERED_PAGE: Final = 500  # rows read by one request when some of them are left out


class KernelLists:
    """Reads the lists."""

    def __init__(self, table: Table, labels_of: LabelsOf, value: Callable[[Item], Json]) -> None:
        self._table, self._labels_of, self._value = table, labels_of, value

    def rows(self, which: Filter, after: tuple[int, str] | None, limit: int) -> list[Summary]:
        """Newest first, strictly after that (created_at_ms, id); fewer than `limit` when their labels fill a page."""
        if len(which.agent_id.encode()) > AGENT_ID_BYTES:
            return []
        shards = [self._shard(index, value, which, after, limit) for index, value in _partitions(which)]
        merged = heapq.merge(*shards, key=lambda item: item["created_id"], reverse=True)
        made = (row_from(item, self._labels_of(item)) for item in merged)
        return list(islice(enough(row for row in made if which.labels.items() <= row.labels.items()), limit))

    def approvals(self, limit: int, after: str) -> list[Approval]:
        """Who has waited longest comes first."""
        rows = islice(self._table.query(keys.APPROVALS, after=after, page=limit), limit)
        found = [approval_from(row) for row in rows]
        beside = self._table.find([keys.asked(one.execution_id, one.step_id) for one in found])
        return [_told(one, beside) for one in found]

    def answered(self, limit: int, before: str) -> list[Approval]:
        """The latest answer comes first; one that is gone with its execution is passed over, within bounds."""
        rows = self._table.query(keys.ANSWERED, before=before, page=limit, newest_first=True)
        found = list[Approval]()
        for _ in range(LOOKS):
            listed = [replace(approval_from(row), waits=False) for row in islice(rows, limit)]
            places = [place(one.execution_id, one.step_id) for one in listed for place in (keys.asked, keys.decided)]
            beside = self._table.find(places)
            found += [one for one in (self._decided(_told(one, beside), beside) for one in listed) if one.decided]
            if len(found) >= limit or len(listed) < limit:
                break
        return found[:limit]

    def _decided(self, approval: Approval, beside: Mapping[Key, Item]) -> Approval:
        row = beside.get(keys.decided(approval.execution_id, approval.step_id))
        return replace(approval, decided=decided_from(self._value(row))) if row else approval

    def _shard(
        self, index: Index, value: str, which: Filter, after: tuple[int, str] | None, limit: int
    ) -> Iterator[Item]:
        where, values = _filtered(which)
        shares = 1 if index == keys.BY_AGENT else keys.LIST_SHARDS
        return self._table.query(
            value,
            index=index,
            before=f"{keys.time(after[0])}#{after[1][:ID_CHARACTERS]}" if after else "",
            newest_first=True,
            page=FILTERED_PAGE if where else limit // shares + MORE,
            where=where,
            values=values,
        )


def _told(approval: Approval, beside: Mapping[Key, Item]) -> Approval:
    """An approval with what its person is told."""
    row = beside.get(keys.asked(approval.execution_id, approval.step_id))
    return replace(approval, question=question_from(row))


def _partitions(which: Filter) -> list[tuple[Index, str]]:
    """The index and the partitions of it that hold every execution asked for."""
    if which.agent_id:
        return [(keys.BY_AGENT, which.agent_id)]
    shards = range(keys.LIST_SHARDS)
    if which.status:
        return [(keys.BY_STATUS, f"{which.status}#{shard}") for shard in shards]
    return [(keys.BY_AGE, f"AGE#{shard}") for shard in shards]


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
