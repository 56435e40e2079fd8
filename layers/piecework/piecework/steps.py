"""Steps: results inside a piece that survive a dead runner, so that a model is called once.

A step is its own item, written once (`attribute_not_exists`); of two runners that both finish it, the first one's
result stands for both. A run that nobody ran before reads nothing.
"""

from collections.abc import Callable
from typing import Protocol

from piecework.executors import Steps
from piecework.jsons import Json, canonical, loads_exact
from piecework.pieces import Claim, piece_key


class StepTable(Protocol):
    """Keeps step results by key, each written once."""

    def find(self, key: str) -> bytes | None:
        """The recorded bytes, strongly consistent."""

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        """Record unless something stands; returns the bytes that stand."""


class PieceSteps(Steps):
    """The steps of one claim; keys hold the fingerprint, so another payload never sees them."""

    def __init__(self, table: StepTable, claim: Claim, expires_at: Callable[[], int]) -> None:
        self._table = table
        self._claim = claim
        self._mark = claim.exact or claim.fingerprint
        self._expires_at = expires_at

    def replay(self, name: str) -> tuple[Json] | None:
        if self._claim.after is None:
            return None  # nobody ran this piece before, so no step of it can have been recorded
        for mark in dict.fromkeys((self._mark, self._claim.fingerprint)):  # the second is where earlier code wrote
            if (body := self._table.find(self._key(name, mark))) is not None:
                return (loads_exact(body),)
        return None

    def record(self, name: str, result: Json) -> Json:
        key = self._key(name, self._mark)
        return loads_exact(self._table.record_once(key, canonical(result), self._expires_at()))

    def _key(self, name: str, mark: str) -> str:
        return piece_key("step", self._claim.key, mark, name)
