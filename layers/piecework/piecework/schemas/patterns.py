"""Regular expressions of schemas: how large one is, and a text that matches a simple one.

Matching itself is never done here. The size is what the linear-time engine will hold; the text is a proposal that the
caller checks with that engine.
"""

from collections.abc import Callable, Iterator
from typing import Final

PATTERN_TOO_LARGE: Final = 20_001  # what an unmeasurable pattern counts as
MAX_GROUP_DEPTH: Final = 200  # the engine refuses 250 nested groups
MAX_READ_DEPTH: Final = 40  # nested groups of a pattern that a text is made for
MAX_TEXT: Final = 4_096  # characters of a generated text
MAX_PICKS: Final = 6  # alternatives tried of each choice
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. "
PLAIN: Final = ALPHABET[:26]
CLASSES: Final = {
    "d": "0123456789",
    "w": ALPHABET[:63],
    "s": " ",
    "D": PLAIN,
    "W": "-. ",
    "S": ALPHABET[:63],
}
CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r"}

Maker = Callable[[int, int], str]  # how many repetitions beyond the least, which alternative


class PatternUnsupported(ValueError):
    """The pattern is beyond the simple ones a text is made for."""


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
        elif character == "{" and (counted := _counted(pattern, index)):
            _, most, step = counted
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


def _counted(pattern: str, index: int) -> tuple[int, int, int] | None:
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


def texts_for(pattern: str, least: int, most: int) -> Iterator[str]:
    """Texts that should match and whose lengths lie within the bounds, the plainest first.

    Raises:
        PatternUnsupported: look-around, back-references, Unicode classes or unbalanced parts.
    """
    reader = _Reader(pattern)
    make = reader.alternatives()
    if reader.index < len(pattern):
        raise PatternUnsupported("unbalanced")
    for extra in sorted({0, 1, 2, 3, 7, least, most}):
        for pick in range(MAX_PICKS):
            text = make(min(extra, MAX_TEXT), pick)
            if not pattern.endswith("$"):
                text += PLAIN[pick] * min(max(extra, least - len(text)), MAX_TEXT)
            if least <= len(text) <= most:
                yield text


class _Reader:
    """Reads one simple pattern into makers of text, by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.index = 0
        self._depth = 0

    def alternatives(self) -> Maker:
        self._depth += 1
        if self._depth > MAX_READ_DEPTH:
            raise PatternUnsupported("nested too deep")
        options = [self._sequence()]
        while self._peek() == "|":
            self.index += 1
            options.append(self._sequence())
        self._depth -= 1
        return lambda extra, pick: options[pick % len(options)](extra, pick)

    def _peek(self) -> str:
        return self.pattern[self.index : self.index + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise PatternUnsupported("ends early")
        self.index += 1
        return character

    def _sequence(self) -> Maker:
        parts: list[Maker] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return lambda extra, pick: _short("".join(part(extra, pick) for part in parts))

    def _repeated(self, atom: Maker) -> Maker:
        counted = _counted(self.pattern, self.index) if self._peek() == "{" else None
        simple = {"*": (0, MAX_TEXT), "+": (1, MAX_TEXT), "?": (0, 1)}.get(self._peek())
        if counted:
            self.index += counted[2]
            open_ended = self.pattern[self.index - 2] == ","
            least, most = counted[0], MAX_TEXT if open_ended else counted[1]
        elif simple:
            self.index += 1
            least, most = simple
        else:
            return atom
        if self._peek() == "?":
            self.index += 1

        def repeat(extra: int, pick: int) -> str:
            once, times = atom(extra, pick), min(most, least + extra)
            if len(once) * times > MAX_TEXT:
                raise PatternUnsupported("too long")
            return once * times

        return repeat

    def _atom(self) -> Maker:
        character = self._take()
        if character in "^$":
            return lambda extra, pick: ""
        if character == "(":
            return self._group()
        if character == "[":
            return _one_of(self._class())
        if character == ".":
            return _one_of(PLAIN)
        if character == "\\":
            return _one_of(self._escape())
        if character in "*+?":
            raise PatternUnsupported("nothing to repeat")
        return _one_of(character)

    def _group(self) -> Maker:
        if self.pattern.startswith("?:", self.index):
            self.index += 2
        elif self.pattern.startswith("?<", self.index) and self.pattern[self.index + 2 : self.index + 3] not in "=!":
            self.index = self.pattern.find(">", self.index) + 1 or len(self.pattern)
        elif self._peek() == "?":
            raise PatternUnsupported("look-around or flags")
        inner = self.alternatives()
        if self._take() != ")":
            raise PatternUnsupported("unbalanced")
        return inner

    def _class(self) -> str:
        negated = self._peek() == "^"
        self.index += negated
        found = ""
        while (character := self._take()) != "]":
            members = self._escape() if character == "\\" else character
            if (
                self._peek() == "-"
                and self.pattern[self.index + 1 : self.index + 2] not in ("]", "")
                and len(members) == 1
            ):
                self.index += 1
                last = self._take()
                members = _span(members, self._escape() if last == "\\" else last)
            found += members
        candidates = "".join(c for c in ALPHABET if c not in found) if negated else found
        if not candidates:
            raise PatternUnsupported("empty class")
        return candidates

    def _escape(self) -> str:
        character = self._take()
        if character in CLASSES:
            return CLASSES[character]
        if character in CONTROLS:
            return CONTROLS[character]
        if character.isalnum():
            raise PatternUnsupported("an escape beyond the simple ones")
        return character


def _one_of(characters: str) -> Maker:
    return lambda extra, pick: characters[pick % len(characters)]


def _span(first: str, last: str) -> str:
    if len(last) != 1 or ord(first) > ord(last):
        raise PatternUnsupported("an unclear range")
    return "".join(map(chr, range(ord(first), min(ord(last), ord(first) + 255) + 1)))


def _short(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise PatternUnsupported("too long")
    return text
