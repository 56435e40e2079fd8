"""Durations as Go writes them: `90s`, `1h30m`, `1.5h`, `250ms`."""

import re
from fractions import Fraction
from typing import Final

MS: Final = {"ns": Fraction(1, 10**6), "us": Fraction(1, 10**3), "µs": Fraction(1, 10**3), "μs": Fraction(1, 10**3)} | {
    "ms": Fraction(1),
    "s": Fraction(1_000),
    "m": Fraction(60_000),
    "h": Fraction(3_600_000),
}
PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|μs|ms|s|m|h)")
LONGEST_MS: Final = 2**63 // 10**6  # what Go's type holds, some 292 years
LONGEST_TEXT: Final = 100


def duration_ms(text: str) -> int:
    """A duration in milliseconds, rounded up to one.

    Raises:
        ValueError: the text is not a duration, or it is not above 0, or longer than 292 years.
    """
    total, index = Fraction(0), 0
    while index < len(text) <= LONGEST_TEXT and (part := PART.match(text, index)):
        total += Fraction(part[1].rstrip(".") or "0") * MS[part[2]]
        index = part.end()
    if not text or index < len(text) or not 0 < total <= LONGEST_MS:
        raise ValueError("not a duration such as 30s, 1m or 1h30m")
    return -int(-total // 1)
