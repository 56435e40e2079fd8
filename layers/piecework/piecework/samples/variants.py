"""The plain forms of a schema: references followed, `allOf` merged, one branch of each alternative chosen.

A value for one of these forms is a proposal; the caller checks it against the schema itself.
"""

from collections.abc import Iterator
from itertools import islice, product, zip_longest
from math import lcm
from typing import Final

from piecework.jsons import Json, canonical
from piecework.schemas.references import REFERENCES, References, SchemaRejected

Schema = dict[str, Json]

MAX_ATTEMPTS: Final = 4_000  # subschemas read for one document, about 10 µs each
MAX_MERGES: Final = 40  # nested applicators followed from one subschema

MAX_BRANCHES: Final = 16  # of a `oneOf` whose branches are kept apart
MAX_OPPOSITES: Final = 4  # ways to break one branch
MAX_EXCLUSIONS: Final = 8  # tried ways to keep a value out of the other branches of a `oneOf`

_APPLICATORS: Final = (*REFERENCES, "allOf", "anyOf", "oneOf", "if", "then", "else")
_LARGEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_SMALLEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# A value that fits the second keyword breaks the first: keyword, the other keyword, the change of the bound.
_OPPOSITES: Final = (
    *(("minLength", "maxLength", -1), ("minItems", "maxItems", -1), ("minProperties", "maxProperties", -1)),
    *(("maxLength", "minLength", 1), ("maxItems", "minItems", 1), ("maxProperties", "minProperties", 1)),
    *(("minimum", "exclusiveMaximum", 0), ("maximum", "exclusiveMinimum", 0)),
    *(("exclusiveMinimum", "maximum", 0), ("exclusiveMaximum", "minimum", 0)),
)
_TYPES: Final = ("string", "object", "number", "array", "boolean", "null")
_BOTH: Final = ("items", "additionalProperties", "propertyNames", "contains", "not")
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas", "dependentRequired")


class CannotFill(ValueError):
    """A value was not found for the schema; the text names the part."""


class Forms:
    """Makes the plain forms of one document's subschemas, within one budget of attempts.

    Raises:
        CannotFill: the budget is spent, or a reference leaves the document.
    """

    def __init__(self, document: Json, draft: int) -> None:
        self._references = References(document, draft)
        self._exclusive: dict[int, tuple[list[Json], list[Json]]] = {}
        self._left = MAX_ATTEMPTS

    def of(self, schema: Json, pick: int, depth: int = 0) -> Iterator[Schema]:
        """Forms without applicators, in the written order, rotated by `pick`."""
        self._left -= 1
        if self._left < 0:
            raise CannotFill("it has too many alternatives")
        if schema is False or depth > MAX_MERGES:
            return
        if not isinstance(schema, dict):
            yield {}
            return
        own = {key: value for key, value in schema.items() if key not in _APPLICATORS}
        yield from self._combined(own, self._choices(schema, pick), pick, depth)

    def _choices(self, schema: Schema, pick: int) -> list[list[Json]]:
        """The further choices: for each applicator, the schemas of which one must be chosen."""
        choices: list[list[Json]] = []
        choices += [self._meant(schema[key]) for key in REFERENCES if isinstance(schema.get(key), str)]
        choices += [[part] for part in _list(schema, "allOf")]
        if "anyOf" in schema:
            choices.append(_rotated(_list(schema, "anyOf"), pick))
        if "oneOf" in schema:
            choices.append([*_rotated(_list(schema, "oneOf"), pick), *self._alone(_list(schema, "oneOf"))])
        if "if" in schema:
            when_true = {"allOf": [schema["if"], schema.get("then", True)]}
            choices.append(_rotated([when_true, schema.get("else", True)], pick))
        return choices

    def _combined(self, own: Schema, choices: list[list[Json]], pick: int, depth: int) -> Iterator[Schema]:
        if not choices:
            yield own
            return
        for option in choices[0]:
            for form in self.of(option, pick, depth + 1):
                yield from self._combined(merge(own, form), choices[1:], pick, depth + 1)

    def _alone(self, branches: list[Json]) -> list[Json]:
        """Each branch with schemas that keep a value out of all others; the plain branch alone may fit several."""
        if len(branches) > MAX_BRANCHES:
            return []
        known = self._exclusive.get(id(branches))
        if known is None:  # stored with its branches, so that their id is not used again
            known = self._exclusive[id(branches)] = (branches, list(_exclusive(branches)))
        return known[1]

    def _meant(self, reference: str) -> list[Json]:
        try:
            return self._references.targets(reference)
        except SchemaRejected as unknown:
            raise CannotFill(unknown.message) from None


