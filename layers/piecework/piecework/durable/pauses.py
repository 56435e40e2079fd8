"""Pauses of doors and executors: what is paused takes no new work, and everything that was begun or promised goes on.

All pauses that hold stand in one small row. A process reads it when new work comes, at most once in `SEEN_MS`, so a
pause and its end take effect within that time everywhere. When it cannot be read, what was last seen counts; a process
that has seen nothing goes on, because a door must not stop for want of a switch that nobody has used.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from piecework.errors import Paused, PieceworkError

SEEN_MS: Final = 5_000  # so long may a process take new work after a pause began
MOST_PAUSES: Final = 20  # at a time, so that the row stays small
DOORS: Final = ("runtime", "worker", "kernel")
SCOPE: Final = re.compile(r"door:(?:runtime|worker|kernel)|executor:[A-Za-z0-9_.-]{1,64}")


class Pause(NamedTuple):
    """A pause that holds; `scope` is `door:…` or `executor:…`."""

    scope: str
    since_ms: int
    by: str
    reason: str


class ReadPauses(Protocol):
    """What is paused."""

    def all(self) -> list[Pause]:
        """The pauses that hold, the oldest first; one request. Raises PieceworkError."""


class Pauses(ReadPauses, Protocol):
    """Keeps pauses; every write is conditional."""

    def begin(self, pause: Pause) -> Pause | None:
        """Begin a pause; the one that holds, an earlier one where there is one. None if too many hold already."""

    def end(self, scope: str) -> bool:
        """End a pause; whether there was one."""


class Admission:
    """Whether new work may begin."""

    def __init__(self, pauses: ReadPauses, clock: Callable[[], int], warn: Callable[..., None]) -> None:
        self._pauses, self._clock, self._warn = pauses, clock, warn
        self._until_ms, self._scopes = 0, frozenset[str]()

    def check(self, door: str, executor: str = "") -> None:
        """Pass, unless the door or the executor is paused.

        Raises:
            Paused: it takes no new work.
        """
        paused = self._paused()
        if f"door:{door}" in paused:
            raise Paused(f"the {door} door is paused and takes no new work; try again later")
        if executor and f"executor:{executor}" in paused:
            raise Paused(f"the executor {executor} is paused and takes no new work; try again later")

    def _paused(self) -> frozenset[str]:
        now_ms = self._clock()
        if now_ms >= self._until_ms:
            self._until_ms = now_ms + SEEN_MS  # first, so that a failure is not repeated by each request
            try:
                self._scopes = frozenset(pause.scope for pause in self._pauses.all())
            except PieceworkError as error:
                self._warn("pauses_not_read", code=error.code)
        return self._scopes
