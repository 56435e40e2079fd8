"""Random schemas: our checker against `jsonschema`, the cost bound against the clock, and echo against both checks.

Known differences between the two validators, kept out of the generated vocabulary or allowed below:
- patterns: ours are linear-time and reject look-around; generated patterns mean the same in both;
- `multipleOf` of fractions: ours is exact on the decimal text, `jsonschema` divides doubles; integers only are generated;
- self-references without progress: ours are refused, `jsonschema` recurses to its death; none are generated;
- values that repeat as `1` and `1.0` are equal to both, also for `uniqueItems`, `enum` and `const`.
"""

import json
import time

import jsonschema
import pytest
import referencing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from piecework.errors import Refused
from piecework.executors import Run
from piecework.jsons import canonical
from piecework.samples import ANY_TEXT, CannotFill, fill
from piecework.schema_cost import MAX_STEPS
from piecework.schemas import SchemaRejected, compile_schema, minimal_ok

SLOWEST_CHECK_SECONDS = 0.25
SLOWEST_FILL_SECONDS = 2.0
NAMES = st.sampled_from(["a", "b", "answer", "confidence"])
PATTERNS = st.sampled_from(["^a", "b$", "^[ab]{2,3}$", "a|b", "^(ab)*$", "x"])
SMALL = st.integers(-3, 6)
COUNTS = st.integers(0, 3)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
SCALARS = (
    st.none() | st.booleans() | SMALL | st.sampled_from([0.5, 1.0, -2.5, 3.0]) | st.sampled_from(["", "a", "ab", "xyz"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
KEYWORDS = ["$ref", "$dynamicRef", "$anchor", "$id", "id", "$schema", "type", "properties", "items", "prefixItems"]
KEYWORDS += ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "required", "enum", "const", "pattern", "minimum"]
KEYWORDS += ["patternProperties", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"]
KEYWORDS += [
    "contains",
    "minContains",
    "uniqueItems",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "multipleOf",
    "default",
]
BOUNDED = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def keywords(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Optional keywords of one subschema, each with a value of its own kind."""
    schemas = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr),
            "const": SCALARS,
            "minimum": SMALL,
            "maximum": SMALL,
            "exclusiveMinimum": SMALL,
            "exclusiveMaximum": SMALL,
            "multipleOf": st.integers(1, 3),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "pattern": PATTERNS,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "propertyNames": inner,
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
            "items": inner,
            "prefixItems": schemas,
            "contains": inner,
            "minContains": COUNTS,
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
            "allOf": schemas,
            "anyOf": schemas,
            "oneOf": schemas,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
        },
    )


def sparse(strategy: st.SearchStrategy) -> st.SearchStrategy:
    """Keep a few keywords, so that values have a chance to fit."""
    return strategy.flatmap(
        lambda schema: (
            st.sets(st.sampled_from(sorted(schema)), max_size=4).map(lambda kept: {k: schema[k] for k in kept})
            if schema
            else st.just(schema)
        )
    )


LEAVES = st.booleans() | TYPES.map(lambda name: {"type": name})
SUBSCHEMAS = st.recursive(LEAVES, lambda inner: sparse(keywords(inner)), max_leaves=6)
FLAT = TYPES.map(lambda name: {"type": name}) | st.just({"items": {"$ref": "#/$defs/one"}})
SCHEMAS = st.builds(
    lambda schema, one, two: {**schema, "$defs": {"one": one, "two": two}}, sparse(keywords(SUBSCHEMAS)), FLAT, FLAT
)


def oracle(schema: object, value: object) -> bool:
    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry()).is_valid(value)


@BOUNDED
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=4))
def test_both_validators_agree(schema, values):
    checker = compile_schema(schema)

    for value in values:
        assert checker.is_valid(value) is oracle(schema, value)
        assert (checker.explain(value) is None) is checker.is_valid(value)


@BOUNDED
@given(SCHEMAS)
def test_what_is_filled_passes_both_validators_and_the_minimal_check(schema):
    started = time.monotonic()
    try:
        value = fill(schema, {ANY_TEXT: "prompt", "answer": "default::prompt", "confidence": 0.93})
    except CannotFill:
        return
    finally:
        assert time.monotonic() - started < SLOWEST_FILL_SECONDS

    assert oracle(schema, value)
    assert minimal_ok(schema, value)
    assert json.loads(canonical(value)) == value


def typed(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Schemas as people write them for an output; each can be filled."""
    numbers = st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional={"minimum": SMALL})
    texts = st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": COUNTS, "pattern": st.just("^[ab]*$")}
    )
    objects = st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=4).flatmap(
        lambda members: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(members),
                "required": st.lists(st.sampled_from(sorted(members)), unique=True) if members else st.just([]),
                "additionalProperties": st.booleans(),
            }
        )
    )
    arrays = st.fixed_dictionaries({"type": st.just("array"), "items": inner, "minItems": COUNTS})
    choices = st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    fixed = st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values})
    return numbers | texts | objects | arrays | choices | fixed


