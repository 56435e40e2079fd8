"""The numbers behind /metrics in the kernel table: rows whose attributes are the numbers; /metrics adds the rows up.

A command adds to them in its own transaction, so each is counted once, whatever dies and however often a request is
sent. DynamoDB refuses transactions that write the same row at the same time. Each thread therefore draws a slot, writes
the rows of that slot only, and draws another one when a transaction was refused.
"""

from __future__ import annotations

import secrets
import zlib
from collections import defaultdict
from collections.abc import Mapping
from threading import local
from typing import Final

from piecework.aws.table import Table
from piecework.aws.writes import Key, Update
from piecework.kernel.model.metrics import FAMILIES, PARTED
from piecework.kernel.model.ports.stores import Counters
from piecework.kernel.store import keys

SLOTS: Final = 128  # more than environments that run commands at the same moment; /metrics reads the rows of all
TOOL_SHARDS: Final = 64  # rows of numbers about tools in a slot; each holds those of some 500 tools
KEY_ATTRIBUTES: Final = frozenset({"pk", "sk"})


class KernelCounters(Counters):
    """Numbers in DynamoDB."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def all(self) -> Mapping[str, float]:
        sums: defaultdict[str, float] = defaultdict(float)
        for part in keys.count_parts():
            for row in self._table.query(part):
                for name in row.keys() - KEY_ATTRIBUTES:
                    sums[name.removeprefix("=")] += row[name]
        return dict(sums)


class CountWrites:
    """Lays counts out as writes of the transaction that they belong to."""

    def __init__(self) -> None:
        self._drawn = local()

    def of(self, counts: Mapping[str, float]) -> list[Update]:
        """The writes that add counts to the rows of this thread's slot."""
        shares: defaultdict[Key, dict[str, float]] = defaultdict(dict)
        for name, amount in counts.items():
            shares[_place(name, self._slot())][name] = amount
        return [_adding(key, share) for key, share in shares.items()]

    def move(self) -> None:
        """Draw another slot: somebody may be writing the same rows."""
        self._drawn.slot = secrets.randbelow(SLOTS)

    def _slot(self) -> int:
        if not hasattr(self._drawn, "slot"):  # with the first command: environments may come from one snapshot
            self.move()
        return int(self._drawn.slot)


def _adding(key: Key, share: Mapping[str, float]) -> Update:
    names = {f"{place}": f"={name}" for place, name in enumerate(share)}
    values = {f"{place}": round(amount, 9) for place, amount in enumerate(share.values())}
    return Update(key, "ADD " + ", ".join(f"#{place} :{place}" for place in names), values=values, names=names)


def _place(name: str, slot: int) -> Key:
    """The row of a number: numbers about one tool lie together, and apart from the general ones."""
    family, _, label = name.partition(PARTED)
    if family not in FAMILIES or FAMILIES[family][2] != ("tool_id",):
        return keys.counts(slot)
    return keys.counts(slot, f"#T{zlib.crc32(label.partition(PARTED)[0].encode()) % TOOL_SHARDS:02d}")
