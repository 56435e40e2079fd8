"""The contracts table: one item per contract, written once.

Attributes: `pk` (contract id), `document` (JSON text), `hash`, `webhook_secret`, `attempts`, `source`, `stored_at`
(ms), `write` (drawn anew for every put), `expires_at` (s; the table's TTL), and `in_day` and `at_id`, by which the
index `ByDay` holds its keys.
TTL deletes late, so expired items count as absent.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from piecework.aws.attributes import Item
from piecework.aws.listed import keys_of
from piecework.aws.table import Table
from piecework.aws.writes import ABSENT_OR_EXPIRED, new_write
from piecework.clock import now_in_ms
from piecework.jsons import canonical, loads
from piecework.worker.contract.contracts import KEPT_MS, ContractConflict, ContractRecord, Contracts, record_of

if TYPE_CHECKING:
    from piecework.aws.table import Client


class ContractsTable(Contracts):
    """Contracts in DynamoDB."""

    def __init__(self, client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._table, self._clock = Table(client, table, "the contracts table"), clock

    def put(self, record: ContractRecord) -> Literal["new", "same"]:
        listed = keys_of(sha256(record.contract_id.encode()).hexdigest(), record.stored_at_ms)
        item = to_item(record) | {"write": new_write(), **listed}
        written = self._table.put(item, ABSENT_OR_EXPIRED, {"now_s": self._clock() // 1000})
        if written.done:
            return "new"
        if not written.row:
            raise self._table.changed()
        if written.row["hash"] != record.hash:
            raise ContractConflict
        return "same"

    def get(self, contract_id: str) -> ContractRecord | None:
        item = self._table.get(contract_id)
        if item is None or item["expires_at"] * 1000 <= self._clock():
            return None
        return from_item(item)


def to_item(record: ContractRecord) -> Item:
    """A contract as it is stored."""
    secret = {"webhook_secret": record.webhook_secret} if record.webhook_secret else {}
    return {
        "pk": record.contract_id,
        "document": canonical(record.document).decode("utf-8"),
        "hash": record.hash,
        "attempts": record.attempts,
        "source": record.source,
        "stored_at": record.stored_at_ms,
        "expires_at": (record.deadline_ms + KEPT_MS) // 1000,
        **secret,
    }


def from_item(item: Item) -> ContractRecord:
    """A stored contract; it was validated when it came in."""
    return record_of(
        loads(item["document"]),
        item.get("webhook_secret"),
        attempts=item["attempts"],
        source="import" if item["source"] == "import" else "api",
        stored_at_ms=item["stored_at"],
    )
