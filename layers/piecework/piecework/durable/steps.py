"""Steps: results inside a piece that survive a dead runner, so that a model is called once.

A step is its own item, written once (`attribute_not_exists`). If two runners finish it, the first result counts for
both. The first run of a piece does not read steps.
"""

from collections.abc import Callable
from typing import Protocol

from piecework.durable.pieces import Claim, piece_key
from piecework.extend.executors import Step, Steps


class StepTable(Protocol):
    """The table of step results by key, each written once."""

    def find(self, key: str) -> bytes | None:
        """The recorded bytes, strongly consistent."""

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        """Record unless a result is stored; returns the stored bytes."""


class ListedStepTable(StepTable, Protocol):
    """A table of steps whose steps can be listed by their piece."""

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        """As `record_once`; the step is listed under its piece's key by its name."""


class PieceSteps(Steps):
    """The steps of one claim; keys hold the fingerprint, so another payload never gets them."""

    def __init__(self, table: StepTable, claim: Claim, expires_at: Callable[[], int]) -> None:
        self._table = table
        self._claim = claim
        self._mark = claim.exact or claim.fingerprint
        self._expires_at = expires_at

    def replay(self, step: Step) -> bytes | None:
        if self._claim.after is None:
            return None  # the first run of this piece: steps cannot have been recorded
        for mark in dict.fromkeys((self._mark, self._claim.fingerprint)):  # earlier code wrote under the second
            if (body := self._table.find(self._key(step, mark))) is not None:
                return body
        return None

    def record(self, step: Step, result: bytes) -> bytes:
        return self._table.record_once(self._key(step, self._mark), result, self._expires_at())

    def _key(self, step: Step, mark: str) -> str:
        return piece_key("step", self._claim.key, mark, *step.parts)


class ListedSteps(PieceSteps):
    """Steps that can be listed by their piece. A run that has lost it records none: it may be forgotten meanwhile."""

    def __init__(self, table: ListedStepTable, claim: Claim, expires_at: Callable[[], int]) -> None:
        super().__init__(table, claim, expires_at)
        self._listed = table

    def record(self, step: Step, result: bytes) -> bytes:
        self._claim.right.check()
        key = self._key(step, self._mark)
        return self._listed.record_listed(key, result, self._expires_at(), piece=self._claim.key, name=step.name)
