"""How old the oldest message of each queue is: the one part of the status that is asked of CloudWatch."""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, NamedTuple, Protocol

from piecework.errors import PieceworkError

KEPT_MS: Final = 60_000  # CloudWatch has a new value each minute, and takes money for each that is asked for


class Age(NamedTuple):
    """The age of the oldest message in a queue and among its dead letters, in seconds; None where nobody knows it."""

    queue_seconds: int | None = None
    dead_letters_seconds: int | None = None


UNKNOWN: Final = Age()


class ReadsAges(Protocol):
    """Reads the ages of all queues by their names, in one request. Raises PieceworkError."""

    def __call__(self) -> Mapping[str, Age]: ...


class Ages:
    """The ages as they were read within the last minute; safe for many threads, one of which asks."""

    def __init__(self, read: ReadsAges, clock: Callable[[], int]) -> None:
        self._read, self._clock = read, clock
        self._known: Mapping[str, Age] = {}
        self._until_ms = 0
        self._asking = Lock()

    def __call__(self) -> Mapping[str, Age]:
        """The ages by queue. A service that does not answer is not asked again within the minute: nothing is known."""
        with self._asking:
            if not self._until_ms - KEPT_MS <= self._clock() < self._until_ms:
                self._known = self._asked()
                self._until_ms = self._clock() + KEPT_MS
            return self._known

    def _asked(self) -> Mapping[str, Age]:
        try:
            return self._read()
        except PieceworkError:
            return {}
