"""Strict in, canonical out: the specification's vectors, and round trips of anything."""

import hashlib
import json
import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework import jsons
from piecework.errors import BadRequest
from piecework.jsons import I64_MIN, MAX_DEPTH_IN, U64_MAX, canonical, check_depth, digest, loads, older_canonical
from piecework.jsons.numerals import MAX_NESTING

VECTOR = (
    r'{"answer":"café ☕","big":1e+16,"confidence":0.5,"n":3,"nest":{"a":"x\ty/z","b":[1,null,true]},'
    r'"small":1e-7,"tiny":0.00001,"whole":2.0}'
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(I64_MIN, U64_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=25,
)


def shuffled(value):
    """The same value with every object's members in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def test_the_specification_vectors_have_their_lengths_and_hashes():
    assert len(canonical(loads(VECTOR))) == 137
    assert digest(loads(VECTOR)) == "c7251ba488ec017bc786af95136f55ca0b4bc944f9dfe3271a3cf42261e3f773"
    assert len(canonical({"a": "xx"})) == 10
    assert digest({"a": "xx"}) == "80d507a3c2c5a9b01f8f96b3ce454466aa6756e785a28f616fcd85f4deb1042f"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1e-5", "0.00001"),
        ("-1.25e-5", "-0.0000125"),
        ("1e-7", "1e-7"),
        ("1e-6", "1e-6"),
        ("1.5e-10", "1.5e-10"),
        ("1e16", "1e+16"),
        ("1e15", "1000000000000000.0"),
        ("1.50", "1.5"),
        ("100000.0", "100000.0"),
        ("1e-400", "0.0"),
        ("-0", "-0.0"),
        ("-0.0", "-0.0"),
        ("0", "0"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9.223372036854776e+18"),
        (r'"\u0000\u001f\"\\\/\u007f\u2028"', '"\\u0000\\u001f\\"\\\\/\x7f\u2028"'),
        (r'"\b\t\n\f\r"', r'"\b\t\n\f\r"'),
        ('{"😀":1,"z":2,"\uffff":3,"A":4}', '{"A":4,"z":2,"\uffff":3,"😀":1}'),
        ('["1e-05","9999999999999999999"]', '["1e-05","9999999999999999999"]'),
        ("[1e-5]", "[0.00001]"),
    ],
)
def test_values_are_written_as_the_kernel_writes_them(text, written):
    assert canonical(loads(text)).decode() == written


@pytest.mark.parametrize(
    "raw",
    [
        *(b"{", b"", b"\xef\xbb\xbf{}", b"{}x", b'"\xff"', b"NaN", b"[-Infinity]", b"1e400", b"[-1e999]"),
        *(b'"\\ud800"', b'{"\\udfff":1}', b'"\xed\xa0\x80"', b"[" * 10_000, b'{"a":1,"a":2}', b"9" * 5_000),
        *(b"1." + b"0" * 5_000, b"01", b"[1,]", b"'a'", b"\x00{}", b"/**/1", b'"\t"', b"{}\x00", b"\xfe\xff\x00{"),
    ],
)
def test_what_the_kernel_could_not_have_sent_is_refused(raw):
    with pytest.raises(BadRequest):
        loads(raw)


def test_surrogate_pairs_are_text():
    assert loads(r'"\ud83d\ude00"') == "😀"


@pytest.mark.parametrize(("depth", "accepted"), [(MAX_DEPTH_IN, True), (MAX_DEPTH_IN + 1, False)])
def test_depth_is_bounded_by_containers_not_by_brackets_in_strings(depth, accepted):
    raw = b'["' + b"[{" * 500 + b'\\"",' + b"[" * (depth - 1) + b"]" * depth
    if accepted:
        loads(raw)
    else:
        with pytest.raises(BadRequest):
            loads(raw)


def test_a_string_that_is_never_closed_is_read_once():
    began = time.monotonic()

    check_depth(b"[]" * 500 + b'"' + b'\\"' * 40_000, 140)

    assert time.monotonic() - began < 20  # milliseconds; minutes when each mark is taken for the beginning of a string


def test_wide_documents_are_not_deep():
    check_depth(b"[" + b"[]," * 1_000 + b"[]]", 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], "\ud800", {"a": {1, 2}}, object(), {(1,): 2}])
def test_what_is_no_json_is_not_written(value):
    with pytest.raises(ValueError):
        canonical(value)


@pytest.mark.parametrize("number", [1, 1e-7, 2**64 - 1])
def test_keys_that_python_would_write_as_text_are_text_whatever_the_value(number):
    written = canonical({1: number})

    assert loads(written) == {"1": number}


@pytest.mark.parametrize("limit", [1_000, 100_000], ids=["usual", "raised_by_a_package"])
def test_endless_nesting_is_not_written_whatever_the_recursion_limit(limit):
    endless: list = []
    endless.append({"again": endless})
    deep: list = []
    for _ in range(200_000):
        deep = [deep]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        for value in (endless, deep):
            with pytest.raises(ValueError):
                canonical(value)
    finally:
        sys.setrecursionlimit(before)
        while deep:  # taken apart by hand: letting go of it at once would recurse as deep
            deep = deep.pop()


@pytest.fixture
def raised_limit():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("write", [canonical, older_canonical])
@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "objects"])
def test_a_raised_recursion_limit_allows_a_thousand_containers(raised_limit, write, wrap):
    value = 1
    for _ in range(MAX_NESTING):
        value = wrap(value)

    write(value)
    with pytest.raises(ValueError):
        write(wrap(value))


def test_a_wide_value_is_written_without_a_walk_over_it(raised_limit, monkeypatch):
    monkeypatch.setattr(jsons, "_check_nesting", lambda value: pytest.fail("walked"))

    assert canonical([{"a": [1.5, "x"]}] * 400) == b"[" + b",".join([b'{"a":[1.5,"x"]}'] * 400) + b"]"


@given(values)
def test_reading_what_was_written_gives_the_value_back(value):
    written = canonical(value)

    assert canonical(loads(written)) == written
    assert json.loads(written) == value


@given(values)
def test_order_and_spacing_do_not_change_the_canonical_form(value):
    loose = json.dumps(shuffled(value), indent=3, ensure_ascii=True)

    assert canonical(loads(loose)) == canonical(value)
    assert digest(value) == hashlib.sha256(canonical(value)).hexdigest()


@given(st.integers(-(2**80), 2**80))
def test_integers_beyond_64_bits_become_doubles(number):
    again = loads(str(number))

    assert type(again) is (int if I64_MIN <= number <= U64_MAX else float)
    assert digest(number) == digest(again)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(raw):
    try:
        value = loads(raw)
    except BadRequest:
        return
    assert canonical(loads(canonical(value))) == canonical(value)


@given(st.text('{}[]",:\\u0123456789eE+-.dD8bcaftnrlsu \n', max_size=60))
def test_no_almost_json_crashes_the_reader(text):
    try:
        value = loads(text)
    except BadRequest:
        return
    assert canonical(loads(canonical(value))) == canonical(value)
