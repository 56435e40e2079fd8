"""Pieces: one answer per key, however often it is requested and wherever its runner dies.

A piece is one small item: `running` under a claim token and a short lease, then `done` or `failed` with its result,
or `released` after a transient failure. Every write is conditional on the token, so a runner whose lease was taken
over can neither record nor release. The order of one fresh run, and what a resend sees when its runner dies:

    | after step                              | a resend sees                                                    |
    |-----------------------------------------|------------------------------------------------------------------|
    | 1 claim (conditional put)               | running; waits until the lease lapses, takes over, runs again    |
    | 2 work                                  | the same: the answer was not recorded yet                        |
    | 3 artifacts and overflow written to S3  | the same; the orphaned objects age out by the bucket's lifecycle |
    | 4 record (conditional on the token)     | done: the recorded bytes, unchanged                              |
    | 5 answer sent                           | done: the recorded bytes, unchanged                              |
    | – release after a transient failure     | absent for a new request; waiters of this run share its failure  |
    | – forgetting, at an operator's request  | the failure `forgotten`, whatever it asks for; nothing runs      |

A claim holds its right to run (`right.py`), which the work checks before each step and each effect: a run that was
taken over while it was frozen ends there, and its caller gets the answer of the run that took over.

Sources: runtime specification 1.1 and 3.3; design, "Pieces".
"""

import hashlib
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from enum import StrEnum
from time import sleep as real_sleep
from typing import Final, NamedTuple, Protocol

from piecework.chance import uniform
from piecework.clock import now_in_ms
from piecework.durable.forgotten import Forgotten
from piecework.durable.renewal import Renewal
from piecework.errors import InProgress, Internal, KeyConflict, LeaseLost, Paused, PayloadForgotten, PieceworkError
from piecework.extend.right import LEASE_MS, Right, RightLost, Unleased
from piecework.jsons.fingerprints import Fingerprint
from piecework.values import dataclass, replace

INLINE_LIMIT: Final = 16_384  # bytes of a result kept in the item; more would cost a write unit per KB at every renewal
REASON_CHARACTERS: Final = 500  # of a transient failure's text, which an executor may have made very long
FIRST_GAP_SECONDS: Final = 0.05  # a waiter's first pause; short work answers its duplicates at once
LONGEST_GAP_SECONDS: Final = 1.0  # a waiter costs at most one read a second
GAP_GROWTH: Final = 1.5
RESULT_TTL_SECONDS: Final = 86_400  # a day; the kernel's own resends stop after 151 s


class State(StrEnum):
    """The state of a piece."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    RELEASED = "released"


class Origin(NamedTuple):
    """What lists show of a piece: who asked for it, what works on it, and the caller's own ids."""

    caller: str
    executor: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The stored item; `body` or `pointer` (a key in the bucket) once recorded, `reason` once released."""

    state: State
    token: str
    fingerprint: str
    lease_until_ms: int
    expires_at: int  # epoch seconds
    body: bytes | None = None
    pointer: str | None = None
    reason_code: str = ""
    reason: str = ""
    exact: str = ""  # the fingerprint over the text of numbers; empty in rows of earlier code
    origin: Origin | None = None  # of pieces that are listed; rows of earlier code are not
    claimed_ms: int = 0  # of pieces that are listed: when the runner that has it, or had it, began
    forgotten: Forgotten | None = None  # of pieces whose payloads are erased; nothing runs them again

    def stands_for(self, mark: Fingerprint) -> bool:
        """Whether this is the payload's own piece, by the exact fingerprint or by the one that earlier code wrote."""
        return self.exact == mark.exact if self.exact else self.fingerprint == mark.older

    def is_recorded(self) -> bool:
        return self.state in (State.DONE, State.FAILED)

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at * 1000 <= now_ms

    def is_lapsed(self, now_ms: int) -> bool:
        return self.state is State.RUNNING and self.lease_until_ms <= now_ms


class Result(NamedTuple):
    """The result of a run: the answer's bytes, or with `ok=False` those of a permanent failure."""

    body: bytes
    ok: bool = True


class Claim(NamedTuple):
    """A piece that we may run while its lease is renewed; `after` is the item that the claim replaced."""

    key: str
    token: str
    fingerprint: str
    after: State | None = None
    exact: str = ""
    right: Right = Unleased()

    @property
    def took_over(self) -> bool:
        return self.after is State.RUNNING


class Recorded(NamedTuple):
    """A piece with its recorded answer."""

    body: bytes
    ok: bool


class Running(NamedTuple):
    """A piece that another runner holds."""

    token: str


class Lapsed:
    """A piece whose runner is gone; the next claim runs it."""


class Answer(NamedTuple):
    """The one answer of a piece, and how this call got it."""

    body: bytes
    ok: bool
    replayed: bool
    waited: bool = False
    took_over: bool = False


