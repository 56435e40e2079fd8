"""A value that somebody else publishes: kept for a while, asked for again at most every few seconds.

not known, or older than `fresh` ──► ask ──► known
                                      └─ fails ──► the old value, until it is `stale`; then Unavailable
"""

from collections.abc import Callable
from threading import Lock
from time import time
from typing import Final, Generic, TypeVar

from piecework.errors import Unavailable

FRESH_SECONDS: Final = 600.0  # what was withdrawn, such as a key, counts at most this long while its publisher answers
STALE_SECONDS: Final = 3_600.0  # and this long while it does not
PAUSE_SECONDS: Final = 5.0  # between two questions to the publisher

T = TypeVar("T")


class Kept(Generic[T]):
    """Asks `fetch`, which raises Unavailable where it has no answer."""

    def __init__(self, fetch: Callable[[], T], now: Callable[[], float] = time) -> None:
        self._fetch, self._now = fetch, now  # the clock on the wall, which goes on while an environment is frozen
        self._lock = Lock()
        self._found: tuple[T, float] | None = None
        self._asked_at: float | None = None

    def value(self) -> T:
        """The value. Raises Unavailable while it is not known."""
        with self._lock:
            known = self._known(FRESH_SECONDS)
            return known[0] if known else self._renewed()

    def newer(self) -> T:
        """The value, asked for again unless that was just done. Raises as `value`."""
        with self._lock:
            return self._renewed()

    def _renewed(self) -> T:
        now = self._now()
        if self._asked_at is None or not 0 <= now - self._asked_at < PAUSE_SECONDS:
            self._asked_at = now
            try:
                self._found = self._fetch(), now
            except Unavailable:
                if not self._known(STALE_SECONDS):
                    raise
        known = self._known(STALE_SECONDS)
        if not known:
            raise Unavailable("who signs people in cannot be asked now; try again")
        return known[0]

    def _known(self, seconds: float) -> tuple[T, float] | None:
        return self._found if self._found and 0 <= self._now() - self._found[1] < seconds else None
