"""Numbers and strings that fit a plain schema."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Final

from piecework.jsons import I64_MIN, U64_MAX, Json
from piecework.samples.texts import PatternUnsupported, texts_for
from piecework.samples.variants import CannotFill, Schema

MAX_TEXT: Final = 60_000  # characters of one string; an output of at most 64 KiB holds it

_FORMATS: Final = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "P1D",
    "email": "agent@example.com",
    "idn-email": "agent@example.com",
    "hostname": "host.example.com",
    "idn-hostname": "host.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a",
    "uri-reference": "https://example.com/a",
    "iri": "https://example.com/a",
    "iri-reference": "https://example.com/a",
    "uri-template": "https://example.com/{a}",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "json-pointer": "/a",
    "relative-json-pointer": "0",
    "regex": "^a$",
}


def numbers(schema: Schema, *, whole: bool, wanted: Json, salt: int) -> Iterator[int | float]:
    """Numbers in the bounds: the wanted one first, then the one nearest to zero and its neighbours.

    Raises:
        CannotFill: a number within the bounds does not exist.
    """
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        yield wanted
    low, high, step = _low(schema), _high(schema), _step(schema, whole=whole)
    if low is not None and high is not None and low > high:
        raise CannotFill("its bounds leave no number")
    if step is None:
        yield from map(_plain, _between(low, high, salt))
        return
    first = 0 if low is None else ceil(low / step)
    last = floor(high / step) if high is not None else max(first, 0) + salt + 2
    start = min(max(first, 0), last)
    for count in (start + salt, start, start + 1, start - 1):
        value = count * step
        if whole and not I64_MIN <= value <= U64_MAX:
            raise CannotFill("no integer of 64 bits lies in its bounds")
        if first <= count <= last or (low is None and count <= last):
            yield _plain(value)


def _between(low: Fraction | None, high: Fraction | None, salt: int) -> Iterator[Fraction]:
    if low is not None and high is not None:
        for part in (0, 2, 1, 3):
            yield low + (high - low) * Fraction(part + 4 * salt % 7, 4 + 4 * 7)
        yield (low + high) / 2
        yield from (low, high)
        return
    base = max(Fraction(0), low) if low is not None else min(Fraction(0), high) if high is not None else Fraction(0)
    away = -1 if high is not None else 1
    yield from (base + away * salt, base + away * (salt + 1), base + away)


def _exact(value: Json) -> Fraction | None:
    return Fraction(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _low(schema: Schema) -> Fraction | None:
    bounds = [bound for key in ("minimum", "exclusiveMinimum") if (bound := _exact(schema.get(key))) is not None]
    return max(bounds, default=None)


def _high(schema: Schema) -> Fraction | None:
    bounds = [bound for key in ("maximum", "exclusiveMaximum") if (bound := _exact(schema.get(key))) is not None]
    return min(bounds, default=None)


def _step(schema: Schema, *, whole: bool) -> Fraction | None:
    step = _exact(schema.get("multipleOf"))
    if step is not None and step > 0:
        return Fraction(step.numerator) if whole else step
    return Fraction(1) if whole else None


def _plain(value: Fraction) -> int | float:
    whole = value.denominator == 1 and I64_MIN <= value <= U64_MAX
    return int(value) if whole else _double(value)


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise CannotFill("its bounds leave no number that can be sent") from None


def texts(schema: Schema, wanted: str, salt: int) -> Iterator[str]:
    """Strings in the bounds: by pattern, by format, or the wanted text cut or padded.

    Raises:
        CannotFill: a string cannot be made, or would be too long.
    """
    least, most = _length(schema, "minLength", 0), _length(schema, "maxLength", MAX_TEXT)
    if least > most:
        raise CannotFill("its lengths leave no text" if most < MAX_TEXT else "its text would be too long")
    suffix = f"-{salt}" if salt else ""
    text = wanted[: max(0, most - len(suffix))] + suffix
    plain = (text + "." * (least - len(text)))[:most]
    if isinstance(schema.get("pattern"), str):
        yield plain
        try:
            yield from texts_for(schema["pattern"], least, min(most, least + 4_096))
        except PatternUnsupported:
            raise CannotFill("its pattern is not a simple one") from None
        return
    sample = _FORMATS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if sample is not None and least <= len(sample) <= most and not salt:
        yield sample
    yield plain


def _length(schema: Schema, key: str, otherwise: int) -> int:
    value = schema.get(key)
    return min(int(value), MAX_TEXT + 1) if isinstance(value, int | float) else otherwise
