"""Recorded steps, each written once and gone with its table's TTL: attributes `result` (bytes), `expires_at` (s).

The results table holds them by their key alone, as it holds pieces; tables with a sort key under `pk` = STEP#<key>,
`sk` = STEP. A step of a listed piece has `step` (its name), and stands in the index `ByDay` under `in_day` =
STEP#<key of its piece>.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, THE_RESULTS, THE_WORK, Table
from piecework.aws.writes import ABSENT_OR_EXPIRED, Key, at
from piecework.clock import now_in_ms
from piecework.durable.steps import ListedStepTable, StepTable

if TYPE_CHECKING:
    from piecework.aws.table import Client

EARLIER: Final = "expires_at < :least"
TIME_DIGITS: Final = 13  # of epoch milliseconds, until the year 2286
NAME_CHARACTERS: Final = 80  # of a step's name in its row; the key is made of the whole name


class StepsTable(StepTable):
    """Steps in DynamoDB."""

    def __init__(self, table: Table, place: Callable[[str], Key], clock: Callable[[], int] = now_in_ms) -> None:
        self._table, self._place, self._clock = table, place, clock

    def find(self, key: str) -> bytes | None:
        row = self._table.get(*self._place(key))
        if row is None or row["expires_at"] * 1000 <= self._clock():
            return None
        return bytes(row["result"])

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        return self._record(at(self._place(key)) | {"result": body, "expires_at": expires_at}, body)

    def keep(self, key: str, least: int, expires_at: int) -> None:
        values = {"expires": expires_at, "least": least}
        self._table.update(self._place(key), "SET expires_at = :expires", values, EARLIER)

    def _record(self, row: Item, body: bytes) -> bytes:
        written = self._table.put(row, ABSENT_OR_EXPIRED, {"now_s": self._clock() // 1000})
        if not (written.done or written.row):
            raise self._table.changed()
        return body if written.done else bytes(written.row["result"])


class ResultSteps(StepsTable, ListedStepTable):
    """Steps in the results table, which lists them by their piece."""

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        row = {"pk": key, "result": body, "expires_at": expires_at}
        at_id = f"{self._clock():0{TIME_DIGITS}d}-{key[:6]}"
        listed = {"in_day": steps_of(piece), "at_id": at_id, "step": name[:NAME_CHARACTERS]}
        return self._record({**row, **listed}, body)


def steps_of(piece: str) -> str:
    """The partition of the index that holds the steps of a piece."""
    return f"STEP#{piece}"


def result_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> ResultSteps:
    """Steps of the runtime door, among its pieces."""
    return ResultSteps(Table(client, table, THE_RESULTS), lambda key: (key,), clock)


def work_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hired work, in the work table."""
    return StepsTable(Table(client, table, THE_WORK), _among_others, clock)


def hosted_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hosted runs, in the kernel table."""
    return StepsTable(Table(client, table, THE_KERNEL), _among_others, clock)


def _among_others(key: str) -> Key:
    return f"STEP#{key}", "STEP"
