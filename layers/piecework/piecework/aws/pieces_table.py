"""The results table: pieces, one row each, every write conditional.

Attributes: `pk` (key), `state`, `claim`, `lease_until` (ms), `fingerprint`, `exact`, `result` (bytes) or `pointer`,
`reason_code`, `reason`, `expires_at` (s; the table's TTL). TTL deletes late, so every condition treats an expired row
as absent. The steps of pieces lie in the same table (`steps_table.py`).

A piece that is listed has `in_day` and `at_id` too, the keys of the index `ByDay`, and `caller`, `executor` and
`ids`. The claim writes them and nothing changes them, so the index costs a write unit a claim, and none at the record.

A piece that was forgotten has `forgotten` (JSON) and is `failed`, under an empty fingerprint that no payload has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.listed import at_ms_of, keys_of
from piecework.aws.table import THE_RESULTS, Table
from piecework.aws.writes import ABSENT_OR_EXPIRED, Values
from piecework.durable.forgotten import note_in
from piecework.durable.pieces import Origin, Piece, PieceTable, State
from piecework.errors import LeaseLost

if TYPE_CHECKING:
    from piecework.aws.table import Client

# The life of a piece whose first runner dies, and who may claim it when:
#
#   claim a        renew a        (a dies)      lease lapses      claim b               record b          expires
#   |----- 15 s ------|                              |               |                       |               |
#            |-------------- 15 s -------------------|               |-------- 15 s ---- … --|               |
#   nobody else ------------------------------------>| same payload  | nobody else --------------------------->| anybody
#
# A runner that fails for a while releases the piece: then anybody may claim it at once, with any payload.
LAPSED: Final = "#state = :running AND lease_until <= :now_ms"
SAME_PAYLOAD: Final = "fingerprint = :fingerprint AND (attribute_not_exists(exact) OR exact = :exact)"
NOBODY_HOLDS_IT: Final = f"{ABSENT_OR_EXPIRED} OR #state = :released OR ({LAPSED} AND {SAME_PAYLOAD})"
ID_BYTES: Final = 80  # of each id in a row's copy, so that a row is under a write unit; the key has the whole ids
AS_BEFORE: Final = "="
I_HOLD_IT: Final = "#state = :running AND claim = :claim"


class PiecesTable(PieceTable):
    """Pieces in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_RESULTS)

    def claim(self, key: str, piece: Piece, now_ms: int) -> tuple[bool, Piece | None]:
        values = {
            "now_s": now_ms // 1000,
            "now_ms": now_ms,
            "released": State.RELEASED,
            "running": State.RUNNING,
            "fingerprint": piece.fingerprint,
            "exact": piece.exact or piece.fingerprint,
        }
        item, ours = to_item(key, piece), {"claim": piece.token}
        written = self._table.put(item, NOBODY_HOLDS_IT, values, ours=ours, returning=True)
        if not (written.done or written.row):
            raise self._table.changed()
        return written.done, from_item(written.row) if written.row else None

    def renew(self, key: str, token: str, lease_until_ms: int) -> None:
        self._update(key, token, State.RUNNING, "SET lease_until = :lease", {"lease": lease_until_ms})

    def record(self, key: str, token: str, piece: Piece) -> None:
        name, kept = ("#result", piece.body) if piece.pointer is None else ("pointer", piece.pointer)
        update = f"SET #state = :state, expires_at = :expires, {name} = :kept REMOVE lease_until"
        values = {"state": piece.state, "expires": piece.expires_at, "kept": kept}
        self._update(key, token, piece.state, update, values)

    def release(self, key: str, token: str, reason_code: str, reason: str) -> None:
        update = "SET #state = :state, reason_code = :code, reason = :reason REMOVE lease_until"
        values = {"state": State.RELEASED, "code": reason_code, "reason": reason}
        self._update(key, token, State.RELEASED, update, values)

    def read(self, key: str) -> Piece | None:
        row = self._table.get(key)
        return from_item(row) if row else None

    def _update(self, key: str, token: str, landed: State, update: str, values: Values) -> None:
        held = {"running": State.RUNNING, "claim": token}
        ours = {"claim": token, "state": landed}
        if not self._table.update((key,), update, {**values, **held}, I_HOLD_IT, ours=ours).done:
            raise LeaseLost("another runner has taken this piece over")


def to_item(key: str, piece: Piece) -> Item:
    """A running piece as it is claimed; later states are written by updates."""
    return {
        "pk": key,
        "state": piece.state,
        "claim": piece.token,
        "fingerprint": piece.fingerprint,
        **({"exact": piece.exact} if piece.exact else {}),
        "lease_until": piece.lease_until_ms,
        "expires_at": piece.expires_at,
        **(_listed(key, piece, piece.origin) if piece.origin else {}),
    }


def from_item(item: Item) -> Piece:
    """A stored piece."""
    return Piece(
        state=State(item["state"]),
        token=item["claim"],
        fingerprint=item["fingerprint"],
        lease_until_ms=item.get("lease_until", 0),
        expires_at=item["expires_at"],
        body=item.get("result"),
        pointer=item.get("pointer"),
        reason_code=item.get("reason_code", ""),
        reason=item.get("reason", ""),
        exact=item.get("exact", ""),
        origin=_origin(item) if "ids" in item else None,
        claimed_ms=at_ms_of(item) if "ids" in item else 0,
        forgotten=note_in(item["forgotten"]) if "forgotten" in item else None,
    )


def _listed(key: str, piece: Piece, origin: Origin) -> Item:
    """The attributes of a list; an id that repeats the one before, as attempts often do, is written as `=`.

    An id that itself begins so has a second `=` before it.
    """
    before = ("", *origin.ids)
    ids = (AS_BEFORE if one == last else _cut(one) for last, one in zip(before, origin.ids, strict=False))
    shown = {"caller": origin.caller, "executor": origin.executor, "ids": "\n".join(ids)}
    return {**keys_of(key, piece.claimed_ms), **shown}


def _origin(item: Item) -> Origin:
    ids: list[str] = []
    for one in item["ids"].split("\n"):
        ids.append(ids[-1] if one == AS_BEFORE and ids else one.removeprefix(AS_BEFORE))
    return Origin(item["caller"], item["executor"], tuple(ids))


def _cut(text: str) -> str:
    line = shown(text)
    return AS_BEFORE + line if line.startswith(AS_BEFORE) else line


def shown(text: str) -> str:
    """An id as lists show it: in one line of at most `ID_BYTES`."""
    line = text.replace("\n", " ")
    if len(line.encode()) > ID_BYTES:
        line = line.encode()[: ID_BYTES - len("…".encode())].decode(errors="ignore") + "…"
    return line
