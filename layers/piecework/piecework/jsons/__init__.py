"""JSON: strict reading and canonical writing.

`canonical` writes the form that WattSwarm hashes and measures (runtime specification 0.2, "CJ"): no spaces, members
sorted by code point, raw UTF-8, doubles in their shortest form. There are two such codecs. To kernels built before July
2026 a number is a 64-bit integer or a double: `loads` reads and `older_canonical` writes as they do. To newer ones a
number inside a free-form value is its text: `loads_exact` reads and `canonical` writes as they do. Where every number
is a 64-bit integer or a double in canonical form, the two agree; parsing and writing again never changes a value.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from piecework.errors import BadRequest
from piecework.jsons.numerals import (
    I64_MIN,
    MAX_NESTING,
    SAFE_INTEGER_DIGITS,
    U64_MAX,
    WrittenFloat,
    WrittenInt,
    double_text,
    holds_written,
    read_double,
    read_integer,
)

__all__ = ["I64_MIN", "U64_MAX", "Json", "canonical", "check_depth", "digest", "first_value", "loads", "loads_exact"]

Json = Any  # dict[str, Json] | list[Json] | str | int | float | bool | None

MAX_DEPTH_IN: Final = 140  # nested containers; the kernel wraps values that may nest 127 deep themselves
MAX_DEPTH_READ: Final = 127  # nested containers of a document that the kernel reads; it refuses one more
SAFE_RECURSION: Final = 3_000  # packages raise the interpreter's limit until endless nesting ends the process
MAX_NUMBER_CHARACTERS: Final = 1_100  # a double's exact decimal form needs fewer; longer numbers attack the parser

# A string that is not closed runs to the end: a new search for its closing mark from each escaped one takes minutes.
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Where Python's own writer may differ from the kernel's: an exponent, or an integer of 19 digits and more. Both are
# quick searches that may match inside a string; then the slower writer below is used without need.
_EXPONENT: Final = re.compile(rb"e(?<=\de)[-+]\d+(?:[,\]}]|$)")
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER: Final = b"0" * 19
_MINUS_ZERO: Final = re.compile(rb"-0(?=[\s,\]}]|\Z)")


def loads(data: bytes | str) -> Json:
    """Parse one strict JSON document as older kernels do: each number is a 64-bit integer or a double.

    Raises:
        BadRequest: not UTF-8, a BOM, trailing data, NaN or an overflowing number, a lone surrogate, a duplicate
            member, or more than `MAX_DEPTH_IN` nested containers.
    """
    return _read(data, _PLAIN_DECODER, _DECODER)


def loads_exact(data: bytes | str) -> Json:
    """Parse one strict JSON document as newer kernels do: a number whose text is not canonical keeps its text.

    Raises:
        BadRequest: as `loads`, except that numbers beyond a double are read, up to a text of 65,536 characters.
    """
    return _read(data, _PLAIN_EXACT_DECODER, _EXACT_DECODER)


def first_value(text: str) -> Json:
    """The first JSON value of a text, as the kernel door reads it: integers have all their digits, of a member that
    occurs twice the last one counts, and what follows the value may be anything.

    Raises:
        ValueError: the text does not begin with one, or a number is too long or too large for a double.
    """
    value: Json = _FIRST_DECODER.raw_decode(text)[0]
    return value


def _read(data: bytes | str, plain: json.JSONDecoder, whole: json.JSONDecoder) -> Json:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    check_depth(raw, MAX_DEPTH_IN)
    try:
        is_odd = _MINUS_ZERO.search(raw) or _LONG_INTEGER in raw.translate(_DIGITS_TO_ZERO)
        value = (whole if is_odd else plain).decode(raw.decode("utf-8"))
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
    """The canonical bytes of a JSON value; a number that keeps its text is written so, and integers in full.

    Raises:
        ValueError: the value is not JSON: NaN, infinity, a lone surrogate, a foreign type or endless nesting.
    """
    if not holds_written(value):
        return canonical_of_plain(value)
    try:
        return _write(value).encode("utf-8")
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a JSON value: {type(error).__name__}") from None


def canonical_of_plain(value: Json) -> bytes:
    """As `canonical`, for a value that `holds_written` has walked: it refuses a nesting that the stack does not hold.

    Raises:
        ValueError: as `canonical`.
    """
    try:
        raw = _plain_writing(value)
        if _may_nest_deep(raw):
            _check_nesting(value)
        return _write(json.loads(raw)).encode("utf-8") if _may_hold_exponent(raw) else raw  # read back: keys are text
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a JSON value: {type(error).__name__}") from None


def older_canonical(value: Json) -> bytes:
    """The canonical bytes of older kernels: a number that is not a 64-bit integer is a double.

    Raises:
        ValueError: as `canonical`, or a number is beyond a double.
    """
    try:
        if _is_limit_raised():
            _check_nesting(value)
        raw = _plain_writing(value)  # a number that keeps its text becomes a double, or all its digits
        if _may_hold_exponent(raw) or _LONG_INTEGER in raw.translate(_DIGITS_TO_ZERO):
            return _write(json.loads(raw, parse_int=_integer)).encode("utf-8")
        return raw
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a JSON value: {type(error).__name__}") from None


def digest(value: Json) -> str:
    """Lower-case hex SHA-256 of the older canonical bytes, as in stored fingerprints; 1.50 and 1.5 share it.

    Raises:
        ValueError: as `older_canonical`.
    """
    import hashlib  # loads OpenSSL, which costs the functions that hash nothing 3 ms

    return hashlib.sha256(older_canonical(value)).hexdigest()


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


def _plain_writing(value: Json) -> bytes:
    return "".join(_encode(value, 0)).encode("utf-8")


def _may_hold_exponent(raw: bytes) -> bool:
    return (b"e-" in raw or b"e+" in raw) and _EXPONENT.search(raw) is not None


def _may_nest_deep(raw: bytes) -> bool:
    """Whether bytes may hold more than `MAX_NESTING` containers in each other, and the interpreter did not look."""
    return len(raw) > 2 * MAX_NESTING and _is_limit_raised() and raw.count(b"[") + raw.count(b"{") > MAX_NESTING


def _is_limit_raised() -> bool:
    return sys.getrecursionlimit() > SAFE_RECURSION


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


def _whole(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError("a number is too long")
    return int(text)


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


def _decoder(double: Callable[[str], float], integer: Callable[[str], int | float] | None) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_members, parse_int=integer, parse_float=double, parse_constant=_constant)


_DECODER: Final = _decoder(_double, _integer)
_EXACT_DECODER: Final = _decoder(read_double, read_integer)
# If every integer fits i64 and is not -0, Python's own reading of integers is right, and quicker.
_PLAIN_DECODER: Final = _decoder(_double, None)
_PLAIN_EXACT_DECODER: Final = _decoder(read_double, None)
_FIRST_DECODER: Final = json.JSONDecoder(parse_int=_whole, parse_float=_double, parse_constant=_constant)
_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)

# `_ENCODER.encode` makes this anew in every call, which is half its time for the small values of an answer.
_encode: Final = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    *(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ","),
    *(True, False, False),  # sort_keys, skipkeys, allow_nan
)


def _write(value: Json) -> str:
    if isinstance(value, dict):
        members = {_key(name): member for name, member in value.items()}
        return "{" + ",".join(f"{_ENCODER.encode(name)}:{_write(members[name])}" for name in sorted(members)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, WrittenFloat | WrittenInt):
        return value.text
    return double_text(value) if isinstance(value, float) else _ENCODER.encode(value)


def _key(name: Json) -> str:
    """A member's name as Python's own writer writes it: a number, a boolean or null becomes its text."""
    return name if isinstance(name, str) else next(iter(json.loads(_ENCODER.encode({name: None}))))
