"""The drafts of JSON Schema that we support, and the one that a schema names.

A `$schema` that differs from a draft's URI only in scheme, case or the signs at its end means that draft. Any other is
refused, with the URI that its author probably meant.
"""

import re
from typing import Final, NamedTuple

import jsonschema_rs

from piecework.jsons import Json
from piecework.schemas.references import SchemaRejected


class Dialect(NamedTuple):
    """A draft of JSON Schema: its number, its URI and its validator."""

    draft: int
    uri: str
    validator: type[jsonschema_rs.Validator]


DIALECTS: Final = (
    Dialect(4, "http://json-schema.org/draft-04/schema#", jsonschema_rs.Draft4Validator),
    Dialect(6, "http://json-schema.org/draft-06/schema#", jsonschema_rs.Draft6Validator),
    Dialect(7, "http://json-schema.org/draft-07/schema#", jsonschema_rs.Draft7Validator),
    Dialect(2019, "https://json-schema.org/draft/2019-09/schema", jsonschema_rs.Draft201909Validator),
    Dialect(2020, "https://json-schema.org/draft/2020-12/schema", jsonschema_rs.Draft202012Validator),
)
_NEAR_URI: Final = re.compile(
    r"(?:https?:)?(?://)?(?:www\.)?(.*?)[/#]*", re.IGNORECASE
)  # the parts that may be spelled differently
_DRAFT_NAME: Final = re.compile(r"(?:draft[-_/ ]?v?0*(4|6|7)|(2019)|(2020))(?![0-9])", re.IGNORECASE)


def dialect_of(document: Json) -> Dialect:
    """The draft that a document names, or the latest; sets its `$schema` to the draft's own spelling.

    Raises:
        SchemaRejected: it names an unknown draft.
    """
    if not isinstance(document, dict) or "$schema" not in document:
        return DIALECTS[-1]
    named = document["$schema"]
    near = _near(named) if isinstance(named, str) else ""
    found = next((dialect for dialect in DIALECTS if _near(dialect.uri) == near), None)
    if found is None:
        raise SchemaRejected(_unknown(named))
    document["$schema"] = found.uri
    return found


def _near(uri: str) -> str:
    found = _NEAR_URI.fullmatch(uri.strip())
    return found[1].lower() if found else ""


def _unknown(named: Json) -> str:
    meant = _DRAFT_NAME.search(named) if isinstance(named, str) else None
    if meant is None:
        return "the schema names an unknown $schema; use JSON Schema draft 4, 6, 7, 2019-09 or 2020-12"
    draft = int(next(filter(None, meant.groups())))
    uri = next(dialect.uri for dialect in DIALECTS if dialect.draft == draft)
    return f'the schema names an unknown $schema; write "{uri}", or leave it out for 2020-12'
