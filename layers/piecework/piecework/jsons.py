"""JSON in and out: strict in, canonical out.

`canonical` writes the form that WattSwarm hashes and measures (runtime specification 0.2, "CJ"): no spaces, members
sorted by code point, raw UTF-8, integers within i64/u64 as integers, everything else as a double in its shortest form.
`loads` reads what that codec reads, so parsing and writing again never changes a value.
"""

import json
import re
import sys
from typing import Any, Final, NoReturn

from piecework.errors import BadRequest

Json = Any  # dict[str, Json] | list[Json] | str | int | float | bool | None

MAX_DEPTH_IN: Final = 140  # nested containers; the kernel wraps values it could itself nest 127 deep
MAX_DEPTH_OUT: Final = 126  # nested containers of an output, which the kernel's decoder sees inside one more
I64_MIN: Final = -(2**63)
U64_MAX: Final = 2**64 - 1
SAFE_INTEGER_DIGITS: Final = 18  # any integer of this many characters fits i64, so no range check is needed
SAFE_RECURSION: Final = 3_000  # packages raise the interpreter's limit so far that endless nesting ends the process
MAX_NESTING: Final = 1_000  # what a value may nest where the interpreter would not stop it
MAX_NUMBER_CHARACTERS: Final = 1_100  # a double's exact decimal form needs fewer; more is an attack on the parser

# A string that is not closed runs to the end: to look for its closing mark again from each escaped one takes minutes.
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Where Python's own writer may differ from the kernel's: an exponent, or an integer of 19 digits and more. Both look
# for the sign quickly and may hit inside a string, which only costs the slower writer below.
_EXPONENT: Final = re.compile(rb"e(?<=\de)[-+]\d+(?:[,\]}]|$)")
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER: Final = b"0" * 19
_MINUS_ZERO: Final = re.compile(rb"-0(?=[\s,\]}]|\Z)")


def loads(data: bytes | str) -> Json:
    """Parse one strict JSON document (specification 0.2).

    Raises:
        BadRequest: not UTF-8, a BOM, trailing data, NaN or an overflowing number, a lone surrogate, a duplicate
            member, or more than `MAX_DEPTH_IN` nested containers.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    check_depth(raw, MAX_DEPTH_IN)
    try:
        is_odd = _MINUS_ZERO.search(raw) or _LONG_INTEGER in raw.translate(_DIGITS_TO_ZERO)
        value = (_DECODER if is_odd else _PLAIN_DECODER).decode(raw.decode("utf-8"))
        if _SURROGATE_ESCAPE.search(raw):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest("the body holds a lone surrogate escape, which is not text") from None
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8") from None
    except RecursionError:
        raise BadRequest("the body is nested too deep") from None
    except ValueError as error:
        raise BadRequest(f"the body is not valid JSON: {_where(error)}") from None
    return value


def canonical(value: Json) -> bytes:
    """The canonical bytes of a JSON value (specification 0.2, CJ).

    Raises:
        ValueError: the value is no JSON: NaN, infinity, a lone surrogate, a foreign type or endless nesting.
    """
    try:
        if sys.getrecursionlimit() > SAFE_RECURSION:
            _check_nesting(value)
        raw = "".join(_encode(value, 0)).encode("utf-8")
        if _EXPONENT.search(raw) or _LONG_INTEGER in raw.translate(_DIGITS_TO_ZERO):
            return _write(json.loads(raw)).encode("utf-8")  # read back: every key is text by now
        return raw
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a JSON value: {type(error).__name__}") from None


def digest(value: Json) -> str:
    """Lower-case hex SHA-256 of the canonical bytes."""
    import hashlib  # loads OpenSSL, which costs the functions that hash nothing 3 ms

    return hashlib.sha256(canonical(value)).hexdigest()


def check_depth(raw: bytes, limit: int) -> None:
    """Refuse a document of more than `limit` nested containers before anything recursive reads it.

    Raises:
        BadRequest: it is nested deeper.
    """
    if raw.count(b"[") + raw.count(b"{") <= limit:
        return
    depth = 0
    for token in _TOKENS.finditer(raw):
        if token.lastindex == 1:
            depth += 1
            if depth > limit:
                raise BadRequest(f"the body nests more than {limit} containers")
        elif token.lastindex == 2:
            depth -= 1


def _check_nesting(value: Json) -> None:
    waiting: list[tuple[Json, int]] = [(value, 0)]
    while waiting:
        found, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise ValueError(f"a value nests more than {MAX_NESTING} containers")
        if isinstance(found, dict):
            waiting.extend((member, depth + 1) for member in found.values())
        elif isinstance(found, list | tuple):
            waiting.extend((member, depth + 1) for member in found)


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _integer(text: str) -> int | float:
    if len(text) <= SAFE_INTEGER_DIGITS:
        return -0.0 if text == "-0" else int(text)
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError("a number is too long")
    value = int(text)
    return value if I64_MIN <= value <= U64_MAX else _double(text)


def _double(text: str) -> float:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError("a number is too long")
    value = float(text)
    if value - value != 0.0:
        raise ValueError("a number is too large for a double")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _where(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at character {error.pos}"
    return str(error)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_double, parse_constant=_constant
)
_PLAIN_DECODER: Final = json.JSONDecoder(  # every integer fits i64 and none is -0, so Python's own reading is right
    object_pairs_hook=_members, parse_float=_double, parse_constant=_constant
)
_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)

# What `_ENCODER.encode` makes anew in every call, which for the small values that fill an answer is half its time.
_encode: Final = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    *(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ","),
    *(True, False, False),  # sort_keys, skipkeys, allow_nan
)


def _write(value: Json) -> str:
    if isinstance(value, dict):
        members = (f"{_ENCODER.encode(key)}:{_write(value[key])}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, float):
        return _write_double(value)
    if isinstance(value, int) and not I64_MIN <= value <= U64_MAX:
        return _write_double(float(value))
    return _ENCODER.encode(value)


def _write_double(value: float) -> str:
    if value - value != 0.0:
        raise ValueError("NaN and infinity are not JSON")
    text = float.__repr__(value)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    if int(exponent) == -5:  # Python switches to exponents one decade earlier than the kernel's codec
        sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{mantissa}e{int(exponent):+d}"
