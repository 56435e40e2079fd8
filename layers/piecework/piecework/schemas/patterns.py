"""The size of a schema's regular expression for the linear-time engine, which does the matching."""

from typing import Final

PATTERN_TOO_LARGE: Final = 20_001  # the count of a pattern that cannot be measured
MAX_GROUP_DEPTH: Final = 200  # the engine refuses 250 nested groups


class PatternNotRun(ValueError):
    """The pattern holds a group that is not supported: an inline flag, an atomic group, or groups nested too deep."""


def pattern_positions(pattern: str) -> int:
    """The number of characters of a regular expression with its counted repetitions written out.

    Raises:
        PatternNotRun: it sets flags inline, which changes the meaning of the rest, or has an atomic group.
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
    """Whether the group that opens here is capturing, named, `?:` or look-around; not one that sets flags."""
    return pattern[index + 1 : index + 2] != "?" or pattern[index + 2 : index + 3] in tuple(":<=!P")


def counted(pattern: str, index: int) -> tuple[int, int, int] | None:
    """The minimum, the maximum (at least 1) and the length in characters of a counted repetition at this place."""
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
