"""Small schemas that the documents of all doors are made of."""

from typing import Any, Final

Schema = dict[str, Any]

REF: Final = "#/components/schemas/{model}"
STRING: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
SHA256: Final[Schema] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}


def an_object(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    """An object schema all of whose members are required but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def path_parameter(name: str, pattern: str) -> Schema:
    """A text parameter in the path."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": pattern}}


def ref(model: str) -> Schema:
    """A reference to a named schema of the document."""
    return {"$ref": REF.format(model=model)}
