"""Recorded steps, each written once and gone with its table's TTL: attributes `result` (bytes), `expires_at` (s).

The results table holds them by their key alone, as it holds pieces; tables with a sort key under `pk` = STEP#<key>,
`sk` = STEP. A listed step stands in an index of its table under STEP#<key of its piece>: in `ByDay` by `in_day` and
`at_id`, in the kernel table's `ByAge` by `age_shard` and `created_id`. In the results table it has `step`, its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, THE_RESULTS, THE_WORK, Table
from piecework.aws.writes import ABSENT_OR_EXPIRED, Key, at
from piecework.clock import now_in_ms
from piecework.durable.steps import ListedStepTable

if TYPE_CHECKING:
    from piecework.aws.table import Client

EARLIER: Final = "expires_at < :least"
TIME_DIGITS: Final = 13  # of epoch milliseconds, until the year 2286
NAME_CHARACTERS: Final = 80  # of a step's name in its row; the key is made of the whole name


class Indexed(NamedTuple):
    """The attributes by which an index of the table lists steps; and whether their names are in it."""

    partition: str
    place: str
    has_names: bool = False


class StepsTable(ListedStepTable):
    """Steps in DynamoDB."""

    def __init__(
        self, table: Table, place: Callable[[str], Key], indexed: Indexed, clock: Callable[[], int] = now_in_ms
    ) -> None:
        self._table, self._place, self._indexed, self._clock = table, place, indexed, clock

    def find(self, key: str) -> bytes | None:
        row = self._table.get(*self._place(key))
        if row is None or row["expires_at"] * 1000 <= self._clock():
            return None
        return bytes(row["result"])

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        return self._record(at(self._place(key)) | {"result": body, "expires_at": expires_at}, body)

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        at_id = f"{self._clock():0{TIME_DIGITS}d}-{key[:6]}"
        row = at(self._place(key)) | {"result": body, "expires_at": expires_at}
        row |= {self._indexed.partition: steps_of(piece), self._indexed.place: at_id}
        return self._record(row | ({"step": name[:NAME_CHARACTERS]} if self._indexed.has_names else {}), body)

    def keep(self, key: str, least: int, expires_at: int) -> None:
        values = {"expires": expires_at, "least": least}
        self._table.update(self._place(key), "SET expires_at = :expires", values, EARLIER)

    def _record(self, row: Item, body: bytes) -> bytes:
        written = self._table.put(row, ABSENT_OR_EXPIRED, {"now_s": self._clock() // 1000})
        if not (written.done or written.row):
            raise self._table.changed()
        return body if written.done else bytes(written.row["result"])


def steps_of(piece: str) -> str:
    """The partition of the index that holds the steps of a piece."""
    return f"STEP#{piece}"


def result_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of the runtime door, among its pieces."""
    indexed = Indexed("in_day", "at_id", has_names=True)
    return StepsTable(Table(client, table, THE_RESULTS), lambda key: (key,), indexed, clock)


def work_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hired work, in the work table."""
    return StepsTable(Table(client, table, THE_WORK), _among_others, Indexed("in_day", "at_id"), clock)


def hosted_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hosted runs, in the kernel table."""
    return StepsTable(Table(client, table, THE_KERNEL), _among_others, Indexed("age_shard", "created_id"), clock)


def _among_others(key: str) -> Key:
    return f"STEP#{key}", "STEP"
