"""Recorded steps, each written once and gone with its table's TTL: attributes `result` (bytes), `expires_at` (s).

The results table holds them by their key alone, as it holds pieces; tables with a sort key under `pk` = STEP#<key>,
`sk` = STEP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_KERNEL, THE_RESULTS, THE_WORK, Table
from piecework.aws.writes import ABSENT_OR_EXPIRED, Key, at
from piecework.clock import now_in_ms
from piecework.durable.steps import StepTable

if TYPE_CHECKING:
    from piecework.aws.table import Client

EARLIER: Final = "expires_at < :least"


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
        row = at(self._place(key)) | {"result": body, "expires_at": expires_at}
        written = self._table.put(row, ABSENT_OR_EXPIRED, {"now_s": self._clock() // 1000})
        if not (written.done or written.row):
            raise self._table.changed()
        return body if written.done else bytes(written.row["result"])

    def keep(self, key: str, least: int, expires_at: int) -> None:
        values = {"expires": expires_at, "least": least}
        self._table.update(self._place(key), "SET expires_at = :expires", values, EARLIER)


def result_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of the runtime door, among its pieces."""
    return StepsTable(Table(client, table, THE_RESULTS), lambda key: (key,), clock)


def work_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hired work, in the work table."""
    return StepsTable(Table(client, table, THE_WORK), _among_others, clock)


def hosted_steps(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> StepsTable:
    """Steps of hosted runs, in the kernel table."""
    return StepsTable(Table(client, table, THE_KERNEL), _among_others, clock)


def _among_others(key: str) -> Key:
    return f"STEP#{key}", "STEP"
