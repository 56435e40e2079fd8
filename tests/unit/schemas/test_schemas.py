"""Schemas from strangers: what is checked, what is refused, and what the texts may say."""

import threading
import time
from decimal import Decimal

import pytest

from piecework.jsons import loads
from piecework.schemas import MAX_SCHEMA_BYTES, MAX_TEXT, SchemaRejected, compile_schema, minimal_ok
from piecework.schemas.patterns import pattern_positions

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
SECRET = "a value nobody else may read"


def doubling(steps: int, keyword: str = "anyOf") -> dict:
    definitions = {
        f"d{step}": {keyword: [{"$ref": f"#/$defs/d{step + 1}"}, {"$ref": f"#/$defs/d{step + 1}"}]}
        for step in range(steps)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{steps}": {"type": "string"}}}


def chain(links: int, last: dict) -> dict:
    definitions = {f"d{link}": {"$ref": f"#/$defs/d{link + 1}"} for link in range(links)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{links}": last}}


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("schema", ["x", 5, None, [], 1.5, object(), {"a": object()}])
def test_only_objects_and_booleans_are_schemas(schema):
    with pytest.raises(SchemaRejected):
        compile_schema(schema)


def test_true_takes_everything_and_false_nothing():
    assert compile_schema(True).is_valid(1)
    assert not compile_schema(False).is_valid(1)
    assert compile_schema({}).is_valid(None)


@pytest.mark.parametrize("draft", DRAFTS)
def test_known_drafts_are_honoured(draft):
    checker = compile_schema({"$schema": draft, "type": "integer"})

    assert checker.is_valid(1)
    assert not checker.is_valid("1")


def test_draft_4_reads_exclusive_bounds_as_booleans():
    assert not compile_schema({"$schema": DRAFTS[0], "minimum": 3, "exclusiveMinimum": True}).is_valid(3)


def test_without_a_draft_it_is_2020_12():
    assert not compile_schema({"prefixItems": [{"type": "string"}]}).is_valid([1])
    with pytest.raises(SchemaRejected):
        compile_schema({"items": [{"type": "string"}]})


@pytest.mark.parametrize("name", ["http://json-schema.org/draft-03/schema#", "https://example.com/mine", 5, ""])
def test_an_unknown_draft_is_refused(name):
    with pytest.raises(SchemaRejected, match=r"\$schema"):
        compile_schema({"$schema": name})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "foo"},
        {"required": "a"},
        {"minItems": 1.5},
        {"properties": []},
        {"properties": {"a": 5}},
        {"minimum": "x"},
        {"$id": "::::"},
        {"$ref": "#/x", "x": {"type": "foo"}},
    ],
)
def test_what_is_no_json_schema_is_refused(schema):
    with pytest.raises(SchemaRejected) as refused:
        compile_schema(schema)

    assert len(refused.value.message) <= MAX_TEXT


@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/schema",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "other.json#/a",
        "https://json-schema.org/draft/2020-12/schema",
        "#/nope",
        "#nope",
        "#/list/01",
    ],
)
def test_references_are_followed_inside_the_document_only(reference):
    with pytest.raises(SchemaRejected, match="refers"):
        compile_schema({"$ref": reference, "$defs": {"a/b": {}}, "list": [{}, {}]})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "x", 1),
        ({"$ref": "#a", "$defs": {"q": {"$anchor": "a", "type": "string"}}}, "x", 1),
        ({"$dynamicRef": "#a", "$defs": {"q": {"$dynamicAnchor": "a", "type": "string"}}}, "x", 1),
        ({"$id": "https://me.example/s", "$ref": "https://me.example/s#/$defs/a", "$defs": {"a": False}}, None, 1),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, "x", 1),
        ({"$ref": "#/$defs/a%7E1b", "$defs": {"a/b": {"type": "string"}}}, "x", 1),
        ({"$ref": "#/x/0", "x": [{"type": "string"}]}, "x", 1),
        ({"type": "object", "properties": {"next": {"$ref": "#"}}}, {"next": {"next": {}}}, {"next": 1}),
        ({"$schema": DRAFTS[3], "items": {"$recursiveRef": "#"}, "type": "array"}, [[[]]], [1]),
        ({"$schema": DRAFTS[2], "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}, "x", 1),
    ],
)
def test_local_references_work(schema, good, bad):
    checker = compile_schema(schema)

    assert not checker.is_valid(bad)
    assert good is None or checker.is_valid(good)


