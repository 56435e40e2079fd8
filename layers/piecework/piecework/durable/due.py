"""Due times: what must be looked at again at a given time, whoever is alive then; shared by all doors.

A due time is a row of its own, written in the same transaction as the record it is about, so that no record waits
without one. Whoever fires a due time only *looks* at the record; the row goes when the record moves on, so a look that
is lost is repeated by the next sweep. Three ways lead to a look: a delayed message for near times, the sweep of each
minute as the net, and every touch of the record by a request.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from piecework.errors import BadRequest, PieceworkError

SHARDS: Final = 8  # partitions per kind; one takes about 1,000 writes a second
LONGEST_DELAY_MS: Final = 900_000  # of a queue's delayed message
PORTION: Final = 10  # due times of a kind before the next kind has its turn; as many as a queue takes at once
MOST_OF_A_KIND: Final = 1_000  # in one sweep; what is sent on as messages and not done yet is sent again by the next


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
        """Every due time of a kind that has come and can be read, oldest first within a partition."""


class Looks(Protocol):
    """Looks at some due times of a kind, or has them looked at."""

    def __call__(self, portion: Sequence[Due], /) -> int:
        """How many could not be; they stay for the next sweep."""


class Nudge(Protocol):
    """Sends an early look at a due time on its way; it may be lost."""

    def __call__(self, due: Due, delay_ms: int) -> None: ...


def due_at(partition: str, sort: str) -> Due | None:
    """The due time of a stored row; None for a row that this version cannot read."""
    at_ms, parted, record_id = sort.partition("#")
    if not (parted and at_ms.isascii() and at_ms.isdecimal()):
        return None
    return Due(int(at_ms), partition.rpartition("#")[0], record_id)


def partitions(kind: str) -> list[str]:
    """Every partition of a kind."""
    return [f"{kind}#{shard}" for shard in range(SHARDS)]


def named_by(message: Mapping[str, Any], name: str) -> Due:
    """The due time that a message is about, whose record's id has this name there.

    Raises:
        BadRequest: it names none.
    """
    at_ms, kind, record_id = message.get("due_ms"), message.get("kind"), message.get(name)
    if not (isinstance(at_ms, int) and isinstance(kind, str) and isinstance(record_id, str)):
        raise BadRequest("this message names no due time")
    return Due(at_ms, kind, record_id)


def one_by_one(fire: Callable[[Due], None], bug: Callable[[], None]) -> Looks:
    """Looks that fire each due time by itself; `bug` is called while an unexpected error is being handled."""

    def look(portion: Sequence[Due]) -> int:
        return sum(not _is_fired(fire, due, bug) for due in portion)

    return look


def sweep(
    times: DueTimes, looks: Mapping[str, Looks], now_ms: int, has_time: Callable[[], bool] = lambda: True
) -> dict[str, int]:
    """Look at the due times that have come, in portions, kind by kind in turn, as long as there is time.

    Returns how many of each kind were looked at, how many could not be (`failed`), and, when time or the number of one
    sweep ran out, how many kinds had more (`left`). What was not looked at stays and is met by the next sweep.
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
    """The next few, and whether there may be more; where they cannot be read, the next sweep goes on."""
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
    except Exception:  # noqa: BLE001  # one record that cannot be read holds up no other
        bug()
        return False
    return True
