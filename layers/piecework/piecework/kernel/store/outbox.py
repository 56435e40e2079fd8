"""Messages for consumers and connections: `pk` = OUT#kind#…, `sk` sorts as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from piecework.aws.rows import Item, Rows, n
from piecework.kernel.model.ports import Message, Outbox
from piecework.kernel.store import keys as kernel_keys
from piecework.kernel.store.items import push_from


class KernelOutbox(Outbox):
    """Messages in DynamoDB; changes write them, streams take and remove them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]:
        rows = islice(self._rows.query(kernel_keys.outbox(kind, owner, consumer_id), page=limit), limit)
        return [message for row in rows if (message := _message(row))]

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        taken = self._rows.update(
            (kernel_keys.outbox(kind, owner, consumer_id), key),
            "SET taken_by = :generation",
            {":generation": n(generation), ":nobody": n(0)},
            "taken_by = :nobody OR taken_by = :generation",
        )
        return taken is not None

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Sequence[str]) -> None:
        pk = kernel_keys.outbox(kind, owner, consumer_id)
        self._rows.delete_all([(pk, key) for key in keys])


def _message(row: Item) -> Message | None:
    """A stored message; one that this version cannot read is left to those that can, and holds up no other."""
    try:
        return Message(row["sk"]["S"], push_from(row["push"]["S"]), int(row["taken_by"]["N"]))
    except (KeyError, TypeError, ValueError):
        return None


def empty(rows: Rows, kind: str, owner: str, consumer_id: str) -> None:
    """Remove the messages of a consumer that is forgotten."""
    pk = kernel_keys.outbox(kind, owner, consumer_id)
    rows.delete_all([(pk, row["sk"]["S"]) for row in rows.query(pk, page=100, ProjectionExpression="sk")])
