"""Forgetting a piece: its answer, its steps, its evidence and what lies of it in the bucket.

| crash after               | what stands, and what a repeat does                                                |
|---------------------------|------------------------------------------------------------------------------------|
| the note                  | nobody is answered and nothing runs; the answer is in its row, a repeat erases it  |
| evidence, steps, overflow | the same; what is gone is passed over                                              |
| all were erased           | only the note says `complete: false`; a repeat finds nothing more, and corrects it |

The note comes first, under the state and the claim that were read. From then on no runner can record: it turned the
piece `failed` under a fingerprint that no payload has, which earlier code takes for another payload's (409).
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from piecework.durable.forgotten import Forgotten
from piecework.durable.pieces import Piece, State
from piecework.errors import BadRequest, NotFound, Unavailable
from piecework.jsons import Json, loads_exact
from piecework.ops.forgetting.erasing import TRIES, Objects, StillNeeded, Waiting
from piecework.ops.records import Record

KEY: Final = re.compile(r"[0-9a-f]{64}")
ADDRESS: Final = re.compile(r"/artifacts/([0-9a-f]{64})/([A-Za-z0-9_-]{22})\Z")
LEAST_SECONDS: Final = 86_400  # that a note is kept for at least: who resends within it runs nothing
RUNS: Final = "the piece is still running; forget it when it has ended"


class ForgettablePieces(Protocol):
    """Pieces and their steps, as who forgets them reaches them."""

    def read(self, key: str) -> Piece | None:
        """One piece, strongly consistent; None also where the key is a step's."""

    def note(self, key: str, before: Piece, note: Forgotten, expires_at: int, now_ms: int) -> bool:
        """Turn the piece into one that is forgotten; False when it is not as `before` shows, or its lease holds."""

    def steps(self, key: str) -> Iterator[str]:
        """The keys of the recorded steps, as the index shows them."""

    def drop_step(self, key: str) -> None:
        """Remove a recorded step."""

    def complete(self, key: str, note: Forgotten) -> None:
        """Put a complete note in the place of the first, and remove what is left of the answer."""


class ForgetPieces:
    """Forgets pieces that do not run."""

    def __init__(
        self, rows: ForgettablePieces, objects: Objects, clock: Callable[[], int], sleep: Callable[[float], None]
    ) -> None:
        self._rows, self._objects, self._clock, self._sleep = rows, objects, clock, sleep

    def forget(self, key: str, record: Record) -> dict[str, Json]:
        """Note it and erase, for a bounded time; who asked first stays in the note.

        Raises:
            NotFound: the piece does not exist, or its record has expired.
            StillNeeded: it is running.
            Unavailable: a store is out of reach, or too many write to it.
        """
        waiting = Waiting(self._clock, self._sleep)
        piece, note = self._noted(key, record)
        done = self._erase(key, piece, note, waiting)
        if done:
            self._rows.complete(key, note)
        return {"was": note.was, "complete": done, "is_listed": piece.origin is not None}

    def _noted(self, key: str, record: Record) -> tuple[Piece, Forgotten]:
        for _ in range(TRIES):
            piece, now_ms = self._rows.read(key) if KEY.fullmatch(key) else None, self._clock()
            if piece is None or piece.is_expired(now_ms):
                raise NotFound("there is no such piece, or its record has expired")
            if piece.forgotten:
                return piece, piece.forgotten
            if piece.state is State.RUNNING and not piece.is_lapsed(now_ms):
                raise StillNeeded(RUNS)
            note = Forgotten(now_ms, record.by, record.record_id, was=piece.state.value)
            if self._rows.note(key, piece, note, max(piece.expires_at, now_ms // 1000 + LEAST_SECONDS), now_ms):
                return piece, note
        raise Unavailable("too many write to this piece; try again")

    def _erase(self, key: str, piece: Piece, note: Forgotten, waiting: Waiting) -> bool:
        """Objects go before the rows that name them."""
        has_time = waiting.has_time
        for place in _evidence(self._body(piece)):
            if not self._objects.erase(place, has_time):
                return False
        if not (self._drop_steps(key, waiting) and self._objects.erase(f"results/{key}/", has_time)):
            return False
        waiting.settle(note.at_ms)
        return self._drop_steps(key, waiting)  # a runner may have recorded one just before the note

    def _body(self, piece: Piece) -> bytes:
        body = piece.body if piece.pointer is None else self._objects.read(piece.pointer)
        return body or b""

    def _drop_steps(self, key: str, waiting: Waiting) -> bool:
        for step in self._rows.steps(key):
            if not waiting.has_time():
                return False
            self._rows.drop_step(step)
        return True


def _evidence(body: bytes) -> list[str]:
    """Where the evidence lies that an answer names; its addresses are tokens that nobody else has."""
    try:
        answer = loads_exact(body) if body else None
    except BadRequest:
        return []
    refs = answer.get("evidence_refs") if isinstance(answer, dict) else None
    named = [ref.get("uri") for ref in refs if isinstance(ref, dict)] if isinstance(refs, list) else []
    found = [ADDRESS.search(uri) for uri in named if isinstance(uri, str)]
    return [f"evidence/{one[1]}/{one[2]}" for one in found if one]
