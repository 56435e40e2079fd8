"""Character classes of RE2: their characters as ranges, and how the engine writes them."""

from collections.abc import Iterable
from typing import Final

Range = tuple[int, int]

LAST: Final = 0x10FFFF
DIGIT: Final = ((0x30, 0x39),)
SPACE: Final = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))  # without the vertical tab
UPPER: Final = ((0x41, 0x5A),)
LOWER: Final = ((0x61, 0x7A),)
WORD: Final = (*DIGIT, *UPPER, (0x5F, 0x5F), *LOWER)
PERL: Final[dict[str, tuple[Range, ...]]] = {"d": DIGIT, "s": SPACE, "w": WORD}
POSIX: Final[dict[str, tuple[Range, ...]]] = {
    "alnum": (*DIGIT, *UPPER, *LOWER),
    "alpha": (*UPPER, *LOWER),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": UPPER,
    "word": WORD,
    "xdigit": (*DIGIT, (0x41, 0x46), (0x61, 0x66)),
}


def complement(ranges: Iterable[Range]) -> list[Range]:
    """Every character outside of ranges that are sorted and do not meet."""
    outside, start = [], 0
    for low, high in ranges:
        if start < low:
            outside.append((start, low - 1))
        start = high + 1
    return [*outside, (start, LAST)]


def written(ranges: Iterable[Range]) -> str:
    """Ranges as members of a class."""
    return "".join(_point(low) if low == high else f"{_point(low)}-{_point(high)}" for low, high in ranges)


def _point(code: int) -> str:
    return f"\\x{{{code:X}}}"