def _list(schema: Schema, key: str) -> list[Json]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _exclusive(branches: list[Json]) -> Iterator[Json]:
    ways_out = [list(islice(_opposites(branch), MAX_OPPOSITES)) for branch in branches]
    for index, branch in enumerate(branches):
        others = ways_out[:index] + ways_out[index + 1 :]
        for ways in islice(product(*others), MAX_EXCLUSIONS):
            yield {"allOf": [branch, *ways]}


def _opposites(schema: Json) -> Iterator[Json]:
    """Schemas whose values break this one, as far as one plain keyword can say so; the plainest first."""
    if not isinstance(schema, dict):
        return
    for key, other, more in _OPPOSITES:
        if _numbers(schema.get(key)):
            yield {other: schema[key] + more}
    if isinstance(named := schema.get("type"), str | list):
        yield {"type": [kind for kind in _TYPES if kind not in types_of(named)]}
    for name in _list(schema, "required"):
        yield {"properties": {name: False}}
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        for way in _opposites(part):
            yield {"required": [name], "properties": {name: way}}
    yield {"not": schema}


def _rotated(options: list[Json], pick: int) -> list[Json]:
    start = pick % len(options) if options else 0
    return options[start:] + options[:start]


def merge(one: Schema, other: Schema) -> Schema:
    """A schema whose values fit both, if plain keywords can say so; else the second one's keyword wins."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        merged[key] = _merged(key, one[key], other[key])
    if "const" in merged and "enum" in merged:
        merged["enum"] = _common([merged["const"]], merged["enum"])
    return merged


def _merged(key: str, one: Json, other: Json) -> Json:  # noqa: PLR0911  (one return for each kind of keyword)
    if one == other and type(one) is type(other):
        return one
    if key == "type":
        return _common_types(one, other)
    if key in _LARGEST and _numbers(one, other):
        return max(one, other)
    if key in _SMALLEST and _numbers(one, other):
        return min(one, other)
    if key == "multipleOf" and isinstance(one, int) and isinstance(other, int):
        return lcm(one, other)
    if key == "required":
        return [*one, *(name for name in other if name not in one)]
    if key == "enum":
        return _common(one, other)
    if key == "prefixItems" and isinstance(one, list) and isinstance(other, list):
        return [{"allOf": [first, second]} for first, second in zip_longest(one, other, fillvalue=True)]
    if key in _BY_NAME and isinstance(one, dict) and isinstance(other, dict):
        return {**one, **other, **{name: {"allOf": [one[name], other[name]]} for name in one.keys() & other.keys()}}
    if key in _BOTH:
        return {"anyOf": [one, other]} if key == "not" else {"allOf": [one, other]}
    return other


def _numbers(*values: Json) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _common(one: Json, other: Json) -> list[Json]:
    known = {canonical(value) for value in other}
    return [value for value in one if canonical(value) in known]


def _common_types(one: Json, other: Json) -> list[str]:
    ones, others = types_of(one), types_of(other)
    shared = [name for name in ones if name in others]
    if ("integer" in ones and "number" in others) or ("number" in ones and "integer" in others):
        shared = [*shared, *(["integer"] if "integer" not in shared else [])]
    return shared


def types_of(named: Json) -> list[str]:
    """The names in a `type` keyword, one or a list."""
    return named if isinstance(named, list) else [named]
