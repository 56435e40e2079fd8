"""What of a schema is schema, what its references mean, and which draft it is of; data only looks like schema."""

import time

import pytest

from piecework.schemas import SchemaRejected, compile_schema
from piecework.worker.contract.schema import compile_task_schema
from tests.support.runtime.verification import Verifier

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
PLACES = {
    "const": lambda data: data,
    "default": lambda data: data,
    "enum": lambda data: [data],
    "examples": lambda data: [data],
    "x-origin": lambda data: data,
}
DATA = [
    {"id": "lamp-1"},
    {"$id": "https://shop.example/lamp"},
    {"id": "https://shop.example/", "$ref": "https://shop.example/lamp"},
    {"$anchor": "Thing", "$dynamicAnchor": "Thing"},
]


def a_shop(draft: int, **members) -> dict:
    """A schema with one reference, and a member `lamp` of whatever is asked for."""
    definitions = "definitions" if draft <= 7 else "$defs"
    thing = {"type": "object", "required": ["name"], "properties": {"id": {"type": "string"}, "name": {}}}
    properties = {"thing": {"$ref": f"#/{definitions}/Thing"}, **members}
    return {"$schema": DRAFTS[draft], definitions: {"Thing": thing}, "type": "object", "properties": properties}


def assert_judges(schema, good, bad) -> None:
    checker = compile_schema(schema)

    assert checker.is_valid(good)
    assert not checker.is_valid(bad)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("data", DATA, ids="+".join)
def test_an_identifier_or_a_reference_in_data_means_nothing(draft, place, data):
    schema = a_shop(draft, lamp={place: PLACES[place](data)})

    assert_judges(schema, {"thing": {"name": "a"}, "lamp": data}, {"thing": {}, "lamp": data})


@pytest.mark.parametrize("data", DATA, ids="+".join)
def test_a_definition_may_hold_its_examples(data):
    schema = a_shop(2020)
    schema["$defs"]["Thing"]["examples"] = [data]
    schema["x-origin"] = data

    assert_judges(schema, {"thing": {"name": "a"}}, {"thing": {}})


def test_a_right_output_under_a_schema_with_examples_passes():
    schema = a_shop(2020, lamp={"default": {"id": "me"}})

    assert Verifier().verdict({"thing": {"name": "a"}}, schema)["reason_codes"] == [100]


@pytest.mark.parametrize("data", DATA, ids="+".join)
def test_a_contracts_schema_may_hold_the_same_data(data):
    assert compile_task_schema({"const": data}).is_valid(data)


@pytest.mark.parametrize("draft", [6, 7, 2019, 2020])
def test_id_is_no_keyword_after_draft_4(draft):
    assert_judges(a_shop(draft, lamp={"id": "lamp", "type": "string"}), {"lamp": "x"}, {"lamp": 1})


def test_id_is_a_keyword_in_draft_4_alone():
    with pytest.raises(SchemaRejected, match="identifier"):
        compile_schema(a_shop(4, lamp={"id": "lamp", "type": "string"}))
    assert_judges(a_shop(4, lamp={"$id": "lamp", "type": "string"}), {"lamp": "x"}, {"lamp": 1})


@pytest.mark.parametrize("draft", [4, 6, 7])
def test_what_stands_beside_a_reference_is_ignored_up_to_draft_7(draft):
    beside = {"$ref": "#/definitions/Thing", ("id" if draft == 4 else "$id"): "https://shop.example/lamp"}

    assert_judges(a_shop(draft, lamp=beside), {"lamp": {"name": "a"}}, {"lamp": {}})


@pytest.mark.parametrize("draft", DRAFTS)
def test_an_identifier_that_a_reference_leads_to_counts_wherever_it_stands(draft):
    schema = a_shop(draft, lamp={"$ref": "#/x-lamps/0"})
    schema["x-lamps"] = [{("id" if draft == 4 else "$id"): "https://shop.example/lamp", "type": "string"}]

    with pytest.raises(SchemaRejected, match="identifier"):
        compile_schema(schema)


