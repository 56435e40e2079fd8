"""Proposals of texts that match a simple regular expression; the caller checks them with the real engine."""

from collections.abc import Callable, Iterator
from typing import Final

from piecework.schemas.patterns import counted

MAX_READ_DEPTH: Final = 40  # nested groups of a pattern that is read
MAX_TEXT: Final = 4_096  # characters of a generated text
MAX_PICKS: Final = 6  # tried alternatives of each choice
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
    """The pattern is not a simple one, so a text is not made for it."""


def texts_for(pattern: str, least: int, most: int) -> Iterator[str]:
    """Texts that should match, with lengths within the bounds, the plainest first.

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
        found = counted(self.pattern, self.index) if self._peek() == "{" else None
        simple = {"*": (0, MAX_TEXT), "+": (1, MAX_TEXT), "?": (0, 1)}.get(self._peek())
        if found:
            self.index += found[2]
            open_ended = self.pattern[self.index - 2] == ","
            least, most = found[0], MAX_TEXT if open_ended else found[1]
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
