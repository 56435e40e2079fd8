"""RE2's regular expressions, run by the linear-time engine that also checks schemas.

The engine's own language differs (`.`, `\\s`, `\\b`, POSIX classes, flags), so a pattern is read by RE2's rules and
written anew in what both agree on: explicit characters, ranges and groups. What RE2 refuses is refused.
"""

import re
from typing import Final

from piecework.kernel.policy.re2_classes import LAST, PERL, POSIX, complement, written

MAX_PATTERN: Final = 2_000  # characters
MAX_DEPTH: Final = 100  # nested groups
MAX_REPEAT: Final = 1_000  # RE2's own
SIZE_BYTES: Final = 262_144  # compiled size of one pattern; larger ones take over 2 ms each to build
COUNTED: Final = re.compile(r"\{([0-9]+)(?:,([0-9]+)?)?\}")
FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
NAMED: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
PROPERTY: Final = re.compile(r"([pP])(?:([A-Z])|\{(\^?)([A-Za-z_]+)\})")
HEXADECIMAL: Final = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
OCTAL: Final = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
ANCHORS: Final = {"A": r"\A", "z": r"\z", "b": r"(?-u:\b)", "B": r"(?-u:\B)"}
ANYTHING: Final = ((0, LAST),)
NOTHING_TO_REPEAT: Final = "repeats nothing"


class BadPattern(ValueError):
    """RE2 would not take the pattern, or it is over our bounds."""


class Search:
    """A compiled pattern that is searched for anywhere in a text."""

    def __init__(self, pattern: str) -> None:
        """Raises BadPattern."""
        import jsonschema_rs

        self.pattern = pattern
        schema = {"pattern": engine_pattern(pattern)}
        options = jsonschema_rs.RegexOptions(size_limit=SIZE_BYTES, dfa_size_limit=4 * SIZE_BYTES)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(schema, pattern_options=options)
        except jsonschema_rs.ValidationError:
            raise BadPattern("is too large, or names a class that is not known") from None

    def finds(self, text: str) -> bool:
        """Whether the pattern matches anywhere; a lone surrogate counts as U+FFFD."""
        return self._validator.is_valid(_whole_characters(text))


def engine_pattern(pattern: str) -> str:
    """The pattern in the engine's words.

    Raises:
        BadPattern: it is none of RE2's.
    """
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"is longer than {MAX_PATTERN} characters")
    reader = _Reader(pattern)
    made = reader.alternatives("", 0)
    if reader.index < len(pattern):
        raise BadPattern("closes a group that is not open")
    return made


