"""Lists of executions, from the kernel table's indexes: a query per shard, merged newest first.

A filter picks the index: an agent's own, else that of a status, else that of all. What the index does not know is
filtered by DynamoDB among the rows it reads, so a list by label alone reads until it has found enough.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from piecework.aws.rows import Item, Rows, s
from piecework.jsons.stored import known
from piecework.kernel.model.ports import Approval, Filter, Row
from piecework.kernel.store import keys
from piecework.kernel.store.items import row_from
from piecework.kernel.store.values import text_of
from piecework.kernel.wire.cursors import enough

LabelsOf = Callable[[Mapping[str, Any]], Mapping[str, str]]

MORE: Final = 10  # rows a shard is asked for beyond its even share
AGENT_ID_BYTES: Final = 256  # of the longest id there can be; DynamoDB refuses to look for a key over 2,048
ID_CHARACTERS: Final = 200  # of a cursor's id, which is a caller's text
FILTERED_LABELS: Final = 10  # an expression has 4,096 bytes
FILTERED_PAGE: Final = 500  # rows looked at by one request when some of them are left out


class KernelLists:
    """Reads the lists."""

    def __init__(self, rows: Rows, labels_of: LabelsOf) -> None:
        self._rows, self._labels_of = rows, labels_of

    def rows(self, which: Filter, after: tuple[int, str] | None, limit: int) -> list[Row]:
        """Newest first, strictly after that (created_at_ms, id); fewer than `limit` when their labels fill a page."""
        if len(which.agent_id.encode()) > AGENT_ID_BYTES:
            return []
        shards = [self._shard(index, name, value, which, after, limit) for index, name, value in _partitions(which)]
        merged = heapq.merge(*shards, key=lambda item: item["created_id"]["S"], reverse=True)
        made = (row_from(item, self._labels_of(item)) for item in merged)
        return list(islice(enough(row for row in made if which.labels.items() <= row.labels.items()), limit))

    def approvals(self, limit: int) -> list[Approval]:
        """Who has waited longest comes first."""
        rows = islice(self._rows.query(keys.APPROVALS, page=limit), limit)
        return [known(Approval, json.loads(row["approval"]["S"])) for row in rows]

    def _shard(
        self, index: str, name: str, value: str, which: Filter, after: tuple[int, str] | None, limit: int
    ) -> Iterator[Item]:
        condition, values = f"{name} = :{name}", {f":{name}": s(value)}
        if after:
            condition += " AND created_id < :after"
            values[":after"] = s(f"{keys.time(after[0])}#{after[1][:ID_CHARACTERS]}")
        filtered = _filtered(which)
        shares = 1 if index == keys.BY_AGENT else keys.LIST_SHARDS
        asked: dict[str, Any] = {
            "IndexName": index,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values | filtered.pop("values"),
            "ScanIndexForward": False,
            "Limit": FILTERED_PAGE if filtered else limit // shares + MORE,
            **filtered,
        }
        return self._rows.pages(asked)


def _partitions(which: Filter) -> list[tuple[str, str, str]]:
    """The index, its key and the values of the partitions that hold every execution asked for."""
    if which.agent_id:
        return [(keys.BY_AGENT, "agent_id", which.agent_id)]
    shards = range(keys.LIST_SHARDS)
    if which.status:
        return [(keys.BY_STATUS, "status_shard", f"{which.status}#{shard}") for shard in shards]
    return [(keys.BY_AGE, "age_shard", f"AGE#{shard}") for shard in shards]


def _filtered(which: Filter) -> dict[str, Any]:
    """What DynamoDB leaves out; labels are found by their text, and told apart for sure when the row is read."""
    conditions, values, names = [], {}, {}
    if which.agent_id and which.status:
        conditions.append("#status = :status")
        values[":status"], names["#status"] = s(which.status), "status"
    for number, (key, value) in enumerate(islice(which.labels.items(), FILTERED_LABELS)):
        conditions.append(f"(attribute_not_exists(labels) OR contains(labels, :label{number}))")
        values[f":label{number}"] = s(text_of({key: value})[1:-1])
    given: dict[str, Any] = {"FilterExpression": " AND ".join(conditions)} if conditions else {}
    return given | {"values": values} | ({"ExpressionAttributeNames": names} if names else {})
