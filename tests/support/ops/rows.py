"""Rows of an index in memory, which count what is read of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from piecework.aws.listed import keys_of
from piecework.aws.pieces_table import shown
from piecework.durable.pieces import Origin, Piece, State
from piecework.ops.pieces import PieceRows, StepRow
from tests.support.fakes import START_MS


@dataclass
class FakePieceRows(PieceRows):
    """Pieces by day and partition; `looks` and `read_rows` count what pages read."""

    pieces: dict[str, Piece] = field(default_factory=dict)
    index: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    of_steps: dict[str, list[StepRow]] = field(default_factory=dict)
    looks: int = 0
    read_rows: int = 0
    read_pieces: int = 0

    def add(self, key: str, piece: Piece) -> None:
        self.pieces[key] = piece
        row = keys_of(key, piece.claimed_ms) | {"pk": key}
        row |= {"caller": piece.origin.caller, "executor": piece.origin.executor} if piece.origin else {}
        self.index.setdefault(row["in_day"], []).append(row)

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Mapping[str, Any]]:
        standing = [row for row in self.index.get(f"{day}#{shard}", []) if not before or row["at_id"] < before]
        found = sorted(standing, key=lambda row: row["at_id"], reverse=True)[:limit]
        self.looks += 1
        self.read_rows += len(found)
        return found

    def find(self, keys: Sequence[str]) -> Mapping[str, Piece]:
        self.read_pieces += len(set(keys))
        return {key: replace(self.pieces[key], body=None) for key in keys if key in self.pieces}

    def read(self, key: str) -> Piece | None:
        return self.pieces.get(key)

    def shown(self, id_: str) -> str:
        return shown(id_)

    def steps(self, key: str, limit: int) -> list[StepRow]:
        return self.of_steps.get(key, [])[:limit]


def a_listed_piece(at_ms: int = START_MS, state: State = State.DONE, **members: Any) -> Piece:
    """A piece as the runtime door claims it."""
    origin = Origin("kernel", "echo", ("t-1", "e-1", "a-1"))
    expires_at = START_MS // 1000 + 86_400
    given = {"origin": origin, "claimed_ms": at_ms, "body": b"{}" if state is not State.RUNNING else None, **members}
    return Piece(state, "token", "print", at_ms + 15_000, **{"expires_at": expires_at, **given})
