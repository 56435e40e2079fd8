"""The row of all pauses in the results table: `pk` = PAUSES, an attribute for each scope, and `held`, their number.

A scope's attribute holds JSON: since when (ms), by whom, and why; `ended` is the token of the last write that ended a
pause. The row has no `expires_at`, so it never expires. Earlier code does not look at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_RESULTS, Table
from piecework.aws.writes import new_write
from piecework.durable.pauses import MOST_PAUSES, SCOPE, Pause, Pauses
from piecework.jsons import canonical, loads
from piecework.jsons.stored import known

if TYPE_CHECKING:
    from piecework.aws.attributes import Item
    from piecework.aws.table import Client

PK: Final = "PAUSES"
FREE: Final = "attribute_not_exists(#scope) AND (attribute_not_exists(held) OR held < :most)"
HELD: Final = "attribute_exists(#scope)"


class PausesRow(Pauses):
    """Pauses in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_RESULTS)

    def all(self) -> list[Pause]:
        return sorted(_pauses(self._table.get(PK) or {}), key=lambda pause: (pause.since_ms, pause.scope))

    def begin(self, pause: Pause) -> Pause | None:
        text = canonical({"since_ms": pause.since_ms, "by": pause.by, "reason": pause.reason}).decode()
        written = self._table.update(
            (PK,),
            "SET #scope = :pause ADD held :one",
            {"pause": text, "one": 1, "most": MOST_PAUSES},
            FREE,
            ours={pause.scope: text},
            names={"scope": pause.scope},
        )
        return pause if written.done else next((one for one in _pauses(written.row) if one.scope == pause.scope), None)

    def end(self, scope: str) -> bool:
        token = new_write()
        written = self._table.update(
            (PK,),
            "REMOVE #scope SET ended = :token ADD held :minus",
            {"token": token, "minus": -1},
            HELD,
            ours={"ended": token},
            names={"scope": scope},
        )
        return written.done


def _pauses(row: Item) -> list[Pause]:
    return [known(Pause, {**loads(text), "scope": scope}) for scope, text in row.items() if SCOPE.fullmatch(scope)]