class PieceTable(Protocol):
    """The table of pieces; each method is one request, each write is conditional."""

    def claim(self, key: str, piece: Piece, now_ms: int) -> tuple[bool, Piece | None]:
        """Put `piece` unless a live one is at `key`: (True, the replaced item) or (False, the live one)."""

    def renew(self, key: str, token: str, lease_until_ms: int) -> None:
        """Move the lease of a running piece. Raises LeaseLost."""

    def record(self, key: str, token: str, piece: Piece) -> None:
        """Turn a running piece into a recorded one; what the claim wrote of its origin stays. Raises LeaseLost."""

    def release(self, key: str, token: str, reason_code: str, reason: str) -> None:
        """Give up a running piece after a transient failure. Raises LeaseLost."""

    def read(self, key: str) -> Piece | None:
        """The stored piece, strongly consistent."""


class Overflow(Protocol):
    """Stores results that are too large for an item."""

    def put(self, pointer: str, body: bytes) -> None: ...

    def get(self, pointer: str) -> bytes: ...


def new_token() -> str:
    """A new claim token of 128 random bits."""
    return secrets.token_hex(16)


def piece_key(door: str, caller: str, *ids: str) -> str:
    """The key of a piece: SHA-256 over length-prefixed parts, so two id lists never share a key (specification 3.3)."""
    hashed = hashlib.sha256()
    for part in (door, caller, *ids):
        raw = part.encode("utf-8")
        hashed.update(len(raw).to_bytes(8, "big") + raw)
    return hashed.hexdigest()


