"""Lists by time, the newest first, over rows that lie in 16 partitions a day; a page reads a bounded number of rows.

A round asks each partition of a day for a few rows before a place. What all partitions have told down to the newest of
their last rows is complete, so it is in order; the next round begins there. A page ends when it is full, or when it has
asked as often as it may. It then has a place to go on from, although it may hold few rows or none.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from piecework.errors import BadRequest
from piecework.jsons import Json

SHARDS: Final = "0123456789abcdef"
ROWS_A_LOOK: Final = 8  # of one partition; a round finds some 60 rows in order where a day is busy
MOST_LOOKS: Final = 64  # at partitions, for one page: four rounds, so four days where nothing happened
MOST_ROWS: Final = ROWS_A_LOOK * MOST_LOOKS
PAGE: Final = 25
LARGEST_PAGE: Final = 50
DAY_MS: Final = 86_400_000
TIME_DIGITS: Final = 8  # of a day's milliseconds, at the front of a row's place
AHEAD_MS: Final = 60_000  # another machine's clock may be ahead
CURSOR: Final = re.compile(r"([0-9]{1,6})\.([0-9]{8}[0-9a-z]{0,16})?")

Row = Mapping[str, Any]  # with `at_id`: its place among those of its day, which begins with the day's millisecond


class Rows(Protocol):
    """Rows by day and partition."""

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Row]:
        """The newest rows of a partition whose `at_id` is less than a given `before`, at most `limit`; one request."""


class Place(NamedTuple):
    """Where a list goes on: at this day (its number since 1970), before this row."""

    day: int
    before: str = ""

    @classmethod
    def of(cls, cursor: str, until_ms: int) -> "Place":
        """The place that a cursor names; without one, the newest rows of `until_ms`.

        Raises:
            BadRequest: it is not a cursor of ours.
        """
        if not cursor:
            day, ms = divmod(until_ms, DAY_MS)
            return cls(day, f"{ms + 1:0{TIME_DIGITS}d}")
        match = CURSOR.fullmatch(cursor)
        if match is None:
            raise BadRequest("cursor must be the `next` of an earlier page")
        return cls(int(match[1]), match[2] or "")

    def at_ms(self, row: Row) -> int:
        """When a row of this day stands, epoch ms."""
        return self.day * DAY_MS + int(row["at_id"][:TIME_DIGITS])

    @property
    def cursor(self) -> str:
        return f"{self.day}.{self.before}"


class Page(NamedTuple):
    """Some items, and the place of the next ones; None at the end of the list."""

    items: list[Json]
    next: Place | None

    def to_json(self) -> dict[str, Json]:
        """The page as it is answered."""
        return {"items": self.items, "next": self.next.cursor if self.next else None}


Look = Callable[[Sequence[Row]], Sequence[Json | None]]


def page_of(rows: Rows, start: Place, since_ms: int, size: int, look: Look) -> Page:
    """At most `size` items from `start` back to `since_ms`; `look` makes an item of each row, or None for no item."""
    items: list[Json] = []
    place: Place | None = start
    for _ in range(MOST_LOOKS // len(SHARDS)):
        if place is None or place.day < since_ms // DAY_MS:
            return Page(items, None)
        found, floor = _round(rows, place)
        for part in _parts(found, max(size, PAGE)):
            wanted = [row for row in part if place.at_ms(row) >= since_ms]
            for row, item in zip(wanted, look(wanted), strict=True):
                items += [] if item is None else [item]
                if len(items) == size:
                    return Page(items, Place(place.day, row["at_id"]))
            if len(wanted) < len(part):
                return Page(items, None)
        place = Place(place.day, floor) if floor else Place(place.day - 1) if place.day else None
    return Page(items, place if place and place.day >= since_ms // DAY_MS else None)


def _round(rows: Rows, place: Place) -> tuple[list[Row], str]:
    """Rows in order that are complete down to a floor, which is empty when the day has no more."""
    looks = [rows.rows(place.day, shard, place.before, ROWS_A_LOOK) for shard in SHARDS]
    floor = max((look[-1]["at_id"] for look in looks if len(look) == ROWS_A_LOOK), default="")
    found = [row for look in looks for row in look if row["at_id"] >= floor]
    return sorted(found, key=lambda row: row["at_id"], reverse=True), floor


def _parts(found: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    return (found[start : start + size] for start in range(0, len(found), size))
