"""Seats of stream readers in the work table: `pk` = READERS#<contract or door>, `sk` = the seat's number.

Attributes: `token` (who holds it), `until` (s, 0 when it was given back), `expires_at` (s; the table's TTL).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_WORK, Table
from piecework.aws.writes import ABSENT
from piecework.worker.stream.readers import Seat, Seats

if TYPE_CHECKING:
    from piecework.aws.table import Client

OURS: Final = "#token = :token"
FREE_OR_OURS: Final = f"{ABSENT} OR #until <= :now OR {OURS}"
KEPT_SECONDS: Final = 3_600  # past its end, whatever the clocks say


class ReaderTable(Seats):
    """Seats in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_WORK)

    def taken(self, scope: str) -> Mapping[int, int]:
        return {int(row["sk"]): row["until"] for row in self._table.query(f"READERS#{scope}")}

    def take(self, seat: Seat, now_s: int) -> bool:
        return self._table.put(_item(seat, seat.until_s), FREE_OR_OURS, {"token": seat.token, "now": now_s}).done

    def leave(self, seat: Seat) -> None:
        self._table.put(_item(seat, 0), OURS, {"token": seat.token})


def _item(seat: Seat, until_s: int) -> Item:
    return {
        "pk": f"READERS#{seat.scope}",
        "sk": f"{seat.number:04d}",
        "token": seat.token,
        "until": until_s,
        "expires_at": seat.until_s + KEPT_SECONDS,
    }
