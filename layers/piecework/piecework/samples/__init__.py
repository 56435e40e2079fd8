"""Make a value that fits a schema: typed, deterministic, and bounded in work.

`fill` proposes values, the plainest first, and returns the first that passes the full check and the kernel's minimal
one. Parts that need trial and error (patterns, `oneOf`, `not`) are first checked alone, so that one wrong guess deep
inside does not spoil the whole value. Optional members are left out unless a hint names them.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from math import copysign, isfinite
from typing import Final, NamedTuple

from piecework.extend.outgoing import Unsendable, sendable
from piecework.jsons import Json, canonical
from piecework.jsons.numerals import WrittenFloat, WrittenInt, with_numbers
from piecework.samples.scalars import numbers, texts
from piecework.samples.variants import CannotFill, Forms, Schema, merge, types_of
from piecework.schemas import SchemaRejected, compile_schema, minimal_ok

__all__ = ["ANY_TEXT", "CannotFill", "fill"]

ANY_TEXT: Final = ""  # the hint for strings whose member does not have its own hint
MAX_ROOT_ATTEMPTS: Final = 8
MAX_PARTS: Final = 4_000  # subvalues proposed for one schema, all attempts together
MAX_CHECKS: Final = 300  # subvalues checked alone
MAX_DEPTH: Final = 30  # nested subvalues; deeper ones come from an endless recursion
SHALLOW: Final = 3  # nested subvalues whose alternatives are tried in the written order
MAX_TRIES: Final = 24  # proposals for one subvalue
MAX_ITEMS: Final = 2_000
MOST_DOUBLE: Final = 1.7976931348623157e308
_OBJECT_KEYS: Final = ("properties", "required", "minProperties", "additionalProperties", "patternProperties")
_ARRAY_KEYS: Final = ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems")
_STRING_KEYS: Final = ("minLength", "maxLength", "pattern", "format")
_NUMBER_KEYS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KINDS: Final = ("string", "object", "integer", "array", "boolean", "null")
_INFERRED: Final = (
    ("object", _OBJECT_KEYS),
    ("array", _ARRAY_KEYS),
    ("string", _STRING_KEYS),
    ("number", _NUMBER_KEYS),
)


class At(NamedTuple):
    """The position of a proposal: `pick` rotates alternatives, `salt` selects a different value of the same kind."""

    pick: int
    salt: int = 0
    depth: int = 0

    def deeper(self) -> "At":
        return At(self.pick, self.salt, self.depth + 1)


def fill(schema: Json, hints: Mapping[str, Json]) -> Json:
    """A value that fits the schema and uses the hints (by member name, `ANY_TEXT` for other strings) where they fit.

    Raises:
        CannotFill: a value was not found within the bounds.
        SchemaRejected: we do not validate with this schema.
    """
    checker = compile_schema(schema)
    schema = with_numbers(schema, _nearest)
    filler = _Filler(schema, hints, checker.draft)
    problem = "a value that fits all its parts was not found"
    for pick in range(MAX_ROOT_ATTEMPTS):
        try:
            for value in filler.values(schema, "", At(pick)):
                if minimal_ok(schema, value) and checker.is_valid(value) and _can_be_sent(value):
                    return value
        except CannotFill as error:
            problem = str(error)
    raise CannotFill(problem)


def _nearest(number: WrittenFloat | WrittenInt) -> int | float:
    """The nearest double to a number beyond doubles, for proposals only; the check uses the number itself."""
    if isinstance(number, WrittenInt):
        return int(number)
    return float(number) if isfinite(number) else copysign(MOST_DOUBLE, number)


def _can_be_sent(value: Json) -> bool:
    try:
        sendable(value)
    except Unsendable:
        return False
    return True


class _Filler:
    """Proposes values for one document's subschemas."""

    def __init__(self, document: Json, hints: Mapping[str, Json], draft: int) -> None:
        self._document = document
        self._hints = hints
        self._all_forms = Forms(document, draft)
        self._parts = 0
        self._checks = 0

    def values(self, schema: Json, name: str, at: At) -> Iterator[Json]:
        """Proposals for one subvalue, plainest first."""
        self._parts += 1
        if self._parts > MAX_PARTS or at.depth > MAX_DEPTH:
            raise CannotFill("it is too deep or takes too many tries")
        for form in self._forms(schema, at):
            yield from self._given(form, name, at.salt)
            if "enum" in form or "const" in form:
                continue
            for kind in self._kinds(form, at.pick):
                try:
                    yield from self._made(kind, form, name, at)
                except CannotFill:
                    if self._parts > MAX_PARTS:
                        raise

    def _forms(self, schema: Json, at: At) -> Iterator[Schema]:
        """The schema's plain forms; deep inside, the smallest forms come first, so that recursion ends."""
        forms = self._all_forms.of(schema, at.pick)
        if at.depth <= SHALLOW:
            return forms
        near = list(islice(forms, MAX_TRIES))
        return chain(sorted(near, key=_needs), forms)

    def first(self, schema: Json, name: str, at: At) -> Json:
        """The first proposal that fits the subschema, as far as it can be checked alone.

        Raises:
            CannotFill: no proposal fits.
        """
        for tries, value in enumerate(self.values(schema, name, at)):
            if tries > MAX_TRIES:
                break
            if self._fits(schema, value):
                return value
        raise CannotFill(f'a value was not found for "{name[:60]}"' if name else "one of its parts cannot be filled")

    def _fits(self, schema: Json, value: Json) -> bool:
        """Check a subvalue alone, with the document's definitions, where a guess may be wrong."""
        if not isinstance(schema, dict) or self._checks > MAX_CHECKS:
            return schema is not False
        self._checks += 1
        document = self._document if isinstance(self._document, dict) else {}
        shared = {key: document[key] for key in ("$schema", "$defs", "definitions") if key in document}
        try:
            return compile_schema({**shared, "allOf": [schema]}).is_valid(value)
        except SchemaRejected:
            return True

    def _given(self, form: Schema, name: str, salt: int) -> Iterator[Json]:
        """Values that the schema or the hints state."""
        hint = self._hints.get(name) if name else None
        allowed = [form["const"]] if "const" in form else form.get("enum")
        if isinstance(allowed, list):
            if "const" in form and "enum" in form and not form["enum"]:
                return
            known = {canonical(value) for value in allowed}
            if hint is not None and canonical(hint) in known:
                yield hint
            start = salt % len(allowed) if allowed else 0
            for value in allowed[start:] + allowed[:start]:
                yield value
                if isinstance(value, float) and value.is_integer():
                    yield int(value)  # equal to the validator, and an integer to the kernel
            return
        if hint is not None and not salt and _is_kind(hint, form):
            yield hint
        if "default" in form and not salt:
            yield form["default"]
        if isinstance(form.get("examples"), list):
            yield from form["examples"][salt : salt + 3]

    def _kinds(self, form: Schema, pick: int) -> list[str]:
        if "type" in form:
            kinds = sorted(types_of(form["type"]), key=lambda kind: kind == "null")
        else:
            likely = [kind for kind, keys in _INFERRED if any(key in form for key in keys)]
            kinds = likely + [kind for kind in _KINDS if kind not in likely]
        start = pick % len(kinds) if kinds else 0
        return kinds[start:] + kinds[:start]

    def _made(self, kind: str, form: Schema, name: str, at: At) -> Iterator[Json]:
        hint = self._hints.get(name) if name else None
        match kind:
            case "object":
                yield from self._grown(self._object, form, "required", list(form.get("properties", ())), at)
            case "array":
                placed = _placed(form)
                yield from self._grown(self._array, form, "minItems", len(placed) if placed else 1, at)
            case "string":
                wanted = hint if isinstance(hint, str) else self._hints.get(ANY_TEXT)
                yield from texts(form, wanted if isinstance(wanted, str) else "text", at.salt)
            case "integer" | "number":
                yield from numbers(form, whole=kind == "integer", wanted=None if at.salt else hint, salt=at.salt)
            case "boolean":
                yield from (at.salt % 2 == 0, at.salt % 2 == 1)
            case "null":
                yield None

    def _grown(
        self, make: Callable[[Schema, At], Json], form: Schema, key: str, wanted: Json, at: At
    ) -> Iterator[Json]:
        """The smallest value, and one with all named members, because an optional member may distinguish branches."""
        least = make(form, at)
        yield least
        if at.depth <= SHALLOW:
            whole = make(merge(form, {key: wanted}), at)
            if whole != least:
                yield whole

    def _object(self, form: Schema, at: At) -> Json:
        form = _with_dependents(form)
        properties: Schema = form.get("properties", {})
        names = [name for name in form.get("required", []) if isinstance(name, str)]
        most = form.get("maxProperties", MAX_ITEMS)
        members = {name: self._member(form, name, at) for name in names}
        wished = [name for name in self._hints if name in properties]
        for name in [*wished, *(properties if len(members) < form.get("minProperties", 0) else ())]:
            enough = len(members) >= form.get("minProperties", 0) and name not in wished
            if name not in members and len(members) < most and not enough:
                self._add_optional(members, form, name, at)
        self._add_others(members, form, at)
        return members

    def _add_optional(self, members: Schema, form: Schema, name: str, at: At) -> None:
        try:
            members[name] = self._member(form, name, at)
        except CannotFill:
            if self._parts > MAX_PARTS:
                raise

    def _add_others(self, members: Schema, form: Schema, at: At) -> None:
        """Add members until there are enough: names by pattern first, then plain ones."""
        least = min(form.get("minProperties", 0), MAX_ITEMS)
        for count in range(2 * int(least) + 8):
            if len(members) >= least:
                return
            for source in [*({"pattern": text} for text in form.get("patternProperties", {})), {}]:
                wanted = merge(source, form["propertyNames"]) if isinstance(form.get("propertyNames"), dict) else source
                name = self._name({"default": f"member{count}", "type": "string", **wanted}, members, at)
                if name is not None and len(members) < least:
                    self._add_optional(members, form, name, at)

    def _name(self, schema: Schema, taken: Schema, at: At) -> str | None:
        for value in self.values(schema, "", at.deeper()):
            if isinstance(value, str) and value not in taken and self._fits(schema, value):
                return value
        return None

    def _member(self, form: Schema, name: str, at: At) -> Json:
        properties = form.get("properties", {})
        schemas = [properties[name]] if name in properties else []
        for pattern, schema in form.get("patternProperties", {}).items():
            if compile_schema({"pattern": pattern}).is_valid(name):
                schemas.append(schema)
        if not schemas:
            schemas.append(form.get("additionalProperties", form.get("unevaluatedProperties", True)))
        schema = schemas[0] if len(schemas) == 1 else {"allOf": schemas}
        return self.first(schema, name, at.deeper())

    def _array(self, form: Schema, at: At) -> Json:
        items: list[Json] = []
        seen: set[bytes] = set()
        contains = int(form.get("minContains", 1)) if "contains" in form else 0
        length = max(int(form.get("minItems", 0)), contains)
        if length > min(form.get("maxItems", MAX_ITEMS), MAX_ITEMS):
            raise CannotFill("its array would be too long")
        for index in range(length):
            schema = _item_schema(form, index)
            if index >= length - contains:
                schema = {"allOf": [form["contains"], schema]}
            place = At(at.pick, at.salt + index if form.get("uniqueItems") is True else 0, at.depth + 1)
            items.append(self._item(schema, place, seen if form.get("uniqueItems") is True else None))
        return items

    def _item(self, schema: Json, at: At, seen: set[bytes] | None) -> Json:
        """An item that fits, and that is new if items must differ."""
        for extra in range(1 if seen is None else MAX_TRIES):
            for value in self.values(schema, "", At(at.pick, at.salt + extra, at.depth)):
                if (seen is None or canonical(value) not in seen) and self._fits(schema, value):
                    if seen is not None:
                        seen.add(canonical(value))
                    return value
        raise CannotFill("its items cannot be filled")


def _needs(form: Schema) -> float:
    return len(form.get("required", ())) + float(form.get("minItems", 0)) + float(form.get("minProperties", 0))


def _placed(form: Schema) -> list[Json]:
    """The schemas of the first items, one for each position."""
    items = form.get("items", True)
    return items if isinstance(items, list) else form.get("prefixItems", [])


def _item_schema(form: Schema, index: int) -> Json:
    items, placed = form.get("items", True), _placed(form)
    if index < len(placed):
        return placed[index]
    return form.get("additionalItems", True) if isinstance(items, list) else items


def _with_dependents(form: Schema) -> Schema:
    """Members that the required ones require in turn, as far as plain keywords say so."""
    for key in ("dependentRequired", "dependentSchemas", "dependencies"):
        needed = form.get(key)
        for name, more in needed.items() if isinstance(needed, dict) else ():
            if name in form.get("required", []):
                extra = {"required": more} if isinstance(more, list) else more
                form = merge(form, extra) if isinstance(extra, dict) else form
    return form


def _is_kind(value: Json, form: Schema) -> bool:
    return "type" not in form or any(minimal_ok({"type": kind}, value) for kind in types_of(form["type"]))
