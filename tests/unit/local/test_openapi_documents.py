"""What linters and generators of clients have found wanting in OpenAPI documents, held without them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from local.gateway.lambdas.variables import ROOT

DOCUMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "openapi").glob("*.json")}


@pytest.fixture(params=sorted(DOCUMENTS))
def document(request) -> Any:
    return DOCUMENTS[request.param]


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def schemas(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every object of the document that describes members."""
    if isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            yield where, value
        for name, member in value.items():
            yield from schemas(member, f"{where}/{name}")
    if isinstance(value, list):
        for place, member in enumerate(value):
            yield from schemas(member, f"{where}/{place}")


def test_a_document_says_where_its_door_is_and_under_which_licence(document):
    assert [server["url"].partition(":")[0] for server in document["servers"]] == ["http", "https"]
    assert document["info"]["license"]["identifier"] == "MIT"
    assert "MIT" in (ROOT / "LICENSE").read_text("utf-8")
    assert document["info"]["contact"]["name"]


def test_every_operation_says_what_credential_it_needs_and_what_it_is_about(document):
    named = {tag["name"] for tag in document["tags"] if tag["description"]}
    for where, operation in operations(document):
        assert "security" in operation or "security" in document, where
        assert set(operation["tags"]) <= named and operation["tags"], where
        assert operation["summary"] and operation["description"], where


def test_no_member_that_may_be_absent_is_a_constant_that_clients_cannot_be_generated_for(document):
    """`openapi-python-client` writes such a member as `!= Trueand not`, which no Python reads."""
    refused = [
        f"{where}.{name}"
        for where, schema in schemas(document)
        for name, member in schema["properties"].items()
        if "const" in member and name not in schema.get("required", [])
    ]

    assert refused == []


def test_every_reference_leads_to_a_schema_of_the_document(document):
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))) <= named


def test_every_answer_says_what_it_is_in_words_of_the_door(document):
    for where, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert answer["description"] not in ("", "Successful Response"), f"{where} {status}"


def test_an_operation_has_a_name_of_its_own(document):
    names = [operation["operationId"] for _, operation in operations(document)]

    assert len(set(names)) == len(names)
