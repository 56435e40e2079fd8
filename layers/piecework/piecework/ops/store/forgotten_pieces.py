"""Pieces of the results table, as an operator has them forgotten: conditional updates, and deletions of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from piecework.aws.pieces_table import from_item
from piecework.aws.steps_table import steps_of
from piecework.aws.table import THE_RESULTS, Table
from piecework.durable.forgotten import Forgotten, text_of
from piecework.durable.pieces import Piece, State
from piecework.ops.forgetting.pieces import ForgettablePieces
from piecework.ops.store.piece_rows import INDEX
from piecework.values import replace

if TYPE_CHECKING:
    from piecework.aws.table import Client

PAGE: Final = 100
AS_READ: Final = "#state = :was AND claim = :claim AND attribute_not_exists(forgotten)"
LAPSED: Final = " AND lease_until <= :now"
NOTE: Final = (
    "SET #state = :failed, fingerprint = :nobody, forgotten = :note, expires_at = :expires"
    " REMOVE exact, lease_until, reason_code, reason"
)
NOTED: Final = "attribute_exists(forgotten)"


class ForgettablePiecesTable(ForgettablePieces):
    """Pieces in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_RESULTS)

    def read(self, key: str) -> Piece | None:
        row = self._table.get(key)
        return from_item(row) if row and "state" in row else None  # a step does not have one

    def note(self, key: str, before: Piece, note: Forgotten, expires_at: int, now_ms: int) -> bool:
        text, condition = text_of(note), AS_READ
        values: dict[str, object] = {"was": before.state, "claim": before.token, "failed": State.FAILED}
        values |= {"nobody": "", "note": text, "expires": expires_at}
        if before.state is State.RUNNING:
            condition, values = AS_READ + LAPSED, {**values, "now": now_ms}
        return self._table.update((key,), NOTE, values, condition, ours={"forgotten": text}).done

    def steps(self, key: str) -> Iterator[str]:
        return (row["pk"] for row in self._table.query(steps_of(key), page=PAGE, index=INDEX))

    def drop_step(self, key: str) -> None:
        self._table.delete((key,))

    def complete(self, key: str, note: Forgotten) -> None:
        text = text_of(replace(note, complete=True))
        self._table.update((key,), "SET forgotten = :note REMOVE #result, pointer", {"note": text}, NOTED)
