"""A log that remembers what was said, for tests that ask."""

from typing import Any


class QuietLog:
    """Keeps events and fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info
