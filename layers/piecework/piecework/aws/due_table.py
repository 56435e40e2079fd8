"""The due-time table: one row per due time, `pk` = kind and shard, `sk` = time and id; nothing else in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from piecework.aws.table import Table
from piecework.aws.writes import Delete, Key, Put, Write, at
from piecework.durable.due import PORTION, Due, DueTimes, due_at, partitions

if TYPE_CHECKING:
    from piecework.aws.table import Client

PAGE: Final = 100  # rows of one query; a row is some 100 bytes


class DueTable(DueTimes):
    """Due times in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, "the due-time table")

    def put(self, due: Due) -> None:
        self._table.put(at(key_of(due)))

    def remove(self, due: Due) -> None:
        self._table.delete(key_of(due))

    def ripe(self, kind: str, now_ms: int) -> Iterator[Due]:
        # They take turns: what fails again and again at the front of one partition holds up no other.
        shards = [self._ripe(partition, now_ms) for partition in partitions(kind)]
        while shards:
            fuller: list[Iterator[Due]] = []
            for shard in shards:
                if (yield from _some(shard)):
                    fuller.append(shard)
            shards = fuller

    def _ripe(self, partition: str, now_ms: int) -> Iterator[Due]:
        rows = self._table.query(partition, before=f"{now_ms + 1:015d}", page=PAGE)
        return (due for row in rows if (due := due_at(row["pk"], row["sk"])))


def _some(shard: Iterator[Due]) -> Generator[Due, None, bool]:
    """The next few of a partition; whether there may be more."""
    for number, due in enumerate(shard, 1):
        yield due
        if number == PORTION:
            return True
    return False


def key_of(due: Due) -> Key:
    """A due time's row, all of which is key."""
    return due.partition, due.sort


def writes_between(table: str, before: Due | None, after: Due | None) -> list[Write]:
    """The writes of a transaction that moves a record's due time."""
    if before == after:
        return []
    gone: list[Write] = [Delete(key_of(before), table=table)] if before else []
    return gone + ([Put(at(key_of(after)), table=table)] if after else [])
