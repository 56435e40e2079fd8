"""Hints in memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from piecework.kernel.streams.hints import NO_MARK, Hints, Key, Mark, Named


@dataclass
class FakeHints(Hints):
    """Marks in a dictionary."""

    kept: dict[Key, Mark] = field(default_factory=dict)

    def send(self, hints: Mapping[Key, Named | None]) -> None:
        for key, named in hints.items():
            self.kept[key] = Mark(self.kept.get(key, NO_MARK).number + 1, named)

    def marks(self, keys: Collection[Key]) -> Mapping[Key, Mark]:
        return {key: self.kept[key] for key in keys if key in self.kept}
