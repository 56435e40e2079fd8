"""Recorded steps of a hosted run that outlive a wait for a person, which may be longer than an execution's own time.

Rows of steps go with their table's TTL. Where a rule lets a call wait for days, the steps that a run has used are kept
for those days before it asks for such a call: a crash after that finds them, however late the answer comes.
"""

from collections.abc import Callable
from typing import Final, Protocol

from piecework.durable.pieces import piece_key
from piecework.durable.steps import ListedStepTable

CALLER: Final = "kernel"  # clients of an execution are not told apart once it is there


def steps_key(execution_id: str) -> str:
    """The key that the steps of an execution's runs are recorded and listed under."""
    return piece_key("kernel", CALLER, execution_id)


class LastingTable(ListedStepTable, Protocol):
    """A table whose steps can be kept for longer."""

    def keep(self, key: str, least: int, expires_at: int) -> None:
        """Put a recorded step's end off to `expires_at` if it lies before `least`, both in epoch seconds."""


class LastingSteps(ListedStepTable):
    """The steps of one run; `lasts_s` gives the time until which they must be there, and until which they are kept."""

    def __init__(self, table: LastingTable, lasts_s: Callable[[], tuple[int, int] | None]) -> None:
        self._table, self._lasts_s = table, lasts_s
        self._used: set[str] = set()

    def find(self, key: str) -> bytes | None:
        body = self._table.find(key)
        if body is not None:
            self._used.add(key)
        return body

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        stored = self._table.record_once(key, body, expires_at)
        self._used.add(key)
        return stored

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        stored = self._table.record_listed(key, body, expires_at, piece=piece, name=name)
        self._used.add(key)
        return stored

    def keep_used(self) -> None:
        """Keep what this run has used so far, if a call that it may ask for can wait that long."""
        lasts = self._lasts_s() if self._used else None
        if lasts is None:
            return
        for key in sorted(self._used):
            self._table.keep(key, *lasts)
        self._used.clear()
