"""The types that the console is checked with are those of the door's OpenAPI document."""

import pytest

from local.openapi.ops import document
from local.openapi.types import declarations, type_of


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "x"}, "(string)"),
        ({"type": ["integer", "null"]}, "(number | null)"),
        ({"enum": ["a", "b"]}, '("a" | "b")'),
        ({"const": "ok"}, '("ok")'),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Piece"}}, "(Array<Piece>)"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "((null) | (boolean))"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            '({ "a": (string); "b"?: unknown })',
        ),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "(Record<string, (number)>)"),
        ({"type": "object"}, "(Record<string, unknown>)"),
        ({}, "unknown"),
    ],
)
def test_a_schema_has_its_type(schema, expected):
    assert type_of(schema) == expected


def test_every_answer_of_the_door_has_a_type():
    made = declarations(document())

    for name in document()["components"]["schemas"]:
        assert f"export type {name} = " in made
