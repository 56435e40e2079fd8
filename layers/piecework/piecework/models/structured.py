"""The schemas that are sent to a model's endpoint as the form of its answer."""

from typing import Any, Final

from piecework.jsons import Json, canonical

FORM_NAME: Final = "candidate_output"
FORM_BYTES: Final = 16_384  # of a schema sent as a form; endpoints compile it into a grammar and refuse large ones


def is_askable(schema: Json) -> bool:
    """Whether endpoints accept a schema as a form at all: an object at the root, not too large."""
    return isinstance(schema, dict) and schema.get("type") == "object" and len(canonical(schema)) <= FORM_BYTES


def is_closed(schema: Json) -> bool:
    """Whether a schema is in the subset of strict forms: every object requires all its members and excludes others."""
    if isinstance(schema, list):
        return all(map(is_closed, schema))
    if not isinstance(schema, dict):
        return True
    if _is_open_object(schema):
        return False
    properties = schema.get("properties")
    named = list(properties.values()) if isinstance(properties, dict) else []
    return all(map(is_closed, named)) and all(is_closed(value) for key, value in schema.items() if key != "properties")


def may_hold(schema: Json, member: str) -> bool:
    """Whether an object that fits may have this member, as far as the schema's root says."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return False
    properties = schema.get("properties")
    if isinstance(properties, dict) and member in properties:
        return True
    return schema.get("additionalProperties", True) is True and schema.get("unevaluatedProperties", True) is True


def _is_open_object(schema: dict[str, Any]) -> bool:
    stated = schema.get("type")
    properties, required = schema.get("properties"), schema.get("required")
    if (
        stated != "object"
        and not (isinstance(stated, list) and "object" in stated)
        and not isinstance(properties, dict)
    ):
        return False
    names = set(properties) if isinstance(properties, dict) else set()
    listed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return schema.get("additionalProperties") is not False or listed != names
