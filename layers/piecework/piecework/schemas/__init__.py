"""JSON Schema from strangers, checked safely: bounded in size, depth, regular expressions and evaluation steps.

`jsonschema_rs` decides, offline and with its linear-time regular expressions; `schemas.graph` and `schemas.cost` refuse
schemas that would make it slow or overflow its stack. `format` is an annotation and is not checked. Texts name paths
and keywords, never a value. A known `$schema` (drafts 4, 6, 7, 2019-09, 2020-12) is used; without one it is 2020-12.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from threading import Lock
from typing import Final, NamedTuple

import jsonschema_rs

from piecework.jsons import I64_MIN, U64_MAX, Json, canonical
from piecework.jsons.numerals import PYTHON_DIGITS, WrittenFloat, exact, holds_written, read_double, with_numbers
from piecework.schemas.cost import CostBound
from piecework.schemas.dialects import dialect_of
from piecework.schemas.graph import NOT_RUN, SchemaGraph, SchemaRejected

__all__ = ["Checker", "Problem", "SchemaRejected", "compile_schema", "minimal_ok"]

MAX_SCHEMA_BYTES: Final = 131_072  # canonical; a contract cannot hold more
REGEX_BYTES: Final = 262_144  # compiled size of one pattern; larger ones take over 2 ms each to build
CACHED_CHECKERS: Final = 64
CACHED_SCHEMA_BYTES: Final = 16_384  # larger schemas are rare, and 64 of them would hold much memory
EXPLAINED_STEPS: Final = 20_000  # explaining gathers every failed alternative, at 2 to 4 µs each
MAX_TEXT: Final = 300  # characters of a message
MAX_PATH: Final = 200
MAX_NAME: Final = 60  # characters shown of one member's name
_TYPE_NAMES: Final = {dict: "object", list: "array", str: "string", type(None): "null"}


class Problem(NamedTuple):
    """Why a value does not fit; shows names and places, never a value.

    `path` leads to the place; under `required` its last part is the missing member. `expected` is what the keyword
    requires there. `text` is a sentence with shortened names, only for people.
    """

    path: tuple[str | int, ...]
    keyword: str
    expected: str
    text: str


class Checker:
    """One compiled schema; made by `compile_schema`, shared between calls."""

    def __init__(self, validator: jsonschema_rs.Validator, bound: CostBound, draft: int) -> None:
        self.draft = draft
        self._validator = validator
        self._bound = bound

    def is_valid(self, value: Json) -> bool:
        """Whether the value fits the schema; a value that is not JSON never fits.

        Raises:
            SchemaRejected: checking this value would take too many steps.
        """
        self._bound.check(value)
        return self._fits(_whole(value))

    def explain(self, value: Json) -> str | None:
        """The sentence of `problem`, or None when the value fits. Raises SchemaRejected as `problem`."""
        found = self.problem(value)
        return found and found.text

    def problem(self, value: Json, name: str = "output") -> Problem | None:
        """The place and keyword where the value fails, or None when it fits; the sentence calls the value `name`.

        Raises:
            SchemaRejected: checking this value would take too many steps.
        """
        steps = self._bound.check(value)
        value = _whole(value)
        if self._fits(value):
            return None
        if steps > EXPLAINED_STEPS and self._bound.has_alternatives:
            return Problem((), "", "", f"{name} does not fit the schema")
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _problem(name, error, value)
        except ValueError:
            return Problem((), "", "a JSON value", f"{name} is not a JSON value")
        return None

    def _fits(self, value: Json) -> bool:
        try:
            return self._validator.is_valid(value)
        except ValueError:  # a lone surrogate or a foreign type
            return False


_checkers: OrderedDict[bytes, Checker] = OrderedDict()
_checkers_lock = Lock()


def compile_schema(schema: Json) -> Checker:
    """The checker of a schema; recently used small schemas are cached.

    Raises:
        SchemaRejected: we do not validate with this schema; the text says why.
    """
    if not isinstance(schema, dict | bool):
        raise SchemaRejected("the schema must be a JSON object, true or false")
    try:
        key = canonical(schema)
    except ValueError:
        raise SchemaRejected("the schema is not a JSON value or is nested too deep") from None
    if len(key) > MAX_SCHEMA_BYTES:
        raise SchemaRejected(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    with _checkers_lock:
        if key in _checkers:
            _checkers.move_to_end(key)
            return _checkers[key]
    checker = _compile(key)
    if len(key) <= CACHED_SCHEMA_BYTES:
        with _checkers_lock:
            _checkers[key] = checker
            if len(_checkers) > CACHED_CHECKERS:
                _checkers.popitem(last=False)
    return checker


def minimal_ok(schema: Json, value: Json) -> bool:
    """The WattSwarm kernel's own and only check: top-level `type`, `required`, and the types of `properties`."""
    if not isinstance(schema, dict):
        return False
    named = schema.get("type")
    if isinstance(named, str) and not _is_of(named, value):
        return False
    required = schema.get("required")
    if isinstance(required, list) and not (
        isinstance(value, dict) and all(key in value for key in required if isinstance(key, str))
    ):
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(value, dict):
        return True
    return all(_member_ok(properties[key], member) for key, member in value.items() if key in properties)


