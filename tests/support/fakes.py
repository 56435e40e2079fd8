"""In-memory ports and a clock that tests move; each fake passes the same contract tests as its AWS adapter."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from piecework.durable.artifacts import EvidenceStore, Served
from piecework.durable.pieces import Overflow, Piece, PieceTable, State
from piecework.durable.steps import ListedStepTable
from piecework.errors import LeaseLost

START_MS = 1_800_000_000_000
ITEM_BYTES = 409_600  # of DynamoDB, which refuses a larger item for good


def check_size(*parts: object) -> int:
    """Refuse what no item holds, as the table does; the size otherwise."""
    size = sum(len(part) if isinstance(part, bytes) else len(str(part).encode("utf-8")) for part in parts)
    if size > ITEM_BYTES:
        raise too_large()
    return size


def too_large() -> Exception:
    """What the adapters make of DynamoDB's ValidationException."""
    from piecework import errors

    kind = getattr(errors, "RequestRejected", errors.Unavailable)
    return kind("the table refuses this request for good")


@dataclass
class FakeClock:
    """Epoch milliseconds that move only when told to, or while somebody sleeps."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += max(1, int(seconds * 1000))

    def move(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def no_renewal(renew: Callable[[], None]) -> AbstractContextManager[object]:
    """A renewal that never renews: tests renew by hand."""
    return nullcontext()


def _is_same(old: Piece, piece: Piece) -> bool:
    exact = getattr(old, "exact", "")  # rows of earlier code have none
    return exact == piece.exact if exact else old.fingerprint == piece.fingerprint


@dataclass
class FakePieceTable(PieceTable, ListedStepTable):
    """Pieces and steps in a dictionary, each method atomic."""

    clock: Callable[[], int]
    items: dict[str, Piece] = field(default_factory=dict)
    steps: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    step_names: dict[str, list[str]] = field(default_factory=dict)
    step_keys: dict[str, list[str]] = field(default_factory=dict)  # by their piece, as the index has them
    lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, key: str, piece: Piece, now_ms: int) -> tuple[bool, Piece | None]:
        with self.lock:
            old = self.items.get(key)
            lapsed_and_same = old and old.is_lapsed(now_ms) and _is_same(old, piece)
            if old is None or old.is_expired(now_ms) or old.state is State.RELEASED or lapsed_and_same:
                self.items[key] = piece
                return True, old
            return old.token == piece.token, old

    def renew(self, key: str, token: str, lease_until_ms: int) -> None:
        with self.lock:
            self.items[key] = replace(self._held(key, token), lease_until_ms=lease_until_ms)

    def record(self, key: str, token: str, piece: Piece) -> None:
        check_size(piece.body or b"", piece.pointer)
        with self.lock:
            if self._landed(key, token, piece.state):
                return
            held = self._held(key, token)
            self.items[key] = replace(piece, origin=held.origin, claimed_ms=held.claimed_ms)

    def release(self, key: str, token: str, reason_code: str, reason: str) -> None:
        check_size(reason_code, reason)
        with self.lock:
            if self._landed(key, token, State.RELEASED):
                return
            held = self._held(key, token)
            self.items[key] = replace(
                held, state=State.RELEASED, lease_until_ms=0, reason_code=reason_code, reason=reason
            )

    def read(self, key: str) -> Piece | None:
        with self.lock:
            return self.items.get(key)

    def find(self, key: str) -> bytes | None:
        body, expires_at = self.steps.get(key, (None, 0))
        return body if expires_at * 1000 > self.clock() else None

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        check_size(key, body)
        with self.lock:
            standing = self.find(key)
            if standing is None:
                self.steps[key] = (body, expires_at)
            return standing or body

    def keep(self, key: str, least: int, expires_at: int) -> None:
        with self.lock:
            body, ends_at = self.steps.get(key, (None, least))
            if body is not None and ends_at < least:
                self.steps[key] = (body, expires_at)

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        self.step_names.setdefault(piece, []).append(name)
        self.step_keys.setdefault(piece, []).append(key)
        return self.record_once(key, body, expires_at)

    def _held(self, key: str, token: str) -> Piece:
        piece = self.items.get(key)
        if piece is None or piece.state is not State.RUNNING or piece.token != token:
            raise LeaseLost("another runner has taken this piece over")
        return piece

    def _landed(self, key: str, token: str, state: State) -> bool:
        piece = self.items.get(key)
        return piece is not None and piece.token == token and piece.state is state


@dataclass
class FakeOverflow(Overflow):
    """Large results in a dictionary; like the bucket, an object is written once."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def put(self, pointer: str, body: bytes) -> None:
        self.objects.setdefault(pointer, body)

    def get(self, pointer: str) -> bytes:
        return self.objects[pointer]


@dataclass
class FakeEvidence(EvidenceStore):
    """Evidence in a dictionary; like the bucket, an object is written once."""

    objects: dict[tuple[str, str], Served] = field(default_factory=dict)

    def put(self, digest: str, token: str, data: bytes, mime: str) -> None:
        self.objects.setdefault((digest, token), Served(data, mime))

    def read(self, digest: str, token: str) -> Served | None:
        return self.objects.get((digest, token))
