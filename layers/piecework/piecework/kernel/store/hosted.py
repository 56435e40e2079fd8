"""Leases of hosted runs in the kernel table: `pk` = HOSTED#<execution id>, `sk` = "-", one request per step of a run.

Attributes: `claim` (the token of the run that holds it), `lease_until` (ms), `tries` (runs in a row without a result),
`again` (another wake-up came meanwhile), `released` (the token that gave the lease back last), `expires_at` (s; the
table's TTL). A repeated request recognises its own first try by the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_KERNEL, Table, Written
from piecework.aws.writes import ABSENT, Values
from piecework.clock import DAY_MS
from piecework.errors import LeaseLost, Unavailable
from piecework.kernel.hosted.runs import Leases

if TYPE_CHECKING:
    from piecework.aws.table import Client

FREE: Final = f"{ABSENT} OR lease_until <= :now"
HELD: Final = "lease_until > :now"
MINE: Final = "claim = :token"
KEPT_MS: Final = DAY_MS  # beyond its lease; an execution lives an hour
ROUNDS: Final = 5  # of claiming or leaving a mark, while other runs come and go


class HostedLeases(Leases):
    """Leases in DynamoDB; every write is conditional."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_KERNEL)

    def claim(self, execution_id: str, token: str, now_ms: int, until_ms: int) -> int | None:
        values = {"token": token, "now": now_ms, "until": until_ms, "false": False, "one": 1}
        values |= {"expires": (until_ms + KEPT_MS) // 1000}
        update = "SET claim = :token, lease_until = :until, again = :false, expires_at = :expires ADD tries :one"
        for _ in range(ROUNDS):
            claimed = self._update(execution_id, update, FREE, values, ours={"claim": token})
            if claimed.done:
                return int(claimed.row["tries"])
            if self._update(execution_id, "SET again = :true", HELD, {"now": now_ms, "true": True}).done:
                return None
        raise Unavailable("the run's lease changed during this request; try again")

    def renew(self, execution_id: str, token: str, until_ms: int) -> None:
        values = {"token": token, "until": until_ms}
        if not self._update(execution_id, "SET lease_until = :until", MINE, values, ours={"claim": token}).done:
            raise LeaseLost("another run has taken this execution over")

    def release(self, execution_id: str, token: str) -> bool:
        update = "SET lease_until = :zero, tries = :zero, released = :token REMOVE claim"
        values = {"token": token, "zero": 0, "false": False}
        unmarked = f"{MINE} AND again = :false"
        if self._update(execution_id, update, unmarked, values, ours={"released": token}).done:
            return True
        values = {"token": token, "false": False}
        if not self._update(execution_id, "SET again = :false", MINE, values, ours={"claim": token}).done:
            raise LeaseLost("another run has taken this execution over")
        return False

    def give_up(self, execution_id: str, token: str) -> None:
        self._update(execution_id, "SET lease_until = :zero REMOVE claim", MINE, {"token": token, "zero": 0})

    def _update(
        self, execution_id: str, update: str, condition: str, values: Values, ours: Values | None = None
    ) -> Written:
        key = f"HOSTED#{execution_id}", "-"
        return self._table.update(key, update, values, condition, ours=ours, returning=True)
