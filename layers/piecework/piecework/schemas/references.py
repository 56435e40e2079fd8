"""The schemas inside a document, their names, and the targets of their references.

Only keywords that hold subschemas are followed: values under `const`, `enum`, `default`, `examples` or an unknown
member are data, whatever they look like. `id` is a keyword of draft 4 alone, `$id` of all later drafts. A pointer may
lead anywhere in the document, and its target counts as a schema.
"""

from collections.abc import Iterator
from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import Json

LATEST_DRAFT: Final = 2020
DRAFT_4: Final = 4
DRAFT_7: Final = 7
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
OWN_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
MAX_PLACE: Final = 120  # characters of a place in a message
MAX_RESOLVED: Final = 2_048  # characters of a URI that is resolved against another; so many take 0.1 ms
MAX_NAME: Final = 60  # characters of one name in it
FRAGMENT_SIGNS: Final = "/~!$&'()*+,;=:@?-._"  # what RFC 3986 allows in a fragment besides letters and digits

_ONE: Final = frozenset(
    {
        *("not", "if", "then", "else", "contains", "propertyNames", "items", "additionalItems", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties", "contentSchema"),
    }
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}

Schema = dict[str, Json]


class SchemaRejected(BadRequest):
    """We do not validate with this schema: it is not valid, not local, or too costly. The text says which."""

    code = "schema_rejected"


def subschemas(schema: Schema) -> Iterator[Json]:
    """The direct subschemas of a schema, under the keywords that take a schema."""
    for key, value in schema.items():
        if key in _ONE and not isinstance(value, list):
            yield value
        elif key in _SEVERAL and isinstance(value, list):
            yield from value
        elif key in _NAMED and isinstance(value, dict):
            yield from value.values()


class References:
    """The names and references of one document."""

    def __init__(self, document: Json, draft: int = LATEST_DRAFT) -> None:
        self._document = document
        self._id_key = "id" if draft == DRAFT_4 else "$id"
        self._siblings_count = draft > DRAFT_7  # up to draft 7 the siblings of `$ref` are ignored
        self._anchors: dict[str, list[Schema]] = {}
        self._seen: set[int] = set()
        self.found = False
        self._has_nested_ids = False
        own = document.get(self._id_key) if isinstance(document, dict) else None
        self._own = own.partition("#")[0] if isinstance(own, str) else None
        if self._own and self._own.startswith(OWN_META_SCHEMAS):
            raise SchemaRejected("the schema uses the identifier of a JSON Schema meta-schema")
        self.note(document)

    def note(self, schema: Json) -> None:
        """Record the names in a schema and in all schemas inside it.

        Raises:
            SchemaRejected: it refers to another document, or references meet an identifier below the root.
        """
        waiting, references = [schema], list[str]()
        while waiting:
            current = waiting.pop()
            if isinstance(current, dict) and id(current) not in self._seen:
                self._seen.add(id(current))
                self._note_names(current)
                references += [current[key] for key in REFERENCES if isinstance(current.get(key), str)]
                waiting.extend(subschemas(current))
        self.found |= bool(references)
        if self.found and self._has_nested_ids:
            raise SchemaRejected("the schema mixes references with an identifier below its root; use $defs instead")
        for reference in references:
            self._fragment(reference)  # refuse it here, even if it would never be followed

    def targets(self, reference: str) -> list[Json]:
        """All parts of this document that a reference may mean.

        Raises:
            SchemaRejected: it leaves the document, or its target does not exist.
        """
        fragment = self._fragment(reference)
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise SchemaRejected("the schema refers to a name that it does not define")
            return list(self._anchors[fragment])
        target = self._at(fragment)
        self.note(target)
        return [target]

    def spelling(self, reference: str) -> str:
        """The reference as `#` and its fragment, in the one spelling that every engine reads. Raises as `targets`."""
        from urllib.parse import quote  # 4 ms of a cold start, which schemas without references save

        return "#" + quote(self._fragment(reference), safe=FRAGMENT_SIGNS)

    def _note_names(self, schema: Schema) -> None:
        for key in _ANCHORS:
            if isinstance(name := schema.get(key), str):
                self._anchors.setdefault(name, []).append(schema)
        identifier = schema.get(self._id_key)
        if not isinstance(identifier, str) or ("$ref" in schema and not self._siblings_count):
            return
        if identifier.startswith("#"):
            self._anchors.setdefault(identifier[1:], []).append(schema)
        elif schema is not self._document:
            self._has_nested_ids = True

    def _fragment(self, reference: str) -> str:
        """The fragment after `#`, decoded."""
        from urllib.parse import unquote

        uri, _, fragment = reference.partition("#")
        if uri and not (self._own and _leads_back(self._own, uri)):
            raise SchemaRejected("the schema refers to another document; only references inside it are followed")
        return unquote(fragment)

    def _at(self, pointer: str) -> Json:
        value = self._document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and _is_index(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                raise SchemaRejected("the schema refers to a part that it does not have")
        return value


def place_in(document: Json, part: Json) -> str:
    """The place of a part in a document, as messages name it: `the schema.properties.a`."""
    waiting: list[tuple[str, Json]] = [("the schema", document)]
    while waiting:
        place, value = waiting.pop()
        if value is part:
            return place
        if isinstance(value, dict):
            waiting.extend((f"{place}.{name[:MAX_NAME]}"[:MAX_PLACE], member) for name, member in value.items())
        elif isinstance(value, list):
            waiting.extend((f"{place}[{index}]"[:MAX_PLACE], item) for index, item in enumerate(value))
    return "the schema"


def _leads_back(own: str, uri: str) -> bool:
    """Whether a URI reference resolves to the document's own URI; a long one is only compared, not resolved."""
    from urllib.parse import urljoin

    try:
        return own == uri or (max(len(own), len(uri)) <= MAX_RESOLVED and _normal(urljoin(own, uri)) == _normal(own))
    except ValueError:
        return False


def _normal(uri: str) -> str:
    """A URI in the normal form of RFC 3986 section 6: case of scheme and host, default port, path."""
    from urllib.parse import urlsplit

    parts = urlsplit(uri)
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, "no port"))
    return parts._replace(netloc=host, path=parts.path or ("/" if host else "")).geturl()


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 9 and key == str(int(key))
