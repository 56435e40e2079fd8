"""Small schemas that the documents of all doors are made of."""

from collections.abc import Mapping
from typing import Any, Final

from piecework import __version__

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


def info(title: str, description: str) -> Schema:
    """What a document is about, who answers for it, and under which licence."""
    return {
        "title": title,
        "version": __version__,
        "description": description,
        "license": {"name": "MIT", "identifier": "MIT"},
        "contact": {"name": "The Piecework authors"},
    }


def servers(port: int) -> list[Schema]:
    """Where a door answers: under `make run`, and as it is deployed."""
    deployed = {
        "api": {"default": "abcde12345", "description": "the API's id, from the stack's outputs"},
        "region": {"default": "eu-central-1"},
        "stage": {"default": "prod"},
    }
    return [
        {"url": f"http://127.0.0.1:{port}", "description": "make run"},
        {
            "url": "https://{api}.execute-api.{region}.amazonaws.com/{stage}",
            "description": "a deployed stack",
            "variables": deployed,
        },
    ]


def tagged(paths: Mapping[str, Schema], page: str) -> dict[str, Schema]:
    """The paths' operations, each under the tag that is the path's first word, with the page that describes it."""
    return {
        path: {
            method: {"description": f"More in {page}.", **operation, "tags": [_tag(path)]}
            for method, operation in operations.items()
        }
        for path, operations in paths.items()
    }


def tags(paths: Mapping[str, Schema], described: Mapping[str, str]) -> list[Schema]:
    """Every tag of the paths, which is their first word, as it is described."""
    return [{"name": name, "description": described[name]} for name in sorted({_tag(path) for path in paths})]


def _tag(path: str) -> str:
    return path.removeprefix("/v0").split("/")[1]