TYPED = st.recursive(st.just({"type": "boolean"}), typed, max_leaves=12)


@BOUNDED
@given(TYPED)
def test_echo_answers_every_schema_that_people_write(schema):
    from executors.echo import echo
    from tests.unit.test_echo import a_task

    output = echo(a_task(schema), Run(remaining_ms=lambda: 1_000)).output

    assert oracle(schema, output)
    assert minimal_ok(schema, output)


REFERENCES = st.sampled_from(["#", *(f"#/$defs/{number}" for number in range(6))])


def linked(children: bool) -> st.SearchStrategy:
    """A definition that applies others, in place or to children, often twice."""
    reference = REFERENCES.map(lambda target: {"$ref": target})
    doubled = st.lists(reference, min_size=1, max_size=3)
    keys = ["items", "additionalProperties", "contains", "unevaluatedProperties"] if children else ["if", "not"]
    one = st.dictionaries(st.sampled_from(keys), reference, max_size=2)
    many = st.dictionaries(st.sampled_from(["allOf", "anyOf", "oneOf"]), doubled, max_size=2)
    return st.builds(lambda first, second: {**first, **second}, one, many)


GRAPHS = st.builds(
    lambda parts: {"$ref": "#/$defs/0", "$defs": {str(number): part for number, part in enumerate(parts)}},
    st.lists(linked(children=True) | linked(children=False), min_size=6, max_size=6),
)
BUSHES = st.integers(1, 60).map(lambda depth: _nest(depth, [])) | st.lists(VALUES, max_size=30)


def _nest(depth: int, value: object) -> object:
    for _ in range(depth):
        value = [value, {"a": value}] if len(canonical(value)) < 2_000 else [value]
    return value


@BOUNDED
@given(GRAPHS, BUSHES)
def test_an_accepted_pair_is_checked_quickly(schema, value):
    try:
        checker = compile_schema(schema)
        steps = checker._bound.check(value)
    except SchemaRejected:
        return
    started = time.process_time()
    checker.is_valid(value)

    assert steps <= MAX_STEPS
    assert time.process_time() - started < SLOWEST_CHECK_SECONDS


@BOUNDED
@given(st.dictionaries(st.sampled_from(KEYWORDS), ANY_JSON, max_size=5) | ANY_JSON, ANY_JSON)
def test_nothing_but_a_refusal_is_ever_raised(schema, value):
    try:
        checker = compile_schema(schema)
        assert (checker.explain(value) is None) is checker.is_valid(value)
        fill(schema, {})
    except (SchemaRejected, CannotFill):
        pass
    minimal_ok(schema, value)


@pytest.mark.parametrize(
    "schema", [True, {}, {"type": "object"}, {"type": "foo"}, {"$ref": "#"}, {"pattern": "(a+)+$"}, "x"]
)
def test_odd_schemas_get_an_answer_or_a_refusal(schema):
    from executors.echo import echo
    from tests.unit.test_echo import a_task

    try:
        output = echo(a_task(schema), Run(remaining_ms=lambda: 1_000)).output
    except (Refused, SchemaRejected):
        return
    assert minimal_ok(schema, output)
