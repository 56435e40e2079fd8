"""Keys of the indexes that lists read: rows by their day in 16 parts, the newest last.

A day's rows lie in 16 partitions, by the first digit of the row's own key, which is a digest. So a busy day writes to
no single partition, and a list reads 16 of them. The keys are short, because a row of a kilobyte and a byte costs two
write units: the day is its number since 1970, and a row's place is its millisecond of that day and a few digits.
"""

from typing import Final

from piecework.aws.attributes import Item

BY_DAY: Final = "ByDay"
SHARDS: Final = "0123456789abcdef"
DAY_MS: Final = 86_400_000
TIME_DIGITS: Final = 8  # of a day's milliseconds
APART: Final = 4  # digits of the key, behind its first, that keep rows of one millisecond apart


def keys_of(key: str, at_ms: int) -> Item:
    """The attributes of a row, whose own key is a digest in hex, that put it into the index of its day (UTC)."""
    day, ms = divmod(at_ms, DAY_MS)
    return {"in_day": f"{day}#{key[0]}", "at_id": f"{ms:0{TIME_DIGITS}d}{key[1 : APART + 1]}"}


def at_ms_of(row: Item) -> int:
    """When a row stands in its index, epoch ms."""
    return int(row["in_day"].partition("#")[0]) * DAY_MS + int(row["at_id"][:TIME_DIGITS])
