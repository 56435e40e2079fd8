"""Leases of connections, and marks on rows that somebody is dealing with: attributes of the kernel table's rows.

A connection's row holds `generation`, `lease_until` (ms), `is_open`, and once its lease seemed to lapse `doubted_lease`
and `doubted_until`. A marked row holds `claimed_until` (ms) and `claim`.

Lists find who has connected by a row per agent and runner. Each connection writes it before its own first row, and
again at times, for it expires; `noted_at` (ms) tells when it last did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import TRIES, Table
from piecework.aws.writes import PRESENT, Key, Update, at, new_write
from piecework.clock import DAY_MS
from piecework.kernel.store import keys

UNCLAIMED: Final = f"{PRESENT} AND (attribute_not_exists(claimed_until) OR claimed_until <= :now OR claim = :token)"
SAME: Final = "generation = :generation"
SAME_AND_LAPSED: Final = f"{SAME} AND lease_until <= :until"
SAME_AND_OPEN: Final = f"{SAME} AND is_open = :true"
SAME_LEASE: Final = f"{SAME_AND_OPEN} AND lease_until = :lease"
NOTED_MS: Final = 3_600_000  # a connection that is opened anew this long after its agent was noted notes it again
LISTED_MS: Final = 30 * DAY_MS  # an agent or a runner without a new connection leaves the lists
DOUBT: Final = "SET doubted_lease = :lease, doubted_until = :until"


def note(table: Table, kind: str, id_: str, row: Item | None, now_ms: int) -> int:
    """See that lists find the agent or runner of a connection whose row that is; returns the row's new `noted_at`."""
    noted = int(row.get("noted_at", 0)) if row else 0
    if noted > now_ms - NOTED_MS:
        return noted
    table.put(at(keys.owner(kind, id_)) | {"name": id_, "expires_at": (now_ms + LISTED_MS) // 1000})
    return now_ms


def since(row: Item | None, now_ms: int) -> int:
    """When a connection that is opened now began, as its row has it; over a row of earlier code: now."""
    return int(row.get("since", now_ms)) if row and row["lease_until"] > now_ms else now_ms


def claim(table: Table, key: Key, now_ms: int, until_ms: int) -> bool:
    """Mark a row as taken until then; False when it is gone, or another's mark still counts."""
    values = {"until": until_ms, "now": now_ms, "token": new_write()}
    return table.update(key, "SET claimed_until = :until, claim = :token", values, UNCLAIMED).done


def unclaim(table: Table, key: Key) -> None:
    """Remove the mark from a row that is still there."""
    table.update(key, "REMOVE claimed_until, claim", {}, PRESENT)


def claimed_until(row: Item) -> int:
    """Until when a row is marked as taken, epoch ms; rows of earlier versions have no mark."""
    return int(row.get("claimed_until", 0))


def doubt(table: Table, key: Key, generation: int, lease_ms: int, until_ms: int) -> bool:
    """Note that an open connection's lease seems to lapse; False when it has just been moved."""
    values = {"generation": generation, "lease": lease_ms, "until": until_ms, "true": True}
    return table.update(key, DOUBT, values, SAME_LEASE).done


def doubted_until(row: Item) -> int:
    """Until when a doubted connection may still answer, epoch ms; a doubt counts only for its own lease."""
    return int(row["doubted_until"]) if row.get("doubted_lease") == row["lease_until"] else 0


def set_lease(table: Table, key: Key, generation: int, until_ms: int, *, is_open: bool) -> bool:
    """Move an open connection's lease, or end it; False when it is of another generation, or ended."""
    return not table.transact([_moved(key, generation, until_ms, is_open=is_open)])


def set_leases(table: Table, connections: Sequence[tuple[Key, int]], until_ms: int) -> list[bool]:
    """Move the leases of up to 100 connections that have nothing to do with each other; of each, whether it moved."""
    writes = [_moved(key, generation, until_ms, is_open=True) for key, generation in connections]
    moved: dict[int, bool] = {}
    for attempt in range(TRIES):
        left = [number for number in range(len(writes)) if number not in moved]
        failed = table.transact([writes[number] for number in left], tries=1)
        if not failed:
            return [moved.get(number, True) for number in range(len(writes))]
        moved |= {number: False for number, has_failed in zip(left, failed, strict=True) if has_failed}
        if len(moved) == len(writes):
            return [False] * len(writes)
        if not any(failed):
            table.pause(attempt)
    raise table.busy()


def _moved(key: Key, generation: int, until_ms: int, *, is_open: bool) -> Update:
    values = {"until": until_ms, "open": is_open, "generation": generation, "true": True}
    expression = "SET lease_until = :until, is_open = :open"
    return Update(key, expression, condition=SAME_AND_OPEN, values=values)
