"""Messages for consumers and connections: `pk` = OUT#kind#…, `sk` sorts as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from piecework.aws.attributes import Item
from piecework.aws.table import Table
from piecework.kernel.model.ports.executions import Message, Outbox
from piecework.kernel.store import keys as kernel_keys
from piecework.kernel.store.items import push_from


class KernelOutbox(Outbox):
    """Messages in DynamoDB; changes write them, streams take and remove them."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]:
        rows = islice(self._table.query(kernel_keys.outbox(kind, owner, consumer_id), page=limit), limit)
        return [message for row in rows if (message := message_from(row))]

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        taken = self._table.update(
            (kernel_keys.outbox(kind, owner, consumer_id), key),
            "SET taken_by = :generation",
            {"generation": generation, "nobody": 0},
            "taken_by = :nobody OR taken_by = :generation",
        )
        return taken.done

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Sequence[str]) -> None:
        pk = kernel_keys.outbox(kind, owner, consumer_id)
        self._table.delete_all([(pk, key) for key in keys])


def message_from(row: Item) -> Message | None:
    """A stored message; one that this version cannot read is left to those that can, and holds up no other."""
    try:
        return Message(row["sk"], push_from(row["push"]), row["taken_by"])
    except (KeyError, TypeError, ValueError):
        return None


def empty(table: Table, kind: str, owner: str, consumer_id: str) -> None:
    """Remove the messages of a consumer that is forgotten."""
    pk = kernel_keys.outbox(kind, owner, consumer_id)
    table.delete_all([(pk, row["sk"]) for row in table.query(pk, page=100, only="sk")])
