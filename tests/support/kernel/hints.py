"""Hints in memory."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from piecework.kernel.streams.hints import Hints, Key


@dataclass
class FakeHints(Hints):
    """Marks in a dictionary."""

    kept: dict[Key, str] = field(default_factory=dict)
    numbers: Iterable[int] = field(default_factory=count)

    def send(self, keys: Iterable[Key]) -> None:
        self.kept |= {key: str(next(iter(self.numbers))) for key in keys}

    def marks(self, keys: Collection[Key]) -> Mapping[Key, str]:
        return {key: self.kept[key] for key in keys if key in self.kept}