def test_identifiers_below_the_root_and_references_do_not_mix():
    with pytest.raises(SchemaRejected, match="identifier"):
        compile_schema({"$ref": "b", "$defs": {"b": {"$id": "b"}}})
    assert compile_schema({"properties": {"a": {"$id": "b", "type": "string"}}}).is_valid({"a": "x"})


def test_a_schema_cannot_pose_as_a_meta_schema():
    with pytest.raises(SchemaRejected, match="identifier"):
        compile_schema({"$id": DRAFTS[4], "$ref": DRAFTS[4]})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicRef": "#a", "$dynamicAnchor": "a"},
    ],
)
def test_endless_self_references_are_refused(schema):
    with pytest.raises(SchemaRejected, match="itself"):
        compile_schema(schema)


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(", "[", "(a{900}){900}", r"\p{L}{900}", "(?x)a"])
def test_patterns_the_linear_engine_cannot_run_are_refused(pattern):
    with pytest.raises(SchemaRejected, match="regular expression"):
        compile_schema({"properties": {"a": {"pattern": pattern}}})


def test_a_backtracking_trap_is_harmless():
    started = time.process_time()

    assert not compile_schema({"pattern": "^(a+)+$"}).is_valid("a" * 5_000 + "b")
    assert time.process_time() - started < 5


def test_format_is_not_asserted():
    assert compile_schema({"format": "email"}).is_valid("no address")
    assert compile_schema({"format": "no such format"}).is_valid("x")


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("steps", [24, 60, 900])
def test_doubling_references_are_refused_before_they_run(keyword, steps):
    started = time.process_time()
    with pytest.raises(SchemaRejected):
        compile_schema(doubling(steps, keyword)).is_valid(1)
    assert time.process_time() - started < 5


def test_doubling_at_every_level_of_the_value_is_refused():
    schema = {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}

    assert compile_schema(schema).is_valid(nested(5))
    with pytest.raises(SchemaRejected, match="steps"):
        compile_schema(schema).is_valid(nested(60))


def test_recursion_without_doubling_is_free():
    schema = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
        "additionalProperties": {"$ref": "#"},
    }
    value: dict = {}
    for _ in range(60):
        value = {"left": value, "right": {}, "other": {}}

    assert compile_schema(schema).is_valid(value)


def test_chains_that_would_overflow_the_native_stack_are_refused():
    with pytest.raises(SchemaRejected):
        compile_schema(chain(500, {}))

    checker = compile_schema(chain(200, {"items": {"$ref": "#"}}))
    assert checker.is_valid(nested(20))
    with pytest.raises(SchemaRejected, match="deep"):
        checker.is_valid(nested(130))


def test_the_deepest_pair_allowed_survives_on_a_small_stack():
    previous = threading.stack_size(8 << 20)
    answers = []
    checker = compile_schema(chain(100, {"allOf": [{"items": {"$ref": "#"}}]}))
    worker = threading.Thread(target=lambda: answers.append(checker.explain(nested(70))))
    worker.start()
    worker.join()
    threading.stack_size(previous)

    assert answers == [None]


def test_unevaluated_members_with_many_alternatives_are_refused():
    started = time.process_time()
    with pytest.raises(SchemaRejected, match="unevaluated"):
        compile_schema({**doubling(14), "unevaluatedProperties": False})
    assert time.process_time() - started < 5


def test_sizes_and_depths_are_bounded():
    deep: dict = {}
    for _ in range(200):
        deep = {"items": deep}
    endless: dict = {}
    endless["items"] = endless

    for schema in (
        {"const": "x" * MAX_SCHEMA_BYTES},
        deep,
        endless,
        {"enum": list(range(20_001))},
        {"anyOf": [{"pattern": str(number)} for number in range(200)]},
        {"pattern": "[ab]{90}" * 250},
    ):
        with pytest.raises(SchemaRejected):
            compile_schema(schema)


@pytest.mark.parametrize("value", [nested(300), "\ud800", object(), {1: 2}, {"a": {1, 2}}, Decimal(1)])
def test_values_that_are_no_json_do_not_fit_or_are_refused(value):
    checker = compile_schema({"type": ["string", "boolean"]})
    try:
        assert not checker.is_valid(value)
        assert checker.explain(value)
    except SchemaRejected:
        assert isinstance(value, list)


def test_explanations_name_path_and_keyword_but_never_the_value():
    schema = {
        "type": "object",
        "required": ["b"],
        "additionalProperties": False,
        "properties": {
            "a": {"properties": {"b": {"items": {"type": "integer"}}}},
            "b": {"enum": ["x"]},
            "c": {"maxLength": 3},
        },
    }
    checker = compile_schema(schema)

    assert checker.explain({"b": "x"}) is None
    assert checker.explain({}) == 'output lacks the required member "b"'
    assert checker.explain({"b": "x", "a": {"b": [1, 2, SECRET]}}) == "output.a.b[2] is not of type integer"
    for value in ({"b": SECRET}, {"b": "x", "c": SECRET}, {"b": "x", SECRET: 1}, [SECRET], SECRET):
        text = checker.explain(value)
        assert text
        assert SECRET not in text
        assert len(text) <= MAX_TEXT


def test_an_expensive_failure_is_told_without_detail():
    assert compile_schema(doubling(16)).explain(1) == "output does not fit the schema"


def test_long_names_are_shortened_in_texts():
    checker = compile_schema({"required": ["n" * 5_000]})

    assert len(checker.explain({}) or "") <= MAX_TEXT


def test_a_schema_changed_after_compiling_does_not_change_its_checker():
    schema = {"type": "object", "required": ["a"]}
    checker = compile_schema(schema)
    schema["required"].append("b")

    assert checker.is_valid({"a": 1})
    assert not compile_schema(schema).is_valid({"a": 1})


def test_the_same_schema_is_compiled_once():
    first = compile_schema({"type": "object", "required": ["once"]})

    assert compile_schema({"required": ["once"], "type": "object"}) is first


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("1", True),
        ("1.0", False),
        ("1e2", False),
        ("-0", False),
        ("9007199254740993", True),
        ("18446744073709551615", True),
        ("18446744073709551616", False),
        ("-9223372036854775808", True),
        ("-9223372036854775809", False),
        ("null", False),
        ("true", False),
    ],
)
def test_the_kernels_integer_is_written_without_point_or_exponent(text, fits):
    schema = {"properties": {"n": {"type": "integer"}}}

    assert minimal_ok(schema, loads('{"n":' + text + "}")) is fits
    assert minimal_ok({"type": "integer"}, loads(text)) is fits


