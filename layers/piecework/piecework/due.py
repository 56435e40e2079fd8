"""Due times: what must be looked at again at a given time, whoever is alive then; shared by all doors.

A due time is a row of its own, written in the same transaction as the record it is about, so that no record waits
without one. Whoever fires a due time only *looks* at the record; the row goes when the record moves on, so a look that
is lost is repeated by the next sweep. Three ways lead to a look: a delayed message for near times, the sweep of each
minute as the net, and every touch of the record by a request.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from piecework.errors import PieceworkError

SHARDS: Final = 8  # partitions per kind; one takes about 1,000 writes a second
LONGEST_DELAY_MS: Final = 900_000  # of a queue's delayed message


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """Look at the record `id` of this kind at that time."""

    at_ms: int
    kind: str
    id: str

    @property
    def partition(self) -> str:
        """The partition of its row; a record's due times all lie in one."""
        return f"{self.kind}#{zlib.crc32(self.id.encode()) % SHARDS}"

    @property
    def sort(self) -> str:
        """The place of its row in the partition: by time."""
        return f"{self.at_ms:015d}#{self.id}"


class DueTimes(Protocol):
    """Keeps due times."""

    def put(self, due: Due) -> None: ...

    def remove(self, due: Due) -> None: ...

    def ripe(self, kind: str, now_ms: int) -> Iterable[Due]:
        """Every due time of a kind that has come, oldest first within a partition."""


class Nudge(Protocol):
    """Sends an early look at a due time on its way; it may be lost."""

    def __call__(self, due: Due, delay_ms: int) -> None: ...


def due_at(partition: str, sort: str) -> Due:
    """The due time of a stored row."""
    at_ms, _, record_id = sort.partition("#")
    return Due(int(at_ms), partition.rpartition("#")[0], record_id)


def partitions(kind: str) -> list[str]:
    """Every partition of a kind."""
    return [f"{kind}#{shard}" for shard in range(SHARDS)]


def sweep(times: DueTimes, fire: Mapping[str, Callable[[Due], None]], now_ms: int) -> dict[str, int]:
    """Fire every due time that has come; returns how many of each kind, and how many could not be fired.

    One that cannot be fired stays and is met by the next sweep.
    """
    counts = {"failed": 0}
    for kind, send in fire.items():
        for due in times.ripe(kind, now_ms):
            try:
                send(due)
                counts[kind] = counts.get(kind, 0) + 1
            except PieceworkError:
                counts["failed"] += 1
    return counts
