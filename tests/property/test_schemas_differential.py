"""Random schemas: our checker against `jsonschema`, the cost bound against the clock, and echo against both checks.

Known differences between the two validators, kept out of the generated vocabulary or allowed below:
- patterns: ours are linear-time and reject look-around; generated patterns mean the same in both;
- `multipleOf` of fractions: ours is exact on the decimal text, `jsonschema` divides doubles; only integers are drawn;
- self-references without progress: ours are refused, `jsonschema` recurses to its death; none are generated;
- values that repeat as `1` and `1.0` are equal to both, also for `uniqueItems`, `enum` and `const`.
"""

import json
import random
import time

import jsonschema
import pytest
import referencing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from piecework.errors import Refused
from piecework.extend.executors import Run
from piecework.jsons import canonical
from piecework.samples import ANY_TEXT, CannotFill, fill
from piecework.schemas import SchemaRejected, compile_schema, minimal_ok
from piecework.schemas.cost import MAX_STEPS

SLOWEST_CHECK_SECONDS = 0.25
SLOWEST_FILL_SECONDS = 2.0
NAMES = ["a", "b", "answer", "confidence"]
PATTERNS = ["^a", "b$", "^[ab]{2,3}$", "a|b", "^(ab)*$", "x"]
TYPE_NAMES = ["object", "array", "string", "number", "integer", "boolean", "null"]
GROUPS = {
    "number": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
    "length": ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"],
    "count": ["minContains", "maxContains"],
    "schema": ["items", "contains", "additionalProperties", "propertyNames"],
    "unevaluated": ["unevaluatedProperties", "unevaluatedItems"],
    "condition": ["not", "if", "then", "else"],
    "schemas": ["allOf", "anyOf", "oneOf", "prefixItems"],
    "by_name": ["properties", "dependentSchemas"],
    "by_pattern": ["patternProperties"],
    "own": ["enum", "const", "multipleOf", "pattern", "required", "dependentRequired", "uniqueItems", "$ref"],
}
SMALL = st.integers(-3, 6)
COUNTS = st.integers(0, 3)
SCALARS = (
    st.none() | st.booleans() | SMALL | st.sampled_from([0.5, 1.0, -2.5, 3.0]) | st.sampled_from(["", "a", "ab", "xyz"])
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
BOUNDED = settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))


class Draw:
    """A schema or value drawn from a seed: denser and quicker than composed strategies."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def document(self) -> dict:
        schema = self.schema(3)
        one = {"one": self.schema(0), "two": {"items": {"$ref": "#/$defs/two"}}}
        return {**(schema if isinstance(schema, dict) else {"not": schema}), "$defs": one}

    def schema(self, depth: int) -> dict | bool:
        if depth <= 0 or self.random.random() < 0.15:
            return self.random.choice([True, False, {}, *({"type": name} for name in TYPE_NAMES)])
        schema: dict = {}
        if self.random.random() < 0.6:
            schema["type"] = self.one(TYPE_NAMES) if self.random.random() < 0.8 else self.some(TYPE_NAMES, 2)
        for keyword in self.some([name for group in GROUPS.values() for name in group], self.random.randint(0, 4)):
            schema[keyword] = self.keyword(keyword, depth - 1)
        return schema

    def keyword(self, keyword: str, depth: int) -> object:
        group = next(name for name, members in GROUPS.items() if keyword in members)
        match group:
            case "number":
                return self.random.randint(-3, 6)
            case "count" | "length":
                return self.random.randint(0, 3)
            case "schema" | "condition" | "unevaluated":
                return self.schema(depth)
            case "schemas":
                return [self.schema(depth) for _ in range(self.random.randint(1, 3))]
            case "by_name":
                return {name: self.schema(depth) for name in self.some(NAMES, 2)}
            case "by_pattern":
                return {self.one(PATTERNS): self.schema(depth)}
        return {
            "enum": lambda: [self.scalar() for _ in range(3)],
            "const": self.scalar,
            "multipleOf": lambda: self.random.randint(1, 3),
            "pattern": lambda: self.one(PATTERNS),
            "required": lambda: self.some(NAMES, 2),
            "dependentRequired": lambda: {self.one(NAMES): self.some(NAMES, 1)},
            "uniqueItems": lambda: True,
            "$ref": lambda: self.one(["#/$defs/one", "#/$defs/two"]),
        }[keyword]()

    def value(self, depth: int = 3) -> object:
        kind = self.random.random()
        if depth <= 0 or kind < 0.4:
            return self.scalar()
        if kind < 0.7:
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 4))]
        return {name: self.value(depth - 1) for name in self.some(NAMES, self.random.randint(0, 4))}

    def scalar(self) -> object:
        return self.one([None, True, False, 0, 1, 3, -2, 5, 0.5, 1.0, -2.5, "", "a", "ab", "xyz"])

    def one(self, options: list) -> object:
        return self.random.choice(options)

    def some(self, options: list, count: int) -> list:
        return self.random.sample(options, count)


DRAWS = st.integers(0, 2**32).map(Draw)


def oracle(schema: object, value: object) -> bool:
    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry()).is_valid(value)


@BOUNDED
@given(DRAWS)
def test_both_validators_agree(draw):
    schema = draw.document()
    checker = compile_schema(schema)

    for value in [draw.value() for _ in range(6)]:
        assert checker.is_valid(value) is oracle(schema, value)
        assert (checker.explain(value) is None) is checker.is_valid(value)


@BOUNDED
@given(DRAWS)
def test_what_is_filled_passes_both_validators_and_the_minimal_check(draw):
    schema = draw.document()
    started = time.process_time()
    try:
        value = fill(schema, {ANY_TEXT: "prompt", "answer": "default::prompt", "confidence": 0.93})
    except CannotFill:
        return
    finally:
        assert time.process_time() - started < SLOWEST_FILL_SECONDS

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
    from tests.unit.extend.test_echo import a_task

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
BUSHES = st.integers(1, 60).map(lambda depth: _nest(depth, [])) | DRAWS.map(
    lambda draw: [draw.value() for _ in range(30)]
)


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
    from tests.unit.extend.test_echo import a_task

    try:
        output = echo(a_task(schema), Run(remaining_ms=lambda: 1_000)).output
    except (Refused, SchemaRejected):
        return
    assert minimal_ok(schema, output)
