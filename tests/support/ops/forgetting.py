"""What an operator has forgotten, in memory: as strict as the tables and the bucket."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from piecework.durable.forgotten import Forgotten
from piecework.durable.pieces import Piece, State
from piecework.ops.forgetting.erasing import HasTime, Objects
from piecework.ops.forgetting.pieces import ForgettablePieces
from piecework.ops.records import Record
from tests.support.fakes import START_MS, FakeEvidence, FakeOverflow, FakePieceTable

OLGA = Record("5" * 32, START_MS, "olga", "piece.forget", "", "the customer asks for it")


@dataclass
class FakeForgettable(ForgettablePieces):
    """Pieces and steps of a fake table."""

    table: FakePieceTable

    def read(self, key: str) -> Piece | None:
        return self.table.read(key)

    def note(self, key: str, before: Piece, note: Forgotten, expires_at: int, now_ms: int) -> bool:
        with self.table.lock:
            standing = self.table.items.get(key)
            if standing is None or standing.forgotten:
                return False
            if (standing.state, standing.token) != (before.state, before.token):
                return False
            if standing.state is State.RUNNING and standing.lease_until_ms > now_ms:
                return False
            self.table.items[key] = replace(
                standing,
                state=State.FAILED,
                fingerprint="",
                exact="",
                lease_until_ms=0,
                reason_code="",
                reason="",
                expires_at=expires_at,
                forgotten=note,
            )
            return True

    def steps(self, key: str) -> Iterator[str]:
        return iter(list(self.table.step_keys.get(key, [])))

    def drop_step(self, key: str) -> None:
        self.table.steps.pop(key, None)
        for keys in self.table.step_keys.values():
            keys[:] = [one for one in keys if one != key]

    def complete(self, key: str, note: Forgotten) -> None:
        with self.table.lock:
            standing = self.table.items.get(key)
            if standing and standing.forgotten:
                done = replace(note, complete=True)
                self.table.items[key] = replace(standing, forgotten=done, body=None, pointer=None)


@dataclass
class FakeErased(Objects):
    """The bucket of the fakes of evidence and of large results."""

    overflow: FakeOverflow
    evidence: FakeEvidence
    erased: list[str] = field(default_factory=list)

    def read(self, pointer: str) -> bytes | None:
        return self.overflow.objects.get(pointer)

    def erase(self, prefix: str, has_time: HasTime) -> bool:
        places: list[tuple[str, dict[Any, Any], Any]] = [
            (key, self.overflow.objects, key) for key in self.overflow.objects
        ]
        places += [(f"evidence/{one[0]}/{one[1]}", self.evidence.objects, one) for one in self.evidence.objects]
        for place, objects, key in places:
            if place.startswith(prefix):
                if not has_time():
                    return False
                del objects[key]
                self.erased.append(place)
        return True
