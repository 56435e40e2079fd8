"""Fingerprints of JSON as the kernel door keeps it: integers count with all their digits (specification 2.9).

`jsons.digest` takes an integer beyond 64 bits for the double next to it, or cannot take it at all. Values without
numbers of that size, nearly all, have that digest as their fingerprint, as they had in earlier code: copies of both
kinds recognise each other's repeats.
"""

import hashlib
import json
import re
from typing import Final

from piecework.jsons import I64_MIN, U64_MAX, Json, digest

_LARGE: Final = re.compile(r"\d{19}|e\+")


def fingerprint(value: Json) -> str:
    """Equal for equal JSON only: the order of members aside, and 1.50 being 1.5."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if not (_LARGE.search(text) and _holds_large_number(value)):
        return digest(value)
    return "exact:" + hashlib.sha256(text.encode()).hexdigest()


def matches(stored: str, value: Json) -> bool:
    """Whether a stored fingerprint, which earlier code may have made, is this value's."""
    own = fingerprint(value)
    return stored == own or (own.startswith("exact:") and stored == _rounded(value))


def _rounded(value: Json) -> str | None:
    """What earlier code made of large numbers; None where it failed."""
    try:
        return digest(value)
    except ValueError:
        return None


def _holds_large_number(value: Json) -> bool:
    """Whether some number is an integer beyond 64 bits, or a double that one could be taken for."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)
        elif isinstance(found, int | float) and not _fits(found):
            return True
    return False


def _fits(number: float) -> bool:
    if isinstance(number, int):
        return I64_MIN <= number <= U64_MAX
    return abs(number) < -I64_MIN
