"""A log that remembers what was said and counted, for tests that ask."""

from collections import Counter
from typing import Any


class QuietLog:
    """Keeps events and fields, and counts."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.counted: Counter[str] = Counter()

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info

    def count(self, metrics: tuple[str, ...]) -> None:
        self.counted.update(metrics)
