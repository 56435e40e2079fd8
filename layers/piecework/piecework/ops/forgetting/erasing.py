"""What forgetting pieces and contracts has in common: its time, its refusal, and the bucket."""

from collections.abc import Callable
from typing import Final, Protocol

from piecework.errors import PieceworkError

BUDGET_MS: Final = 15_000  # then a call stops erasing: the edge gives up at 29 s
SETTLES_MS: Final = 3_000  # an index shows what was written before that; as a rule it lags by less than a second
TRIES: Final = 5  # few write to what has ended

HasTime = Callable[[], bool]


class StillNeeded(PieceworkError):
    """What is to be forgotten is still worked on, or its money is not decided."""

    code = "conflict"


class Objects(Protocol):
    """The bucket, as who erases reaches it."""

    def read(self, pointer: str) -> bytes | None:
        """An object's bytes; None when it is not there."""

    def erase(self, prefix: str, has_time: HasTime) -> bool:
        """Remove every version of every object under a prefix; False when the time was over before the end."""


class Waiting:
    """Time of one call, and of the indexes that it reads."""

    def __init__(self, clock: Callable[[], int], sleep: Callable[[float], None]) -> None:
        self._clock, self._sleep, self._until_ms = clock, sleep, clock() + BUDGET_MS

    def has_time(self) -> bool:
        """Whether the call may go on."""
        return self._clock() < self._until_ms

    def settle(self, since_ms: int) -> None:
        """Wait until an index shows what was written before this time."""
        left_ms = since_ms + SETTLES_MS - self._clock()
        if left_ms > 0:
            self._sleep(left_ms / 1000)