SPELLINGS = [
    # the document's own identifier, the reference, the definition's name
    (None, "#/$defs/Thing", "Thing"),
    (None, "#/%24defs/Thing", "Thing"),
    (None, "#%2F$defs%2FThing", "Thing"),
    (None, "#/$defs/a~1b", "a/b"),
    (None, "#/$defs/a%7E1b", "a/b"),
    (None, "#/$defs/a%7E01b", "a~1b"),
    (None, "#/$defs/a%25b", "a%b"),
    (None, "#/$defs/a%2525", "a%25"),
    (None, "#/$defs/a%20b", "a b"),
    (None, "#/$defs/a%22b", 'a"b'),
    (None, "#/$defs/%C3%A9", "é"),
    (None, "#/$defs/é", "é"),
    (None, "#/$defs/a b", "a b"),
    (None, "#/$defs/", ""),
    ("https://shop.example/a/s.json", "https://shop.example/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "./s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "../a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "//shop.example/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "HTTPS://Shop.example/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json", "https://shop.example:443/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example/a/s.json#", "https://shop.example/a/s.json#/$defs/Thing", "Thing"),
    ("https://shop.example", "https://shop.example/#/$defs/Thing", "Thing"),
    ("urn:shop:things", "urn:shop:things#/$defs/Thing", "Thing"),
    ("s.json", "s.json#/$defs/Thing", "Thing"),
    ("/s.json", "/s.json#/$defs/Thing", "Thing"),
]


@pytest.mark.parametrize(("own", "reference", "name"), SPELLINGS)
def test_a_local_reference_is_local_however_it_is_spelled(own, reference, name):
    schema = {"$defs": {name: {"type": "integer"}}, "properties": {"a": {"$ref": reference}}}

    assert_judges({"$id": own, **schema} if own else schema, {"a": 1}, {"a": "x"})


def test_an_empty_reference_is_the_document_itself():
    assert_judges({"type": "object", "properties": {"a": {"$ref": ""}}}, {"a": {}}, {"a": "x"})


@pytest.mark.parametrize(
    ("own", "reference"),
    [
        ("https://shop.example/a/s.json", "https://shop.example/s.json#/$defs/Thing"),
        ("https://shop.example/a/s.json", "http://shop.example/a/s.json"),
        ("https://shop.example/a/s.json", "https://shop.example:444/a/s.json"),
        ("https://shop.example/a/s.json", "s.json?x"),
        ("s.json", "t.json"),
        ("https://shop.example/a/s.json", "http://[not-an-address/s.json"),
        (None, "s.json"),
    ],
)
@pytest.mark.parametrize("is_used", [True, False])
def test_a_reference_to_another_document_is_refused_used_or_not(own, reference, is_used):
    schema = {"$ref": reference} if is_used else {"$defs": {"unused": {"$ref": reference}}}

    with pytest.raises(SchemaRejected, match="another document"):
        compile_schema({"$id": own, **schema} if own else schema)


@pytest.mark.parametrize(
    ("named", "draft"),
    [
        ("http://json-schema.org/draft-07/schema", 7),
        ("https://json-schema.org/draft-07/schema#", 7),
        ("http://json-schema.org/draft-07/schema#/", 7),
        ("http://json-schema.org/draft-07/schema/", 7),
        (" http://json-schema.org/draft-07/schema# ", 7),
        ("HTTP://JSON-Schema.org/draft-07/schema#", 7),
        ("http://www.json-schema.org/draft-06/schema#", 6),
        ("//json-schema.org/draft-04/schema", 4),
        ("json-schema.org/draft-04/schema#", 4),
        ("http://json-schema.org/draft/2020-12/schema#", 2020),
        ("http://json-schema.org/draft/2019-09/schema", 2019),
    ],
)
def test_a_draft_that_is_nearly_spelled_right_is_taken(named, draft):
    tuples = {"$schema": named, "type": "array", ("prefixItems" if draft == 2020 else "items"): [{"type": "string"}]}

    assert_judges(tuples, ["x"], [1])


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("draft-07", DRAFTS[7]),
        ("http://json-schema.org/draft-7/schema#", DRAFTS[7]),
        ("http://json-schema.org/draft07/schema#", DRAFTS[7]),
        ("Draft 4", DRAFTS[4]),
        ("https://json-schema.org/draft/2020-12", DRAFTS[2020]),
        ("https://json-schema.org/2020-12/schema", DRAFTS[2020]),
        ("https://json-schema.org/draft/2019-09/hyper-schema", DRAFTS[2019]),
    ],
)
def test_a_draft_that_is_spelled_farther_off_is_named(named, meant):
    with pytest.raises(SchemaRejected) as refused:
        compile_schema({"$schema": named})

    assert f'"{meant}"' in refused.value.message


@pytest.mark.parametrize("named", ["http://json-schema.org/draft-03/schema#", "http://json-schema.org/schema#", "", 7])
def test_a_draft_that_is_none_of_ours_is_refused_with_those_that_are(named):
    with pytest.raises(SchemaRejected, match="draft 4, 6, 7, 2019-09 or 2020-12"):
        compile_schema({"$schema": named})


def test_a_name_that_is_defined_often_and_used_often_costs_their_sum_and_not_their_product():
    from piecework.schemas.graph import SchemaGraph

    users = [{"$ref": "#name"} for _ in range(600)]
    graph = SchemaGraph({"items": {"allOf": users}, "$defs": {str(i): {"$anchor": "name"} for i in range(600)}})

    assert sum(len(node.in_place) for node in graph.order) < 2_000


def test_references_by_a_very_long_identifier_are_read_in_bounded_time():
    long = {"$id": "http://a/" + "a/" * 25_000 + "z", "$defs": {"a": {}}}
    started = time.process_time()

    compile_schema({**long, "properties": {"n": {"$ref": long["$id"] + "#/$defs/a"}}})
    with pytest.raises(SchemaRejected, match="another document"):
        compile_schema({**long, "properties": {str(i): {"$ref": "z#/$defs/a"} for i in range(2_000)}})
    assert time.process_time() - started < 5  # to resolve each of them takes minutes
