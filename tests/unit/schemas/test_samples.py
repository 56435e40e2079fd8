"""Values made for a schema: every keyword promised in docs/schemas.md, bounded, and valid under both checks."""

import time

import pytest

from piecework.jsons import canonical
from piecework.samples import ANY_TEXT, CannotFill, fill
from piecework.samples.texts import PatternUnsupported, texts_for
from piecework.schemas import SchemaRejected, compile_schema, minimal_ok

HINTS = {ANY_TEXT: "the prompt", "answer": "default::hi", "confidence": 0.93}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TIME_LIMIT_SECONDS = 2.0  # of a processor


def an_object(**properties: object) -> dict:
    return {"type": "object", "required": list(properties), "properties": properties}


def a_list(items: object, **more: object) -> dict:
    return {"type": "array", "items": items, **more}


NODE = an_object(v={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})
FILLABLE = {
    "reference": an_object(answer={"type": "string"}, confidence={"type": "number"}),
    "integer_minimum": an_object(n={"type": "integer", "minimum": 3}),
    "integer_float_bounds": an_object(n={"type": "integer", "minimum": 2.5, "maximum": 3.0}),
    "integer_between": an_object(n={"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}),
    "negative_multiple": an_object(n={"type": "integer", "maximum": -2, "multipleOf": 5}),
    "integer_of_a_fraction": an_object(n={"type": "integer", "multipleOf": 2.5, "minimum": 1}),
    "largest_integer": an_object(n={"type": "integer", "minimum": 2**64 - 1}),
    "number_in_a_gap": an_object(n={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001}),
    "number_multiple": an_object(n={"type": "number", "minimum": 0.1, "maximum": 0.2, "multipleOf": 0.05}),
    "draft_4_exclusive": {
        "$schema": DRAFT_4,
        **an_object(n={"type": "number", "minimum": 0, "exclusiveMinimum": True}),
    },
    "enum": an_object(s={"type": "string", "enum": ["low", "high"]}),
    "enum_of_mixed": an_object(s={"enum": [None, 1, {"a": []}]}),
    "const": an_object(s={"const": {"a": [1, 2.5]}}),
    "type_list": an_object(s={"type": ["null", "integer"]}),
    "nullable_root": {"type": ["null", "object"], "properties": {"answer": {"type": "string"}}},
    "lengths": an_object(s={"type": "string", "minLength": 30, "maxLength": 31}, t={"type": "string", "maxLength": 0}),
    "nested": an_object(a=an_object(b=an_object(c=a_list({"type": "boolean"}, minItems=2)))),
    "unique_strings": an_object(s=a_list({"type": "string", "minLength": 3}, minItems=4, uniqueItems=True)),
    "unique_objects": a_list(an_object(id={"type": "integer", "minimum": 1}), minItems=5, uniqueItems=True),
    "unique_enum": a_list({"enum": ["a", "b", "c"]}, minItems=3, uniqueItems=True),
    "unique_booleans": a_list({"type": "boolean"}, minItems=2, uniqueItems=True),
    "contains": a_list({"type": "integer"}, contains={"const": 7}, minContains=2, minItems=4),
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
    "draft_7_tuple": {
        "$schema": DRAFT_7,
        **a_list([{"type": "null"}], additionalItems={"type": "boolean"}, minItems=3),
    },
    "references": {"$ref": "#/$defs/n", "$defs": {"n": NODE}},
    "old_definitions": {
        "$schema": DRAFT_7,
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"$ref": "#/definitions/a"}},
        "definitions": {"a": {"type": "integer", "minimum": 9}},
    },
    "all_of": {
        "allOf": [an_object(a={"type": "integer"}), {"properties": {"a": {"minimum": 5}}}, an_object(a={"maximum": 5})]
    },
    "any_of": {"anyOf": [{"type": "object", "required": ["x"], "properties": {"x": False}}, an_object(y={"const": 1})]},
    "one_of": {
        "type": "object",
        "oneOf": [an_object(k={"const": "a"}), an_object(k={"const": "b"}, z={"type": "null"})],
    },
    "one_of_overlapping": {"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 2}]},
    "if_then": {
        **an_object(k={"enum": ["x", "y"]}),
        "if": {"properties": {"k": {"const": "x"}}},
        "then": an_object(only={"type": "boolean"}),
    },
    "if_else": {"type": "integer", "if": {"minimum": 0}, "then": False, "else": {"maximum": -5}},
    "not": an_object(a={"not": {"type": "string"}}),
    "closed": {**an_object(answer={"type": "string"}), "additionalProperties": False},
    "required_beyond_properties": {"type": "object", "required": ["a"], "additionalProperties": {"type": "integer"}},
    "pattern_properties": {
        "type": "object",
        "minProperties": 3,
        "additionalProperties": False,
        "patternProperties": {"^x[0-9]+$": {"type": "integer"}},
    },
    "property_names": {"type": "object", "minProperties": 3, "propertyNames": {"pattern": "^[a-z]+$"}},
    "max_properties": {"type": "object", "maxProperties": 1, "properties": {"answer": {}, "confidence": {}}},
    "dependent_required": {**an_object(a={}), "dependentRequired": {"a": ["b"]}},
    "dependent_schemas": {**an_object(a={}), "dependentSchemas": {"a": an_object(c={"type": "integer"})}},
    "old_dependencies": {"$schema": DRAFT_7, **an_object(a={}), "dependencies": {"a": ["b"]}},
    "default": an_object(a={"type": "string", "pattern": "^(?:[^x]|x[^y])*$", "default": "given"}),
    "examples": an_object(a={"type": "integer", "examples": ["wrong", 12]}),
    "anything": {},
    "only_required": {"required": ["a"]},
    "a_string": {"type": "string"},
    "null": {"type": "null"},
    **{
        f"format_{name}": an_object(f={"type": "string", "format": name})
        for name in ("date-time", "date", "time", "uri", "email", "uuid", "ipv4", "ipv6", "hostname", "unknown")
    },
    **{
        f"pattern_{number}": an_object(p={"type": "string", "pattern": pattern})
        for number, pattern in enumerate(
            [
                "^[A-Z]{3}-\\d{4}$",
                "^(foo|bar)+$",
                "colou?r",
                "^[^a-z ]+$",
                "^\\w+@\\w+\\.[a-z]{2,}$",
                "^(?:\\+\\d{1,3} )?\\(\\d{3}\\)$",
                "^(?<year>\\d{4})-(0[1-9]|1[0-2])$",
                "^\\S{8,}$",
                "^a.c\\s$",
                "",
            ]
        )
    },
}
UNFILLABLE = {
    "empty_enum": an_object(x={"enum": []}),
    "false": False,
    "true_fails_the_kernels_check": True,
    "crossed_bounds": {"type": "integer", "minimum": 5, "maximum": 4},
    "beyond_64_bits": {"type": "integer", "minimum": 2**64},
    "endless": {"$ref": "#/$defs/n", "$defs": {"n": an_object(next={"$ref": "#/$defs/n"})}},
    "three_booleans": a_list({"type": "boolean"}, minItems=3, uniqueItems=True),
    "unknown_type_for_the_kernel": {"required": ["a"], "type": ["array"]},
    "closed_without": {"type": "object", "required": ["a"], "additionalProperties": False},
    "huge_array": a_list({}, minItems=10**9),
    "huge_text": {"type": "string", "minLength": 10**9},
    "many_alternatives": {"anyOf": [{"anyOf": [{"enum": []}] * 60}] * 60},
    "many_dead_ends": {"allOf": [*[{"anyOf": [{}, {"minimum": number}]} for number in range(25)], {"anyOf": [False]}]},
    "wide_and_deep": {
        "$ref": "#/$defs/d0",
        "$defs": {
            **{f"d{n}": an_object(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(20)},
            "d20": {"type": "string"},
        },
    },
    "open_pattern": an_object(p={"type": "string", "pattern": "\\p{Greek}"}),
}


@pytest.mark.parametrize("name", FILLABLE)
def test_a_filled_value_passes_both_checks(name):
    schema = FILLABLE[name]

    value = fill(schema, HINTS)

    assert compile_schema(schema).explain(value) is None
    assert minimal_ok(schema, value)


@pytest.mark.parametrize("name", UNFILLABLE)
def test_what_cannot_be_filled_is_said_in_bounded_time(name):
    tries = [refused_after(UNFILLABLE[name]) for _ in range(2)]  # what else a crowded machine does is in one of them

    assert min(seconds for seconds, _ in tries) < TIME_LIMIT_SECONDS
    assert all(len(text) < 300 for _, text in tries)


def refused_after(schema):
    """How much of a processor's time it took to say that a schema cannot be filled, and what was said."""
    started = time.process_time()
    with pytest.raises(CannotFill) as refused:
        fill(schema, HINTS)
    return time.process_time() - started, str(refused.value)


def test_a_bad_schema_is_refused_as_such():
    with pytest.raises(SchemaRejected):
        fill({"type": "foo"}, HINTS)


def test_filling_is_deterministic():
    for schema in FILLABLE.values():
        assert canonical(fill(schema, HINTS)) == canonical(fill(schema, HINTS))


def test_integers_never_become_floats():
    for bounds in ({"minimum": 3.0}, {"minimum": 2.5}, {"multipleOf": 0.5, "minimum": 1}, {"maximum": -1.5}):
        assert type(fill({"type": "integer", **bounds}, {})) is int


def test_hints_are_used_where_they_fit_and_dropped_where_not():
    schema = an_object(answer={"type": "string"}, confidence={"type": "string"}, other={"type": "string"})

    assert fill(schema, HINTS) == {"answer": "default::hi", "confidence": "the prompt", "other": "the prompt"}
    assert fill(an_object(answer={"type": "string", "maxLength": 7}), HINTS) == {"answer": "default"}
    assert fill(an_object(confidence={"type": "number", "maximum": 0.5}), HINTS)["confidence"] <= 0.5


def test_optional_members_are_filled_only_when_hinted():
    schema = {"type": "object", "properties": {"answer": {"type": "string"}, "note": {"type": "string"}}}

    assert fill(schema, HINTS) == {"answer": "default::hi"}


@pytest.mark.parametrize(
    "pattern", ["(?=a)", r"(a)\1", "(a", "a)", "[a", "*", "\\p{L}", "[z-a]", "[\\d-z]{2}(", "(?i)a"]
)
def test_patterns_beyond_the_simple_ones_are_named_unsupported(pattern):
    with pytest.raises(PatternUnsupported):
        list(texts_for(pattern, 0, 10))


SATISFIABLE = {
    "one branch alone, by length": {"type": "string", "oneOf": [{"minLength": 2}, {"maxLength": 4}]},
    "one branch alone, by size": {"type": "array", "oneOf": [{"minItems": 1}, {"maxItems": 4}], "minItems": 1},
    "one branch alone, by bound": {"type": "number", "minimum": 3, "oneOf": [{"minimum": 2}, {"maximum": 4}]},
    "one branch alone, by type": {"oneOf": [{"type": ["string", "integer"]}, {"type": "string"}]},
    "one branch alone, by a member": {
        "type": "object",
        "properties": {"bar": {"type": "integer"}},
        "oneOf": [{"required": ["foo"]}, {"properties": {"bar": {"type": "string"}}}],
    },
    "a name": {"allOf": [{"$ref": "#word"}], "$defs": {"a": {"$anchor": "word", "type": "integer", "minimum": 7}}},
    "a name of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{"$ref": "#word"}],
        "definitions": {"a": {"$id": "#word", "const": 9}},
    },
    "a dynamic name": {"$dynamicRef": "#word", "$defs": {"a": {"$dynamicAnchor": "word", "const": 9}}},
    "the own identifier": {
        "$id": "https://shop.example/s.json",
        "allOf": [{"$ref": "s.json#/$defs/a"}],
        "$defs": {"a": {"const": 9}},
    },
    "an encoded pointer": {"allOf": [{"$ref": "#/$defs/a%7E1b"}], "$defs": {"a/b": {"const": 9}}},
    "items that tell branches apart": {
        "prefixItems": [{"const": "foo"}],
        "oneOf": [{"prefixItems": [True, {"const": "bar"}]}, {"prefixItems": [True, {"const": "baz"}]}],
        "unevaluatedItems": False,
    },
    "members that tell branches apart": {
        "type": "object",
        "oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}],
    },
    "an array that must hold something": {"type": "array", "not": {"maxItems": 0}, "items": {"type": "integer"}},
}


@pytest.mark.parametrize("schema", SATISFIABLE.values(), ids=SATISFIABLE)
def test_a_schema_that_some_value_fits_gets_one(schema):
    assert compile_schema(schema).is_valid(fill(schema, {}))


def test_branches_of_a_hostile_one_of_are_told_apart_within_bounds():
    members = {f"a{number}": {"minimum": number, "oneOf": [{"minimum": 1}, {"maximum": 9}]} for number in range(20)}
    branches = [{"properties": members, "const": number} for number in range(16)]

    with pytest.raises(CannotFill):
        fill({"type": "object", "allOf": [{"oneOf": branches}]}, {})
