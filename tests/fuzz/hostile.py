"""Schemas meant to hurt, in a process of their own: `python -m tests.fuzz.hostile EXAMPLES`.

A native stack overflow or an endless check would take the whole test run with it; here it ends this process, which the
test sees. Prints how many schemas were refused and how many compiled, and the highest cost of a check that was made.
"""

import faulthandler
import json
import sys
import time
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from piecework.schemas import MAX_TEXT, SchemaRejected, compile_schema, minimal_ok
from piecework.schemas.cost import MAX_STEPS
from tests.fuzz.settled import settled

MOST_SECONDS: Final = 10  # of a processor, for one schema and value; the counted cost is what is held
WATCHDOG_SECONDS: Final = 120  # ends a hang; a busy machine may leave a process waiting for many seconds
DRAFTS: Final = [
    *(f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)),
    *(f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12", "next")),
]
NAMES: Final = ["a", "b", "c", "", "a/b", "~", "%", "\u00e9", "__proto__"]
REFERENCES: Final = [
    *("#", "#/", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#/allOf/0", "#/anyOf/1", "#a", "#b"),
    *(
        "#/%24defs/a",
        "#/$defs/a~1b",
        "#/$defs/%25",
        "x",
        "x#a",
        "",
        "https://example.com/",
        "file:///etc/passwd",
        "//h",
    ),
    *(
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "#/$defs/" + "a/" * 99,
    ),
]
PATTERNS: Final = [
    *(
        "^a+$",
        "(a+)+$",
        "(a|a)*b",
        "(.*)*x",
        "a{1000}",
        "(a{1000}){1000}",
        "((a{99}){99}){99}",
        "(?=a)",
        "(?i)a",
        "\\1",
    ),
    *("[", "(", "\\", "\\p{L}+", "[\\w-\\d]", "[^" + "\u00e9" * 99 + "]", "(" * 300 + ")" * 300, "a|" * 500, "\u0000"),
    *(
        "(?:" * 60 + "a" + ")*" * 60,
        "[a-z]{0,255}" * 9,
        "\\x{110000}",
        "(?<n>a)\\k<n>",
        "^(?!b)",
        "\ud800",
        "a" * 5_000,
    ),
]
COUNTS: Final = [0, 1, 2, 250, 2**31, 2**63, 2**64, -1, 1.5, 1e308, 10**400, "1", None, True]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=9)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int, kind: str) -> Any:
    """A value of that many containers."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "array" else {"a": value}
    return value


def keyword(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    """One keyword with a value that fits it, or one that does not."""
    named = st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    listed = st.lists(inner, max_size=4)
    texts = st.lists(st.sampled_from(NAMES), max_size=3)
    pairs = [
        (("$ref", "$dynamicRef", "$recursiveRef"), st.sampled_from(REFERENCES)),
        (("$id", "id", "$anchor", "$dynamicAnchor"), st.sampled_from([*REFERENCES, "a", "b", "#a"])),
        (("$schema",), st.sampled_from(DRAFTS)),
        (("$defs", "definitions", "properties", "dependentSchemas", "dependencies", "dependentRequired"), named),
        (("patternProperties",), st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=3)),
        (("allOf", "anyOf", "oneOf", "prefixItems", "items"), listed),
        (("items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames"), inner),
        (("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
        (("pattern", "format"), st.sampled_from(PATTERNS)),
        (("minLength", "maxLength", "minItems", "maxItems", "minProperties", "minContains"), st.sampled_from(COUNTS)),
        (("minimum", "maximum", "exclusiveMinimum", "multipleOf"), st.sampled_from(COUNTS)),
        (("required", "type", "enum"), texts | values | st.just(["object", "array", "null"])),
        (("const", "default", "examples", "uniqueItems", "$vocabulary", "\ud800"), values),
    ]
    return st.one_of([st.tuples(st.sampled_from(names), given_values) for names, given_values in pairs])


schemas = st.recursive(
    st.booleans() | st.just({}) | st.fixed_dictionaries({"$ref": st.sampled_from(REFERENCES)}),
    lambda inner: st.lists(keyword(inner), min_size=1, max_size=6).map(dict),
    max_leaves=30,
)


@st.composite
def ladders(draw: st.DrawFn) -> Any:
    """Definitions that refer to the next ones several times: small to write, endless to follow."""
    rungs, wide = draw(st.integers(1, 300)), draw(st.integers(1, 4))
    how = draw(st.sampled_from(["allOf", "anyOf", "oneOf", "properties", "items", "not"]))
    last = draw(st.sampled_from([0, rungs - 1, rungs]))  # 0 closes the circle
    made = {f"d{rung}": _rung(how, f"#/$defs/d{rung + 1}", wide) for rung in range(rungs)}
    made[f"d{rungs}"] = {"$ref": "#/$defs/d0"} if last == 0 else draw(schemas)
    return {"$ref": "#/$defs/d0", "$defs": made, **dict(draw(st.lists(keyword(st.just({})), max_size=1)))}


def _rung(how: str, reference: str, wide: int) -> Any:
    target = {"$ref": reference}
    if how == "properties":
        return {how: dict.fromkeys(NAMES[:wide], target)}
    return {how: target} if how in ("items", "not") else {how: [target] * wide}


big = st.builds(
    lambda count, part: {"properties": {f"p{index}": part for index in range(count)}},
    st.sampled_from([10, 1_000, 5_000, 30_000]),
    st.sampled_from([True, {}, {"pattern": "a+"}, {"type": "string"}, {"$ref": "#"}, {"uniqueItems": True}]),
)
deep = st.builds(nested, st.sampled_from([100, 126, 127, 128, 129, 250, 900]), st.sampled_from(["array", "object"]))
large_values = deep | st.sampled_from([list(range(5_000)), {f"p{index}": "a" for index in range(3_000)}, "a" * 50_000])


class Figures:
    """What happened in this run."""

    refused = compiled = checked = too_costly = highest = 0


def refuse(message: str) -> None:
    """A refusal says why, in few words."""
    assert 0 < len(message) <= MAX_TEXT
    Figures.refused += 1


def judge(schema: Any, value: Any) -> None:
    """Nothing but a refusal may come of a schema, and no check may be made that costs more than is allowed."""
    minimal_ok(schema, value)
    try:
        checker = compile_schema(schema)
    except SchemaRejected as refusal:
        return refuse(refusal.message)
    Figures.compiled += 1
    try:
        steps = checker._bound.check(value)
        fits = checker.is_valid(value)
        explained = checker.explain(value)
    except SchemaRejected:
        Figures.too_costly += 1
        return
    assert steps <= MAX_STEPS
    assert fits is (explained is None)
    assert explained is None or len(explained) <= MAX_TEXT
    Figures.checked += 1
    Figures.highest = max(Figures.highest, steps)


def watched(schema: Any, value: Any) -> None:
    """Judge, and end the process when it hangs."""
    faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
    started = time.process_time()
    judge(schema, value)
    faulthandler.cancel_dump_traceback_later()
    assert time.process_time() - started < MOST_SECONDS


def main(examples: int) -> None:
    """Try that many schemas with a value each."""
    faulthandler.enable()
    hostile = st.one_of(schemas, ladders(), big, deep)
    settled(examples)(given(hostile, values | large_values)(watched))()
    print(json.dumps({name: getattr(Figures, name) for name in vars(Figures) if not name.startswith("_")}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
