"""Pieces and their steps in the results table, through its index `ByDay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from piecework.aws.listed import BY_DAY
from piecework.aws.pieces_table import from_item, shown
from piecework.aws.steps_table import steps_of
from piecework.aws.table import THE_RESULTS, Index, Table
from piecework.durable.pieces import Piece
from piecework.ops.listing import Row
from piecework.ops.pieces import PieceRows, StepRow

if TYPE_CHECKING:
    from piecework.aws.table import Client

INDEX: Final = Index(BY_DAY, "in_day", "at_id")
IN_SHORT: Final = (
    "pk, #state, claim, fingerprint, lease_until, expires_at, in_day, at_id, #caller, #executor, #ids, forgotten"
)


class PieceRowsTable(PieceRows):
    """Pieces in DynamoDB; the index is eventually consistent, by less than a second as a rule."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_RESULTS)

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Row]:
        found = self._table.query(f"{day}#{shard}", before=before, page=limit, newest_first=True, index=INDEX)
        return list(islice(found, limit))

    def find(self, keys: Sequence[str]) -> Mapping[str, Piece]:
        rows = self._table.find([(key,) for key in keys], only=IN_SHORT)
        return {key: from_item(row) for (key,), row in rows.items()}

    def read(self, key: str) -> Piece | None:
        row = self._table.get(key)
        return from_item(row) if row and "state" in row else None  # a step does not have one

    def steps(self, key: str, limit: int) -> list[StepRow]:
        found = self._table.query(steps_of(key), page=limit, index=INDEX)
        return [StepRow(row["step"], int(row["at_id"].partition("-")[0])) for row in islice(found, limit)]

    def shown(self, id_: str) -> str:
        return shown(id_)
