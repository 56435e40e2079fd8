"""Fingerprints: what makes two payloads of one key the same payload.

A row keeps two. `exact` covers the text of every number, so 1.50 is not 1.5 and 2^64 + 1 is not 2^64. `older` covers
each number as a double; code from before `exact` knows that one alone, and so do the rows it wrote. Both are kept so
that a repeat is recognised by either code, whichever of them wrote the row.
"""

import hashlib
from typing import NamedTuple

from piecework.jsons import Json, canonical, older_canonical
from piecework.jsons.numerals import holds_written


class Fingerprint(NamedTuple):
    """A payload's two digests; they are the same unless a number keeps its text."""

    older: str
    exact: str

    @classmethod
    def of(cls, mark: "str | Fingerprint") -> "Fingerprint":
        """The fingerprint that a digest of something without numbers is."""
        return mark if isinstance(mark, Fingerprint) else cls(mark, mark)


def fingerprint(value: Json) -> Fingerprint:
    """The fingerprint of a payload that `loads_exact` read."""
    exact = _sha256(canonical(value))
    if not holds_written(value):
        return Fingerprint(exact, exact)
    try:
        return Fingerprint(_sha256(older_canonical(value)), exact)
    except ValueError:  # a number beyond a double, which older code refuses, so that it wrote no row
        return Fingerprint(exact, exact)


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
