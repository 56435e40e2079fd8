"""Regular expressions of schemas: how large one is for the linear-time engine. Matching itself is never done here."""

from typing import Final

PATTERN_TOO_LARGE: Final = 20_001  # what an unmeasurable pattern counts as
MAX_GROUP_DEPTH: Final = 200  # the engine refuses 250 nested groups


class PatternNotRun(ValueError):
    """The pattern holds a group that we do not run: an inline flag, an atomic group, or too many inside each other."""


def pattern_positions(pattern: str) -> int:
    """How many characters a regular expression has once its counted repetitions are written out.

    Raises:
        PatternNotRun: it sets flags inline, which changes how the rest reads, or has an atomic group.
    """
    totals, last, index = [0], 0, 0
    while index < len(pattern):
        character, step = pattern[index], 1
        if character == "(":
            if len(totals) > MAX_GROUP_DEPTH or not _is_ordinary_group(pattern, index):
                raise PatternNotRun
            totals.append(0)
        elif character == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif character == "{" and (found := counted(pattern, index)):
            _, most, step = found
            totals[-1] += last * (most - 1)
            last *= most
        elif character not in "*+?|)":
            step, last = _atom_length(pattern, index), 1
            totals[-1] += 1
        if totals[-1] >= PATTERN_TOO_LARGE:
            return PATTERN_TOO_LARGE
        index += step
    return min(sum(totals), PATTERN_TOO_LARGE)


def _is_ordinary_group(pattern: str, index: int) -> bool:
    """Whether the group opening here is capturing, named, `?:` or look-around, not one that sets flags."""
    return pattern[index + 1 : index + 2] != "?" or pattern[index + 2 : index + 3] in tuple(":<=!P")


def counted(pattern: str, index: int) -> tuple[int, int, int] | None:
    """Least and most of a counted repetition at this place, and its length; most is at least 1."""
    end = pattern.find("}", index, index + 40)
    parts = [part.strip() for part in pattern[index + 1 : end].split(",")] if end > 0 else []
    known = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if not known or len(parts) > 2 or any(part and not part.isdigit() for part in parts):
        return None
    least = 0 if not parts[0] else known[0]
    return least, max(1, *known), end - index + 1


def _atom_length(pattern: str, index: int) -> int:
    if pattern[index] == "\\":
        return 2
    if pattern[index] != "[":
        return 1
    end = index + 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end - index + 1