class _Reader:
    """Reads one pattern by recursive descent; `flags` are those that hold at a place."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.index = 0

    def alternatives(self, flags: str, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise BadPattern(f"nests more than {MAX_DEPTH} groups")
        made: list[str] = []
        can_repeat = False
        while (character := self._peek()) not in ("", ")"):
            if (new := FLAGS.match(self.pattern, self.index)) and new[3] == ")":
                self.index, flags, can_repeat = new.end(), _changed(flags, new), False
            elif character == "|":
                self.index, can_repeat = self.index + 1, False
                made.append("|")
            elif repeat := self._repeat():
                if not can_repeat:
                    raise BadPattern(NOTHING_TO_REPEAT)
                made[-1], can_repeat = f"(?:{made[-1]}){repeat}", False
            else:
                found = self._atoms(flags, depth)
                made += found
                can_repeat = bool(found)
        return "".join(made)

    def _atoms(self, flags: str, depth: int) -> list[str]:
        """What stands here: one character, class or group, or each character of a quotation."""
        if new := FLAGS.match(self.pattern, self.index):
            self.index = new.end()
            return [self._group(_changed(flags, new), depth)]
        if quoted := self._quoted():
            return [_character(ord(each), flags) for each in quoted[2:].removesuffix(r"\E")]
        return [self._atom(flags, depth)]

    def _peek(self) -> str:
        return self.pattern[self.index : self.index + 1]

    def _repeat(self) -> str:
        """A repetition at this place, or "". Being lazy makes no difference to whether something matches."""
        counted = COUNTED.match(self.pattern, self.index)
        if counted:
            least, most = int(counted[1]), int(counted[2] or counted[1])
            if most > MAX_REPEAT or least > most:
                raise BadPattern(f"repeats more than {MAX_REPEAT} times, or fewer times at most than at least")
        elif self._peek() not in tuple("*+?"):
            return ""
        repeat = counted[0] if counted else self._peek()
        self.index += len(repeat)
        self.index += self._peek() == "?"
        if self._peek() in tuple("*+?") or COUNTED.match(self.pattern, self.index):
            raise BadPattern("repeats a repetition; put it into a group")
        return repeat

    def _quoted(self) -> str:
        r"""A `\Q…\E` at this place, or ""."""
        if not self.pattern.startswith(r"\Q", self.index):
            return ""
        end = self.pattern.find(r"\E", self.index + 2)
        quoted = self.pattern[self.index : end + 2 if end >= 0 else None]
        self.index += len(quoted)
        return quoted

    def _atom(self, flags: str, depth: int) -> str:
        if self._peek() == "(":
            return self._plain_group(flags, depth)
        if self._peek() == "[":
            return self._class(flags)
        character, self.index = self._peek(), self.index + 1
        if character == "\\":
            return self._escape(flags)
        return _symbol(character, flags) or _character(ord(character), flags)

    def _plain_group(self, flags: str, depth: int) -> str:
        if named := NAMED.match(self.pattern, self.index):
            self.index = named.end()
        elif self.pattern.startswith("(?", self.index):
            raise BadPattern("looks around, refers back or sets a flag that RE2 does not know")
        else:
            self.index += 1
        return self._group(flags, depth)

    def _group(self, flags: str, depth: int) -> str:
        made = self.alternatives(flags, depth + 1)
        if self._peek() != ")":
            raise BadPattern("leaves a group open")
        self.index += 1
        return f"(?:{made})"

    def _escape(self, flags: str) -> str:
        character = self._peek()
        if character in ANCHORS:
            self.index += 1
            return ANCHORS[character]
        if ranges := PERL.get(character.lower()):
            self.index += 1
            return _folding(f"[{'^' * character.isupper()}{written(ranges)}]", flags)
        if found := self._property():
            return _folding(found, flags)
        return _character(self._code(), flags)

    def _property(self) -> str:
        found = PROPERTY.match(self.pattern, self.index)
        if not found:
            return ""
        self.index = found.end()
        is_negated = (found[1] == "P") != bool(found[3])
        return f"\\{'P' if is_negated else 'p'}{{{found[2] or found[4]}}}"

    def _code(self) -> int:
        """The character that an escape stands for."""
        character = self._peek()
        if hexadecimal := HEXADECIMAL.match(self.pattern, self.index):
            self.index = hexadecimal.end()
            code = int(hexadecimal[1] or hexadecimal[2], 16)
        elif octal := OCTAL.match(self.pattern, self.index):
            self.index = octal.end()
            code = int(octal[0], 8)
        elif character in CONTROLS:
            self.index += 1
            code = CONTROLS[character]
        elif character.isascii() and character and not character.isalnum():
            self.index += 1
            code = ord(character)
        else:
            raise BadPattern(f"has an escape that RE2 does not know: \\{character}")
        if code > LAST or 0xD800 <= code <= 0xDFFF:
            raise BadPattern("names a character that is none")
        return code

    def _class(self, flags: str) -> str:
        self.index += 1
        sign = "^" if self._peek() == "^" else ""
        self.index += len(sign)
        members = [self._member(flags)]
        while self._peek() != "]":
            members.append(self._member(flags))
        self.index += 1
        return _folding(f"[{sign}{''.join(members)}]", flags)

    def _member(self, flags: str) -> str:
        if found := self._named_member(flags):
            return found
        low = high = self._class_character()
        if self._peek() == "-" and self.pattern[self.index + 1 : self.index + 2] not in ("]", ""):
            self.index += 1
            high = self._class_character()
        if high < low:
            raise BadPattern("has a class whose range runs backwards")
        return written([(low, high)])

    def _class_character(self) -> int:
        character = self._peek()
        if not character:
            raise BadPattern("leaves a class open")
        self.index += 1
        return self._code() if character == "\\" else _scalar(character)

    def _named_member(self, flags: str) -> str:
        r"""A `[:name:]`, `\d` or `\pL` at this place of a class, or ""."""
        if self.pattern.startswith("[:", self.index) and (end := self.pattern.find(":]", self.index + 2)) > 0:
            name = self.pattern[self.index + 2 : end]
            ranges, is_negated, length = POSIX.get(name.removeprefix("^")), name.startswith("^"), len(name) + 4
            if ranges is None:
                raise BadPattern("names a POSIX class that is not known")
        elif self._peek() != "\\":
            return ""
        else:
            letter = self.pattern[self.index + 1 : self.index + 2]
            ranges, is_negated, length = PERL.get(letter.lower()), letter.isupper(), 2
        if ranges is None:
            start, self.index = self.index, self.index + 1
            found = self._property()
            self.index = self.index if found else start
            return found
        if is_negated and "i" in flags:
            raise BadPattern("negates a class inside a class while case is ignored")
        self.index += length
        return written(complement(ranges) if is_negated else ranges)


def _whole_characters(text: str) -> str:
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _symbol(character: str, flags: str) -> str:
    """What `^`, `$` and `.` mean here; "" for any other character."""
    if character == "^":
        return "(?m:^)" if "m" in flags else r"\A"
    if character == "$":
        return "(?m:$)" if "m" in flags else r"\z"
    return f"[{written(ANYTHING if 's' in flags else complement([(10, 10)]))}]" if character == "." else ""


def _changed(flags: str, new: re.Match[str]) -> str:
    return "".join({*flags, *new[1]} - {*(new[2] or "")})


def _scalar(character: str) -> int:
    if 0xD800 <= ord(character) <= 0xDFFF:
        raise BadPattern("holds a lone surrogate, which is not text")
    return ord(character)


def _character(code: int, flags: str) -> str:
    return _folding(f"\\x{{{_scalar(chr(code)):X}}}", flags)


def _folding(made: str, flags: str) -> str:
    return f"(?i:{made})" if "i" in flags else made
