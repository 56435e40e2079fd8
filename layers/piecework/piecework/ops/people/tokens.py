"""A signed token as its bearer sends it (RFC 7519 in the compact form of RFC 7515), read and not believed yet.

Python's readers are lenient where two readers could see different tokens: base64 with other characters, members that
occur twice. So the parts are read strictly here, before anything is asked about them.
"""

import binascii
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from piecework.errors import BadRequest
from piecework.jsons import Json, loads
from piecework.ops.access import SignInRefused

MOST_CHARACTERS: Final = 10_240  # the headers of a request at AWS's edge, together
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")


class Signed(NamedTuple):
    """The parts of a token."""

    header: Mapping[str, Json]
    claims: Mapping[str, Json]
    signed: bytes
    signature: bytes


def read_token(text: str) -> Signed:
    """The parts of a token.

    Raises:
        SignInRefused: it is too long, or is not three parts in canonical base64, two of them JSON objects.
    """
    parts = text.split(".")
    if len(text) > MOST_CHARACTERS or len(parts) != 3:
        raise SignInRefused("the sign-in is not a token of three parts")
    header, claims, signature = (_bytes(part) for part in parts)
    return Signed(_members(header), _members(claims), f"{parts[0]}.{parts[1]}".encode(), signature)


def unpadded(text: str) -> bytes:
    """The bytes that base64 for URLs without padding stands for. Raises ValueError unless it is the one way to write
    them."""
    if not _PART.fullmatch(text):
        raise ValueError("not base64")
    plain = text.translate(_TO_PLAIN)
    data = binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    if binascii.b2a_base64(data, newline=False).decode("ascii").rstrip("=") != plain:
        raise ValueError("not canonical base64")
    return data


_TO_PLAIN: Final = str.maketrans("-_", "+/")


def _bytes(part: str) -> bytes:
    try:
        return unpadded(part)
    except ValueError:
        raise SignInRefused("the sign-in is not in base64") from None


def _members(data: bytes) -> Mapping[str, Json]:
    try:
        value = loads(data)
    except BadRequest:
        value = None
    if not isinstance(value, dict):
        raise SignInRefused("the sign-in does not hold strict JSON")
    return value