def _member_ok(schema: Json, value: Json) -> bool:
    named = schema.get("type") if isinstance(schema, dict) else None
    return not isinstance(named, str) or _is_of(named, value)


def _is_of(named: str, value: Json) -> bool:
    if isinstance(value, bool):
        return named == "boolean"
    if isinstance(value, int):
        return named == "number" or (named == "integer" and I64_MIN <= value <= U64_MAX)
    if isinstance(value, float):  # also `-0`, which only newer kernels count as an integer
        return named == "number"
    return named == _TYPE_NAMES.get(type(value))


def _compile(key: bytes) -> Checker:
    document = _copy(key)
    dialect = dialect_of(document)
    bound = CostBound(SchemaGraph(document, dialect.draft))
    options = jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES, dfa_size_limit=4 * REGEX_BYTES)
    try:
        validator = dialect.validator(
            document, validate_formats=False, offline=True, mask="the value", pattern_options=options
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaRejected(_refusal(error)) from None
    except ValueError:
        raise SchemaRejected("the schema cannot be read") from None
    return Checker(validator, bound, dialect.draft)


def _copy(key: bytes) -> Json:
    """A private copy with exact numbers, because the caller may change the original."""
    try:
        return json.loads(key, parse_float=_number)
    except ValueError:
        raise SchemaRejected(f"the schema holds a number of over {PYTHON_DIGITS} characters") from None


def _number(text: str) -> float | Decimal:
    if len(text) > PYTHON_DIGITS:
        raise ValueError("a number is too long")
    value = read_double(text)
    return exact(value) if isinstance(value, WrittenFloat) else value


def _whole(value: Json) -> Json:
    """The value with each number in a plain type that holds it exactly, as the validator reads numbers."""
    return with_numbers(value, exact) if holds_written(value) else value


def _refusal(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    place = _path("the schema", error.instance_path)
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Referencing):
        return "the schema holds a reference or identifier that cannot be resolved inside it"
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format == "regex":
        return f"{place} {NOT_RUN}"[:MAX_TEXT]
    return f"{place} is not valid JSON Schema ({kind.name})"[:MAX_TEXT]


def _problem(name: str, error: jsonschema_rs.ValidationError, value: Json) -> Problem:
    kind, path = error.kind, _exact(error, value)
    place = _path(name, path)
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        text = f'{place} lacks the required member "{_brief(kind.property)}"'
        return Problem((*path, kind.property), "required", "a value", text[:MAX_TEXT])
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
        types = " or ".join(kind.types)
        return Problem(path, "type", types, f"{place} is not of type {types}"[:MAX_TEXT])
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
        return Problem(path, "false", "nothing", f"{place} is not allowed"[:MAX_TEXT])
    return Problem(path, kind.name, f'"{kind.name}"', f'{place} does not satisfy "{kind.name}"'[:MAX_TEXT])


def _exact(error: jsonschema_rs.ValidationError, value: Json) -> tuple[str | int, ...]:
    """The error's place with the value's own names: the engine reads `7` and `007` as 7, and drops empty names."""
    path: list[str | int] = []
    for part in error.instance_path:
        while isinstance(value, dict) and _name_of(part, value) not in value and "" in value:
            path.append("")
            value = value[""]
        path.append(_name_of(part, value))
        try:
            value = value[path[-1]]
        except (KeyError, IndexError, TypeError):
            return tuple(path)
    while isinstance(value, dict) and "" in value and value != error.instance:
        path.append("")
        value = value[""]
    return tuple(path)


def _name_of(part: str | int, value: Json) -> str | int:
    if not isinstance(part, int) or not isinstance(value, dict):
        return part
    return next((name for name in value if name.isdecimal() and int(name) == part), str(part))


def _path(start: str, parts: Sequence[str | int]) -> str:
    shown = start
    for part in parts:
        shown += f"[{part}]" if isinstance(part, int) else f".{_brief(part)}"
        if len(shown) > MAX_PATH:
            return shown[:MAX_PATH] + "…"
    return shown


def _brief(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…"