def test_integers_beyond_64_bits_fail_also_when_python_made_them():
    assert not minimal_ok({"type": "integer"}, 2**64)
    assert not minimal_ok({"type": "integer"}, -(2**63) - 1)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (True, {}, False),
        (False, {}, False),
        ("x", {}, False),
        ({"required": []}, "x", False),
        ({"required": ["a"]}, {"a": None}, True),
        ({"required": ["a"]}, {}, False),
        ({"required": [5]}, {}, True),
        ({"required": "a"}, "x", True),
        ({"type": ["string", "null"]}, 5, True),
        ({"enum": ["a"]}, "b", True),
        ({}, None, True),
        ({"type": "foo"}, {}, False),
        ({"type": "number"}, True, False),
        ({"type": "number"}, 1, True),
        ({"type": "number"}, 1.0, True),
        ({"type": "boolean"}, 0, False),
        ({"type": "null"}, None, True),
        ({"type": "array"}, [], True),
        ({"type": "array"}, {}, False),
        ({"properties": {"a": {"type": "foo"}}}, {"a": 1}, False),
        ({"properties": {"a": {"type": "foo"}}}, {}, True),
        ({"properties": {"a": {"type": ["foo"]}}}, {"a": 1}, True),
        ({"properties": {"a": {"type": "object", "required": ["b"]}}}, {"a": {}}, True),
        ({"properties": {"a": True}}, {"a": 1}, True),
        ({"properties": []}, {"a": 1}, True),
        ({"properties": {"a": {"type": "string"}}}, [1], True),
    ],
)
def test_the_minimal_check_knows_three_keywords(schema, value, fits):
    assert minimal_ok(schema, value) is fits


@pytest.mark.parametrize(
    ("pattern", "positions"),
    [
        ("abc", 3),
        ("[a-z]+x?", 2),
        ("(ab){10}", 20),
        ("((a{3}){4}b){5}", 65),
        (r"\d{2,7}", 7),
        ("a{b}", 4),
        ("a{,4}", 4),
    ],
)
def test_pattern_positions_unroll_counted_repetitions(pattern, positions):
    assert pattern_positions(pattern) == positions
