"""What the runtime door's functions answer, as API Gateway gets it: codes, replays, ids, and events made by hand."""

import re
from pathlib import Path

import pytest

from kernel.http.events import repaired
from piecework.errors import BadRequest
from piecework.extend.executors import Refused
from piecework.runtime.door import STATUS
from piecework.worker.door import raw_json, serve
from tests.support.runtime.agent_events import a_station, an_event
from tests.support.runtime.flows import FlowBench, answering
from tests.support.runtime.runtime_handlers import Context, Lines, runtime_function

NOT_RUN = ["(?i)abc", "^(?>a)$", "(?=a)", "(?<!a)b", r"(a)\1", "["]
IDS = ["task_id", "execution_id", "attempt_id"]
UNTEXTED = [{"task_id": "t"}, ["a"], 5, True]


def refusing(task, run):
    raise Refused("inputs.prompt is too vague")


@pytest.fixture
def bench():
    return FlowBench(answering())


@pytest.fixture
def door(bench):
    with runtime_function("execute", execute=bench.flow, clock=bench.clock) as function:
        yield function


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "https://example.com/s.json"}, {"type": "string", "pattern": "(?i)x"}, "x", {"$schema": "draft-07"}],
)
def test_a_refused_schema_has_its_own_code(door, bench, schema):
    answer = door.send(bench.body(schema=schema))

    assert (answer["statusCode"], answer["json"]["code"]) == (400, "schema_rejected")


@pytest.mark.parametrize("pattern", NOT_RUN)
@pytest.mark.parametrize("under", ["pattern", "patternProperties"])
def test_a_pattern_that_is_not_run_is_refused_with_its_place_and_the_reason(door, bench, pattern, under):
    inner = {"pattern": pattern} if under == "pattern" else {"patternProperties": {pattern: {}}}
    answer = door.send(bench.body(schema={"type": "object", "properties": {"name": inner}}))

    error = answer["json"]["error"]
    assert answer["statusCode"] == 400
    assert error.startswith(f"the schema.properties.name.{under}")
    assert "an unsupported regular expression" in error
    assert "inline flags, atomic groups" in error


@pytest.mark.parametrize("work", [refusing, answering({"no": "answer"})], ids=["refused", "no_valid_output"])
def test_a_recorded_refusal_says_that_it_was_recorded(work):
    bench = FlowBench(work)
    with runtime_function("execute", execute=bench.flow, clock=bench.clock) as door:
        first, second = door.send(bench.body()), door.send(bench.body())

    assert (first["statusCode"], first["body"]) == (second["statusCode"], second["body"])
    assert first["statusCode"] == 400
    assert "X-Piecework-Replayed" not in first["headers"]
    assert second["headers"]["X-Piecework-Replayed"] == "true"
    assert [line["replayed"] for line in door.lines.outcomes] == [False, True]


def test_a_recorded_refusal_of_an_event_says_that_it_was_recorded():
    station = a_station(lambda event, run: refusing(None, run))
    with runtime_function("agent_events", events=station.events, clock=station.clock) as door:
        first, second = door.send(an_event()), door.send(an_event())

    assert first["json"] == second["json"]
    assert first["json"]["code"] == "refused"
    assert "X-Piecework-Replayed" not in first["headers"]
    assert second["headers"]["X-Piecework-Replayed"] == "true"
    assert [line["replayed"] for line in door.lines.outcomes] == [False, True]


@pytest.mark.parametrize("name", IDS)
def test_an_empty_id_is_refused_by_name(door, bench, name):
    answer = door.send({**bench.body(), name: ""})

    assert (answer["statusCode"], answer["json"]["code"]) == (422, "unprocessable")
    assert answer["json"]["error"].startswith(f"{name}: ")
    assert bench.tasks == []


def test_an_event_without_an_id_is_refused_by_name():
    with runtime_function("agent_events") as door:
        answer = door.send(an_event(event_id=""))

    assert answer["statusCode"] == 422
    assert answer["json"]["error"].startswith("event.event_id: ")


@pytest.mark.parametrize("name", ["execute", "verify", "agent_events"])
@pytest.mark.parametrize("body", UNTEXTED, ids=repr)
@pytest.mark.parametrize("is_base64", [True, False])
def test_a_test_event_whose_body_is_no_text_is_told_so(name, body, is_base64):
    with runtime_function(name) as door:
        answer = door.send(None, body=body, isBase64Encoded=is_base64)

    assert (answer["statusCode"], answer["json"]["code"]) == (400, "bad_request")
    assert "one string" in answer["json"]["error"]
    assert door.lines.bugs == []


@pytest.mark.parametrize(
    "members",
    [
        {"headers": "content-type: application/json"},
        {"headers": None, "multiValueHeaders": {"content-type": "application/json"}},
        {"pathParameters": "p"},
        {"queryStringParameters": ["a"]},
        {"requestContext": "prod"},
        {"requestContext": {"authorizer": "c"}},
    ],
    ids=repr,
)
def test_a_test_event_with_members_of_another_kind_is_answered(door, bench, members):
    answer = door.send(bench.body(), **members)

    assert answer["statusCode"] in (200, 401, 415)
    assert door.lines.bugs == []


@pytest.mark.parametrize("event", [{}, [], "text", None, {"key1": "value1"}], ids=repr)
def test_a_test_event_that_is_no_request_finds_nothing(door, event):
    assert door.handle(event, Context())["statusCode"] == 404


@pytest.mark.parametrize("body", UNTEXTED, ids=repr)
@pytest.mark.parametrize("is_base64", [True, False])
def test_the_other_doors_tell_the_same(body, is_base64):
    headers = {"Content-Type": "application/json"}
    event: dict = {"resource": "/execute", "path": "/execute", "httpMethod": "POST", "headers": headers, "body": body}
    lines = Lines()

    event["isBase64Encoded"] = is_base64
    answer = serve("hire", lambda request: raw_json(request, 100), event, Context(), lines)

    assert answer["statusCode"] == 400
    assert "one string" in answer["body"]
    assert lines.bugs == []
    with pytest.raises(BadRequest, match="one string"):
        repaired(event)


def test_the_page_lists_each_code_under_its_status():
    page = (Path(__file__).parents[3] / "docs" / "runtime" / "execute.md").read_text("utf-8")
    rows = re.findall(r"^\| ([0-9, ]+) \| (`[^|]+`) \|", page, re.MULTILINE)
    listed = {code: statuses for statuses, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}

    assert {code for code in STATUS if code != "policy_binding_invalid"} == listed.keys() - {"internal"}
    for code, statuses in listed.items():
        assert str(STATUS.get(code, 500)) in statuses, code
