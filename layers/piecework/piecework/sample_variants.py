"""The plain forms a schema can take: references followed, `allOf` merged, one branch of each alternative taken.

A value made for one of these forms is a proposal; whoever makes it checks it against the schema itself.
"""

from collections.abc import Iterator
from math import lcm
from typing import Final
from urllib.parse import unquote

from piecework.jsons import Json, canonical

Schema = dict[str, Json]

MAX_ATTEMPTS: Final = 4_000  # subschemas looked at for one document, about 10 µs each
MAX_MERGES: Final = 40  # applicators followed from one subschema, one inside the other

_APPLICATORS: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else")
_LARGEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_SMALLEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_BOTH: Final = ("items", "additionalProperties", "propertyNames", "contains", "not")
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas", "dependentRequired")


class CannotFill(ValueError):
    """No value was found for the schema; the text says which part."""


class Forms:
    """Makes the plain forms of one document's subschemas, within one budget of attempts.

    Raises:
        CannotFill: the budget is spent, or a reference leaves the document.
    """

    def __init__(self, document: Json) -> None:
        self._document = document
        self._left = MAX_ATTEMPTS

    def of(self, schema: Json, pick: int, depth: int = 0) -> Iterator[Schema]:
        """Forms without applicators, in the order written, rotated by `pick`."""
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
        """What else a value must fit: for each applicator, the schemas of which one is taken."""
        choices: list[list[Json]] = []
        if isinstance(schema.get("$ref"), str):
            choices.append([self._resolve(schema["$ref"])])
        choices += [[part] for part in _list(schema, "allOf")]
        choices += [_rotated(_list(schema, key), pick) for key in ("anyOf", "oneOf") if key in schema]
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

    def _resolve(self, reference: str) -> Json:
        value = self._document
        if not reference.startswith("#"):
            raise CannotFill("it refers by the document's own identifier")
        for part in unquote(reference[1:]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list):
                value = value[int(key)] if key.isdigit() and int(key) < len(value) else True
            else:
                value = value.get(key, True) if isinstance(value, dict) else True
        return value


def _list(schema: Schema, key: str) -> list[Json]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _rotated(options: list[Json], pick: int) -> list[Json]:
    start = pick % len(options) if options else 0
    return options[start:] + options[:start]


def merge(one: Schema, other: Schema) -> Schema:
    """A schema whose values fit both, where that can be said with plain keywords; else the second one's keyword."""
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
