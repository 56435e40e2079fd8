"""Globs over tool ids, as Go's `path.Match` reads them (specification 5.2).

`*` is any run without `/`, `?` one character but `/`, `[a-z]` and `[^a-z]` one character, `\\` takes the next as it is.
A star takes as little as lets the characters up to the next star fit, and never reconsiders.
"""

from collections.abc import Callable

from piecework.values import dataclass

Fits = Callable[[str], bool]  # of one character
Run = tuple[Fits, ...]  # characters between two stars


class Malformed(ValueError):
    """No glob: an open class, or nothing after a backslash."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern. One that is malformed equals itself and matches nothing else."""

    pattern: str
    runs: tuple[Run, ...] | None  # one more than there are stars; None: malformed

    @classmethod
    def of(cls, pattern: str) -> "Glob":
        """Compile a pattern."""
        try:
            return cls(pattern, tuple(_runs(pattern)))
        except Malformed:
            return cls(pattern, None)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        if self.runs is None:
            return text == self.pattern
        first, *rest = self.runs
        if not rest:
            return len(text) == len(first) and _fits(first, text, 0)
        return _fits(first, text, 0) and _stars_match(rest, text, len(first))


def _stars_match(runs: list[Run], text: str, at: int) -> bool:
    *middle, last = runs
    for run in middle:
        found = _find(run, text, at)
        if found is None:
            return False
        at = found
    start = len(text) - len(last)
    return start >= at and "/" not in text[at:start] and _fits(last, text, start)


def _find(run: Run, text: str, at: int) -> int | None:
    """Where the run ends that comes first after a star at this place, or None."""
    while not _fits(run, text, at):
        if at >= len(text) or text[at] == "/":
            return None
        at += 1
    return at + len(run)


def _fits(run: Run, text: str, at: int) -> bool:
    return at + len(run) <= len(text) and all(fits(text[at + index]) for index, fits in enumerate(run))


def _runs(pattern: str) -> list[Run]:
    runs: list[list[Fits]] = [[]]
    index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*":
            if len(runs) == 1 or runs[-1]:  # several stars in a row are one
                runs.append([])
        elif character == "?":
            runs[-1].append(lambda found: found != "/")
        elif character == "[":
            fits, index = _class(pattern, index)
            runs[-1].append(fits)
        else:
            if character == "\\":
                character, index = _escaped(pattern, index - 1)
            runs[-1].append(character.__eq__)
    return [tuple(run) for run in runs]


def _class(pattern: str, index: int) -> tuple[Fits, int]:
    is_negated = pattern.startswith("^", index)
    index += is_negated
    ranges: list[tuple[str, str]] = []
    while not (ranges and pattern.startswith("]", index)):
        low, index = _member(pattern, index)
        high = low
        if pattern.startswith("-", index):
            high, index = _member(pattern, index + 1)
        ranges.append((low, high))
    return (lambda found: any(low <= found <= high for low, high in ranges) != is_negated), index + 1


def _member(pattern: str, index: int) -> tuple[str, int]:
    character = pattern[index : index + 1]
    if character in ("", "-", "]"):
        raise Malformed
    return _escaped(pattern, index) if character == "\\" else (character, index + 1)


def _escaped(pattern: str, index: int) -> tuple[str, int]:
    """The character after a backslash."""
    character = pattern[index + 1 : index + 2]
    if not character:
        raise Malformed
    return character, index + 2
