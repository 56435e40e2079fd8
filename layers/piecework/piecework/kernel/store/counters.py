"""The numbers behind /metrics in the kernel table: a few items whose attributes are the numbers.

Adding is one unconditional request that follows a commit: a process that dies between the two, or a request that the
client repeats, makes a number wrong by one, and nothing is decided by them.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping
from random import randrange
from typing import Final

from piecework.aws.table import Table
from piecework.aws.writes import Key
from piecework.kernel.model.metrics import FAMILIES, PARTED
from piecework.kernel.model.ports import Counters
from piecework.kernel.store import keys

SHARDS: Final = 8  # items of general numbers, drawn at random: some 8,000 commands a second
TOOL_SHARDS: Final = 64  # items of numbers about tools; each holds those of some 500 tools
KEY_ATTRIBUTES: Final = frozenset({"pk", "sk"})


class KernelCounters(Counters):
    """Numbers in DynamoDB."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, counts: Mapping[str, float]) -> None:
        shares: defaultdict[Key, dict[str, float]] = defaultdict(dict)
        general = randrange(SHARDS)  # noqa: S311  # spreads writers; guards nothing
        for name, amount in counts.items():
            shares[_place(name, general)][name] = amount
        for key, share in shares.items():
            self._add(key, share)

    def all(self) -> Mapping[str, float]:
        sums: defaultdict[str, float] = defaultdict(float)
        for row in self._table.query(keys.COUNTS, page=100):
            for name in row.keys() - KEY_ATTRIBUTES:
                sums[name.removeprefix("=")] += row[name]
        return dict(sums)

    def _add(self, key: Key, share: Mapping[str, float]) -> None:
        names = {f"{place}": f"={name}" for place, name in enumerate(share)}
        values = {f"{place}": round(amount, 9) for place, amount in enumerate(share.values())}
        expression = "ADD " + ", ".join(f"#{place} :{place}" for place in range(len(share)))
        self._table.update(key, expression, values, names=names)


def _place(name: str, general: int) -> Key:
    """The item of a number: numbers about one tool lie together, and apart from the general ones."""
    family, _, label = name.partition(PARTED)
    if family not in FAMILIES or FAMILIES[family][2] != ("tool_id",):
        return keys.COUNTS, f"S#{general}"
    return keys.COUNTS, f"T#{zlib.crc32(label.partition(PARTED)[0].encode()) % TOOL_SHARDS:02d}"
