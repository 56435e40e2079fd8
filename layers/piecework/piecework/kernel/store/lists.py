"""Lists of executions, from the kernel table's indexes: a query per shard, merged newest first.

A filter picks the index: an agent's own, else that of a status, else that of all. What the index does not know is
filtered by DynamoDB among the rows it reads, so a list by label alone reads until it has found enough.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import Index, Table
from piecework.jsons.stored import known
from piecework.kernel.model.ports import Approval, Filter, Summary
from piecework.kernel.store import keys
from piecework.kernel.store.items import row_from
from piecework.kernel.store.values import text_of
from piecework.kernel.wire.cursors import enough

LabelsOf = Callable[[Item], Mapping[str, str]]

MORE: Final = 10  # rows a shard is asked for beyond its even share
AGENT_ID_BYTES: Final = 256  # of the longest id there can be; DynamoDB refuses to look for a key over 2,048
ID_CHARACTERS: Final = 200  # of a cursor's id, which is a caller's text
FILTERED_LABELS: Final = 10  # an expression has 4,096 bytes
FILTERED_PAGE: Final = 500  # rows read by one request when some of them are left out


class KernelLists:
    """Reads the lists."""

    def __init__(self, table: Table, labels_of: LabelsOf) -> None:
        self._table, self._labels_of = table, labels_of

    def rows(self, which: Filter, after: tuple[int, str] | None, limit: int) -> list[Summary]:
        """Newest first, strictly after that (created_at_ms, id); fewer than `limit` when their labels fill a page."""
        if len(which.agent_id.encode()) > AGENT_ID_BYTES:
            return []
        shards = [self._shard(index, value, which, after, limit) for index, value in _partitions(which)]
        merged = heapq.merge(*shards, key=lambda item: item["created_id"], reverse=True)
        made = (row_from(item, self._labels_of(item)) for item in merged)
        return list(islice(enough(row for row in made if which.labels.items() <= row.labels.items()), limit))

    def approvals(self, limit: int) -> list[Approval]:
        """Who has waited longest comes first."""
        rows = islice(self._table.query(keys.APPROVALS, page=limit), limit)
        return [known(Approval, json.loads(row["approval"])) for row in rows]

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
