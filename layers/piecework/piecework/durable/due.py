"""Due times: records that must be checked again at a given time, whichever process is alive then; shared by all doors.

A due time is a row of its own, written in the same transaction as its record, so that a record never waits without one.
Firing a due time only *checks* the record. The row is deleted when the record moves on, so the next sweep repeats a
check that was lost. Three things lead to a check: a delayed message for near times, the sweep of each minute as a net,
and every request that reads the record.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from piecework.errors import BadRequest, PieceworkError

SHARDS: Final = 8  # partitions per kind; one takes about 1,000 writes a second
LONGEST_DELAY_MS: Final = 900_000  # of a queue's delayed message
PORTION: Final = 10  # due times of a kind before the next kind's turn; a queue takes as many at once
MOST_OF_A_KIND: Final = 1_000  # in one sweep; the next sweep sends those again whose messages are not done yet


class Due(NamedTuple):
    """A time at which the record `id` of this kind must be checked."""

    at_ms: int
    kind: str
    id: str

    @property
    def partition(self) -> str:
        """The partition of its row; all due times of a record are in one partition."""
        return f"{self.kind}#{zlib.crc32(self.id.encode()) % SHARDS}"

    @property
    def sort(self) -> str:
        """The sort key of its row: by time."""
        return f"{self.at_ms:015d}#{self.id}"


class DueTimes(Protocol):
    """The table of due times."""

    def put(self, due: Due) -> None: ...

    def remove(self, due: Due) -> None: ...

    def ripe(self, kind: str, now_ms: int) -> Iterable[Due]:
        """The due times of a kind that have come and can be read, the oldest first within a partition."""


class Looks(Protocol):
    """Checks due times of one kind, or sends them to the function that does."""

    def __call__(self, portion: Sequence[Due], /) -> int:
        """How many could not be checked; they stay for the next sweep."""


class Nudge(Protocol):
    """Sends a delayed message for an early check of a due time; it may be lost."""

    def __call__(self, due: Due, delay_ms: int) -> None: ...


def due_at(partition: str, sort: str) -> Due | None:
    """The due time in a stored row; None for a row that this version cannot read."""
    at_ms, parted, record_id = sort.partition("#")
    if not (parted and at_ms.isascii() and at_ms.isdecimal()):
        return None
    return Due(int(at_ms), partition.rpartition("#")[0], record_id)


def partitions(kind: str) -> list[str]:
    """All partitions of a kind."""
    return [f"{kind}#{shard}" for shard in range(SHARDS)]


def named_by(message: Mapping[str, Any], name: str) -> Due:
    """The due time in a message; `name` is the message's member with the record's id.

    Raises:
        BadRequest: the message does not name one.
    """
    at_ms, kind, record_id = message.get("due_ms"), message.get("kind"), message.get(name)
    if not (isinstance(at_ms, int) and isinstance(kind, str) and isinstance(record_id, str)):
        raise BadRequest("this message does not name a due time")
    return Due(at_ms, kind, record_id)


def one_by_one(fire: Callable[[Due], None], bug: Callable[[], None]) -> Looks:
    """A check of each due time by itself; `bug` is called while an unexpected error is being handled."""

    def look(portion: Sequence[Due]) -> int:
        return sum(not _is_fired(fire, due, bug) for due in portion)

    return look


def sweep(
    times: DueTimes, looks: Mapping[str, Looks], now_ms: int, has_time: Callable[[], bool] = lambda: True
) -> dict[str, int]:
    """Check the due times that have come, in portions, the kinds in turn, until `until_ms`.

    Returns how many of each kind were checked, how many could not be (`failed`), and how many kinds had more (`left`)
    when the time or the number of one sweep ran out. The next sweep meets those that were not checked.
    """
    counts, ripe, taken = {"failed": 0}, {kind: iter(times.ripe(kind, now_ms)) for kind in looks}, Counter[str]()
    left = 0
    while ripe and has_time():
        for kind in list(ripe):
            portion, has_more = _portion(ripe[kind], counts)
            taken[kind] += len(portion)
            _count(counts, kind, len(portion), looks[kind](portion) if portion else 0)
            left += has_more and taken[kind] >= MOST_OF_A_KIND
            if not has_more or taken[kind] >= MOST_OF_A_KIND:
                del ripe[kind]
            if not has_time():
                break
    left += len(ripe)
    return counts | ({"left": left} if left else {})


def _count(counts: dict[str, int], kind: str, all_: int, failed: int) -> None:
    counts["failed"] += failed
    if all_ > failed:
        counts[kind] = counts.get(kind, 0) + all_ - failed


def _portion(ripe: Iterator[Due], counts: dict[str, int]) -> tuple[list[Due], bool]:
    """The next portion, and whether there may be more; after a failed read the next sweep goes on."""
    portion: list[Due] = []
    try:
        for due in ripe:
            portion.append(due)
            if len(portion) == PORTION:
                return portion, True
    except PieceworkError:
        counts["failed"] += 1
    return portion, False


def _is_fired(fire: Callable[[Due], None], due: Due, bug: Callable[[], None]) -> bool:
    try:
        fire(due)
    except PieceworkError:
        return False
    except Exception:  # noqa: BLE001  # a record that cannot be read must not delay the others
        bug()
        return False
    return True