class Pieces:
    """Claims, runs, records and replays pieces over a table and an overflow store."""

    def __init__(
        self,
        table: PieceTable,
        overflow: Overflow,
        *,
        clock: Callable[[], int] = now_in_ms,
        sleep: Callable[[float], None] = real_sleep,
        token: Callable[[], str] = new_token,
        renewal: Callable[[Callable[[], None]], AbstractContextManager[object]] = Renewal,
        ttl_seconds: int = RESULT_TTL_SECONDS,
    ) -> None:
        self._table = table
        self._overflow = overflow
        self._clock = clock
        self._sleep = sleep
        self._token = token
        self._renewal = renewal
        self._ttl_seconds = ttl_seconds

    def perform(
        self,
        key: str,
        fingerprint: str | Fingerprint,
        work: Callable[[Claim], Result],
        *,
        until_ms: int,
        needs_ms: int = 0,
        origin: Origin | None = None,
        admit: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Answer a piece: replay it, wait for its runner until `until_ms`, or run `work` once.

        A lapsed piece is taken over only if at least `needs_ms` milliseconds remain; else its caller will come back.
        With an `origin` it is listed from its claim on; the claim writes it. While `admit` raises Paused, a piece that
        nobody has begun is not begun; every other one is answered as ever.

        Raises:
            Paused: nobody has begun it, and it may not be begun now.
            KeyConflict: the key belongs to another fingerprint.
            PayloadForgotten: an operator had it forgotten.
            InProgress: its runner did not finish before `until_ms`.
            PieceworkError: the failure of `work` (the piece is released), or of the run that this call waited for.
        """
        waited = False
        while True:
            self._admitted(key, admit)
            standing = self.claim(key, fingerprint, origin)
            if isinstance(standing, Recorded):
                return Answer(standing.body, standing.ok, replayed=True, waited=waited)
            if isinstance(standing, Claim):
                try:
                    return self._run(standing, work)._replace(waited=waited)
                except LeaseLost:
                    pass  # another runner has the piece, and its answer counts
            waited = True
            found = self.wait(key, fingerprint, until_ms)
            if isinstance(found, Recorded):
                return Answer(found.body, found.ok, replayed=True, waited=True)
            if self._clock() + needs_ms > until_ms:
                raise InProgress("the earlier run of this piece was lost and too little time is left to run it again")

    def claim(
        self, key: str, fingerprint: str | Fingerprint, origin: Origin | None = None
    ) -> Claim | Recorded | Running:
        """Claim the piece if another runner does not hold it.

        Raises:
            KeyConflict: the key belongs to another fingerprint.
            PayloadForgotten: an operator had it forgotten.
        """
        now_ms, token, mark = self._clock(), self._token(), Fingerprint.of(fingerprint)
        wanted = Piece(State.RUNNING, token, mark.older, now_ms + LEASE_MS, self._expiry(now_ms), exact=mark.exact)
        if origin:
            wanted = replace(wanted, origin=origin, claimed_ms=now_ms)
        won, piece = self._table.claim(key, wanted, now_ms)
        if won:
            live = piece is not None and not piece.is_expired(now_ms)
            right = Right(lambda until_ms: self._table.renew(key, token, until_ms), wanted.lease_until_ms, self._clock)
            after = piece.state if piece and live else None
            return Claim(key, token, mark.older, after, mark.exact, right)
        piece = _answering(piece, mark)
        return self._recorded(piece) if piece.is_recorded() else Running(piece.token)

    def renew(self, claim: Claim) -> None:
        """Move the lease on. Raises LeaseLost when another runner has taken over."""
        claim.right.renew()

    def record(self, claim: Claim, result: Result) -> None:
        """Record the result for good. Raises LeaseLost when another runner has taken over."""
        now_ms = self._clock()
        state = State.DONE if result.ok else State.FAILED
        kept_until = self._expiry(now_ms)
        piece = Piece(state, claim.token, claim.fingerprint, 0, kept_until, body=result.body, exact=claim.exact)
        if len(result.body) > INLINE_LIMIT:
            _check(claim.right)  # else a late runner would put into the bucket what somebody had forgotten
            pointer = f"results/{claim.key}/{claim.token}"  # holds the token: a late runner writes elsewhere
            self._overflow.put(pointer, result.body)
            piece = replace(piece, body=None, pointer=pointer)
        self._table.record(claim.key, claim.token, piece)

    def release(self, claim: Claim, error: PieceworkError) -> None:
        """Give up the piece after a transient failure. Raises LeaseLost when another runner has taken over."""
        self._table.release(claim.key, claim.token, error.code, error.message[:REASON_CHARACTERS])

    def wait(self, key: str, fingerprint: str | Fingerprint, until_ms: int) -> Recorded | Lapsed:
        """Wait for the piece's runner, reading at growing gaps.

        Raises:
            InProgress: it did not finish before `until_ms`.
            KeyConflict: the key belongs to another fingerprint by now.
            PayloadForgotten: an operator had it forgotten.
            ReleasedFailure: the run failed for a transient reason, which its waiters share.
        """
        gap = FIRST_GAP_SECONDS
        while (left := (until_ms - self._clock()) / 1000) > 0:
            self._sleep(min(left, uniform(gap / 2, gap)))
            piece, now_ms = self._table.read(key), self._clock()
            if piece is None or piece.is_expired(now_ms) or piece.is_lapsed(now_ms):
                return Lapsed()
            _answering(piece, Fingerprint.of(fingerprint))
            if piece.is_recorded():
                return self._recorded(piece)
            if piece.state is State.RELEASED:
                raise ReleasedFailure(piece.reason_code, piece.reason)
            gap = min(gap * GAP_GROWTH, LONGEST_GAP_SECONDS)
        raise InProgress("the piece is still running; ask again with the same ids")

    def _admitted(self, key: str, admit: Callable[[], None]) -> None:
        """Raises Paused for a piece that is new, or that its last run gave up."""
        try:
            admit()
        except Paused:
            piece = self._table.read(key)
            if piece is None or piece.is_expired(self._clock()) or piece.state is State.RELEASED:
                raise

    def _run(self, claim: Claim, work: Callable[[Claim], Result]) -> Answer:
        try:
            with self._renewal(lambda: self.renew(claim)):
                result = work(claim)
                self.record(claim, result)
        except RightLost as lost:
            raise LeaseLost(str(lost)) from None
        except LeaseLost:
            raise
        except PieceworkError as error:
            self._give_up(claim, error)
            raise
        except Exception:  # a bug in the work; after a release the next request need not wait for the lease to lapse
            self._give_up(claim, Internal("the run failed"))
            raise
        return Answer(result.body, result.ok, replayed=False, took_over=claim.took_over)

    def _give_up(self, claim: Claim, error: PieceworkError) -> None:
        with suppress(PieceworkError):  # the lease lapses by itself; the caller must get the first failure
            self.release(claim, error)

    def _recorded(self, piece: Piece) -> Recorded:
        body = piece.body if piece.pointer is None else self._overflow.get(piece.pointer)
        return Recorded(body or b"", piece.state is State.DONE)

    def _expiry(self, now_ms: int) -> int:
        return now_ms // 1000 + self._ttl_seconds


def _answering(piece: Piece | None, mark: Fingerprint) -> Piece:
    """The standing piece, if it may answer this payload. Raises KeyConflict, PayloadForgotten."""
    if piece is not None and piece.forgotten:  # its fingerprint is gone too, so nothing is said of the payload
        raise PayloadForgotten("an operator had this piece forgotten; it is neither answered nor run again")
    if piece is None or not piece.stands_for(mark):
        raise KeyConflict("these ids were used before with another payload")
    return piece


def _check(right: Right) -> None:
    try:
        right.check()
    except RightLost as lost:
        raise LeaseLost(str(lost)) from None


class ReleasedFailure(PieceworkError):
    """The run that this caller waited for failed for a transient reason; carries that run's code."""

    retryable = True

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the failed run's own code stands for the class's
