"""One list out of several partitions, each of which was read in part.

The list goes as far as every partition has been read: beyond the nearest end there may be rows that nobody has seen.

    partition 1   a  c  e  |            read to e
    partition 2   b  d                  read whole
    partition 3   f  g  |               read to g
    list          a  b  c  d  e         read to e; f and g belong to the next page
"""

from __future__ import annotations

from collections.abc import Sequence

from piecework.aws.attributes import Item
from piecework.aws.table import Part


def merged(parts: Sequence[Part], sk: str, *, newest_first: bool = False) -> Part:
    """The rows of all parts in order, and the sort key up to which all were read; empty at the end of all."""
    ends = [part.read_to for part in parts if part.read_to]
    rows = sorted((row for part in parts for row in part.rows), key=lambda row: str(row[sk]), reverse=newest_first)
    if not ends:
        return Part(rows, "")
    end = max(ends) if newest_first else min(ends)
    return Part([row for row in rows if _is_within(row, sk, end, newest_first=newest_first)], end)


def _is_within(row: Item, sk: str, end: str, *, newest_first: bool) -> bool:
    place = str(row[sk])
    return place >= end if newest_first else place <= end
