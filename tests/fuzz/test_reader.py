"""The JSON reader against Python's own, on bodies that are nearly right."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.errors import BadRequest
from piecework.jsons import I64_MIN, MAX_DEPTH_IN, MAX_NUMBER_CHARACTERS, U64_MAX, canonical, loads
from tests.fuzz.settled import FIXED, MANY, settled

EVENTS = Path(__file__).parents[2] / "events"
TOKENS = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"true", b"false", b"0", b"-0", b"-", b"1e400"),
    *(b"1e-400", b"NaN", b"Infinity", b"-Infinity", b"01", b"1.", b".5", b"1E+2", b"0x1", b"\xef\xbb\xbf", b"\x00"),
    *(b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\\ud800", b'"\\ud83d\\ude00"'),
    *(b'"\\ud800"', b'"\\u0000"', b"9" * 19, b"-" + b"9" * 20, b"9" * 1_101, b"1." + b"0" * 1_200, b" ", b"\n", b"\t"),
    *(
        b'{"a":1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        b"[" * 140,
        b"]" * 140,
        b"[" * 141 + b"]" * 141,
        b'{"":' * 70,
        b"}" * 70,
    ),
]


class OracleRefuses(Exception):
    """What the oracle says of a document that is not to be read."""


def bodies() -> list[bytes]:
    """The bodies of the recorded events, each of them a kernel's request."""
    found = [json.loads(path.read_text("utf-8")).get("body") for path in sorted(EVENTS.glob("*/*/*.json"))]
    texts = {text for text in found if isinstance(text, str) and text.startswith("{")}
    return [text.encode() for text in sorted(texts, key=len)]


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A kernel's body, or a small document, after a few changes where its structure is."""
    raw = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        until = min(len(raw), at + draw(st.integers(0, 12)))
        cut = raw[at:until]
        put = draw(st.sampled_from(TOKENS) | st.binary(max_size=3) | st.sampled_from([b"", cut + cut, cut[::-1]]))
        raw = raw[:at] + put + raw[until:]
    return raw


SEEDS = [*bodies(), b"[]", b"{}", b'"text"', b"1.5", b'{"a":[1,{"b":null}],"c":"d"}', b"[" * 139 + b"1" + b"]" * 139]


def by_python(raw: bytes) -> Any:
    """What the standard library reads, less what the specification refuses.

    Raises:
        OracleRefuses: the document is not to be read.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_double,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:
        raise OracleRefuses from error
    _walk(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise OracleRefuses
    return dict(pairs)


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    if len(text) <= MAX_NUMBER_CHARACTERS and I64_MIN <= int(text) <= U64_MAX:
        return int(text)
    return _double(text)


def _double(text: str) -> float:
    if len(text) > MAX_NUMBER_CHARACTERS or abs(float(text)) == float("inf"):
        raise OracleRefuses
    return float(text)


def _refuse(text: str) -> None:
    raise OracleRefuses


def _walk(value: Any) -> None:
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for current in level:
            texts = [current] if isinstance(current, str) else list(current) if isinstance(current, dict) else []
            if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
                raise OracleRefuses
            below += current.values() if isinstance(current, dict) else current if isinstance(current, list) else []
        depth += any(isinstance(current, dict | list) for current in level)
        level = below
    if depth > MAX_DEPTH_IN:
        raise OracleRefuses


def agree(raw: bytes) -> bool:
    """Whether both read the same value, which survives a round trip, or both refuse."""
    try:
        expected = by_python(raw)
    except OracleRefuses:
        with pytest.raises(BadRequest):
            loads(raw)
        return True
    value = loads(raw)
    return repr(value) == repr(expected) and repr(loads(canonical(value))) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@settled(FIXED)
@given(nearly_right())
def test_the_reader_and_python_agree_on_what_is_nearly_right(raw):
    assert agree(raw)


@pytest.mark.slow
@settled(MANY)
@given(nearly_right())
def test_the_reader_and_python_agree_on_very_many(raw):
    assert agree(raw)


def test_both_sides_of_the_comparison_are_reached():
    read, refused = 0, 0
    for token in TOKENS:
        for seed in SEEDS:
            for at in {0, len(seed) // 2, len(seed)}:
                raw = seed[:at] + token + seed[at:]
                assert agree(raw)
                try:
                    loads(raw)
                    read += 1
                except BadRequest:
                    refused += 1
    assert read > 100
    assert refused > 100
