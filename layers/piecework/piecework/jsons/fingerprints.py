"""Fingerprints: they decide whether two payloads of one key are the same payload.

A row holds two. `exact` covers the text of every number, so 1.50 is not 1.5 and 2^64 + 1 is not 2^64. `older` covers
each number as a double; earlier code and its rows have only that one. Both are stored, so that either code recognises a
repeat, whichever of them wrote the row.
"""

import hashlib
from typing import NamedTuple

from piecework.jsons import Json, canonical, canonical_of_plain, older_canonical
from piecework.jsons.numerals import holds_written


class Fingerprint(NamedTuple):
    """A payload's two digests; they are equal unless a number keeps its text."""

    older: str
    exact: str

    @classmethod
    def of(cls, mark: "str | Fingerprint") -> "Fingerprint":
        """A fingerprint of one digest, for a payload without numbers."""
        return mark if isinstance(mark, Fingerprint) else cls(mark, mark)


def fingerprint(value: Json) -> Fingerprint:
    """The fingerprint of a payload that `loads_exact` read."""
    if not holds_written(value):
        both = _sha256(canonical_of_plain(value))
        return Fingerprint(both, both)
    exact = _sha256(canonical(value))
    try:
        return Fingerprint(_sha256(older_canonical(value)), exact)
    except ValueError:  # a number beyond a double: older code refuses it and did not write a row
        return Fingerprint(exact, exact)


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
