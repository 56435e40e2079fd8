"""JSON in which another party wraps its answer: a model's endpoint, a facilitator, a node.

The parts that we use are read strictly (`jsons.loads`). The other parts may hold anything, and we must not lose a paid
answer over a part that we do not read. So this reader accepts a byte order mark, control characters and lone surrogates
in strings. It puts `UNREADABLE` in place of NaN, of a number too large for a double, and of a member that occurs twice
with different values. `UNREADABLE` is not a JSON type, so code that uses such a member notices. Bytes that are not
UTF-8 become lone surrogates, which canonical JSON cannot hold.
"""

import json
from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import Json, check_depth

MAX_DEPTH: Final = 300  # nested containers; the interpreter would stop at about 1,000
MAX_NUMBER_CHARACTERS: Final = 1_100  # a double's exact decimal form needs fewer


class Unreadable:
    """Stands for a value that cannot be read."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = Unreadable()


def read_envelope(raw: bytes) -> Json:
    """One JSON document of another party.

    Raises:
        BadRequest: the bytes are not a JSON document, or nest more than `MAX_DEPTH` containers.
    """
    check_depth(raw, MAX_DEPTH)
    try:
        return _DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogateescape"))
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise BadRequest("the answer is not JSON") from None


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        for name, value in pairs:
            if not _is_same(members[name], value):
                members[name] = UNREADABLE
    return members


def _is_same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and one == other


def _integer(text: str) -> Json:
    return int(text) if len(text) <= MAX_NUMBER_CHARACTERS else UNREADABLE


def _double(text: str) -> Json:
    value = float(text)
    return value if value - value == 0.0 else UNREADABLE


def _constant(name: str) -> Unreadable:
    return UNREADABLE


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_double, parse_constant=_constant, strict=False
)
