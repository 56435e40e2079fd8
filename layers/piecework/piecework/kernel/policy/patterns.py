"""Patterns of a policy: RE2's regular expressions, searched for anywhere in a text (specification 5.2).

RE2 runs in time that grows with the text only. Where its C++ code and Go's, which the reference uses, read a pattern
differently, the pattern is refused: C++ works on bytes and can match between two bytes of one character.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re2

MAX_PATTERN: Final = 2_000  # characters
MAX_MEMORY: Final = 1_048_576  # bytes that RE2 may take for one pattern, its program and the states of a search
MAX_PROGRAM: Final = 10_000  # instructions; larger programs take over 5 ms each to build
MAX_SHOWN: Final = 60  # characters of a pattern in a message
ESCAPES: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)  # a quotation is one of them
INSIDE: Final = ("é".encode(), 1)  # a text, and a place in it that is between two bytes of one character


class BadPattern(ValueError):
    """RE2 does not take the pattern, or it is over our bounds; says which, as the end of a sentence."""


class Search:
    """A compiled pattern that is searched for anywhere in a text."""

    def __init__(self, pattern: str) -> None:
        """Raises BadPattern."""
        if len(pattern) > MAX_PATTERN:
            raise BadPattern(f"is longer than {MAX_PATTERN} characters")
        self.pattern = pattern
        self._compiled = _compiled(pattern)
        if self._compiled.programsize > MAX_PROGRAM:
            raise BadPattern(f"is too large: RE2 needs more than {MAX_PROGRAM} instructions for it")
        escapes = ESCAPES.findall(pattern)
        if r"\C" in escapes or (r"\B" in escapes and self._compiled.match(*INSIDE)):
            raise BadPattern(r"can match a part of a character, by \B or \C")

    def finds(self, text: str) -> bool:
        """Whether the pattern matches anywhere; a lone surrogate counts as U+FFFD."""
        return self._compiled.search(_utf8(text)) is not None


def _compiled(pattern: str) -> "re2._Regexp":
    import re2  # only a policy that has patterns pays for its 11 ms

    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = MAX_MEMORY, True, False
    try:
        return re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise BadPattern("holds a lone surrogate, which is not text") from None
    except re2.error as error:
        raise BadPattern(f"is not a pattern of RE2: {_reason(error)}") from None


def _reason(error: "re2.error") -> str:
    """What RE2 found wrong, and at which part of the pattern."""
    what, _, where = error.args[0].decode(errors="replace").partition(": ")
    shown = where if len(where) <= MAX_SHOWN else f"{where[:MAX_SHOWN]}…"
    return f"{what} at `{shown}`" if shown else what


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
