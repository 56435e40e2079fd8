"""Bells in memory."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from piecework.kernel.streams.bells import BellRows, Key


@dataclass
class FakeBells(BellRows):
    """Marks in a dictionary."""

    marks: dict[Key, str] = field(default_factory=dict)
    numbers: Iterable[int] = field(default_factory=count)

    def ring(self, keys: Iterable[Key]) -> None:
        self.marks |= {key: str(next(iter(self.numbers))) for key in keys}

    def rung(self, keys: Collection[Key]) -> Mapping[Key, str]:
        return {key: self.marks[key] for key in keys if key in self.marks}
