"""Runtime specification, cases 52, 53 and 55: deep, large and repetitive bodies."""

import json

import pytest

from tests.support.runtime.requests import (
    a_scripted_request,
    a_verify_request,
    an_event_request,
    an_execute_request,
    code_of,
    execute,
    executed,
)

JSON_HEADERS = {"content-type": "application/json"}
MIB = 1024 * 1024
FAR_TOO_DEEP = 10_000
DEEPEST_REQUEST = 140
DEEPEST_OUTPUT = 126
POSTED = {
    "/execute": lambda planted: an_execute_request("swarm", {"prompt": "hello", "planted": planted}),
    "/verify": lambda planted: a_verify_request({"answer": "x", "planted": planted}),
    "/agent-events": lambda planted: {"event": {**an_event_request()["event"], "payload": {"planted": planted}}},
}
PLANTED_AT = 3  # containers around what is planted, at its deepest place in each


def post_with(runtime, path, planted):
    """POST a request in which `planted` stands as raw JSON."""
    raw = json.dumps(POSTED[path]("here")).replace('"here"', planted)
    return runtime.http.post(path, content=raw.encode(), headers=JSON_HEADERS)


def arrays(depth):
    return "[" * depth + "]" * depth


def objects(depth):
    return '{"a":' * depth + "0" + "}" * depth


@pytest.mark.parametrize("nest", [arrays, objects])
@pytest.mark.parametrize("path", POSTED)
def test_deep_nesting(runtime, path, nest):
    fitting = post_with(runtime, path, nest(DEEPEST_REQUEST - PLANTED_AT))
    too_deep = post_with(runtime, path, nest(FAR_TOO_DEEP))

    assert fitting.status_code == 200, fitting.text
    assert too_deep.status_code == 400
    assert code_of(too_deep, "bad_request")


@pytest.mark.parametrize("body", ["[" * FAR_TOO_DEEP, '{"a":' * FAR_TOO_DEEP, "[" * MIB, arrays(FAR_TOO_DEEP)])
def test_deep_nesting_of_nothing_else(runtime, body):
    answer = runtime.http.post("/execute", content=body, headers=JSON_HEADERS)

    assert answer.status_code == 400
    assert code_of(answer, "bad_request")
    assert runtime.http.get("/health").status_code == 200


def test_deep_nesting_in_text_is_only_text(runtime):
    assert executed(runtime, an_execute_request("swarm", {"prompt": "[{" * 5_000 + '\\"'}))


@pytest.mark.inside("tells the executor what to do")
def test_deep_nesting_of_own_output(runtime):
    fitting = execute(runtime, a_scripted_request({"nested": DEEPEST_OUTPUT}))
    too_deep = execute(runtime, a_scripted_request({"nested": DEEPEST_OUTPUT + 1}))
    endless = execute(runtime, a_scripted_request({"nested": FAR_TOO_DEEP}))

    assert fitting.status_code == 200, fitting.text
    assert depth_of(fitting.json()) == DEEPEST_OUTPUT + 1
    assert [too_deep.status_code, endless.status_code] == [400, 400]
    assert code_of(too_deep, "no_valid_output")


def test_deep_nesting_of_a_schema_never_makes_a_deep_output(runtime):
    schema = {"type": "integer"}
    for _ in range(60):
        schema = {"type": "object", "required": ["a"], "properties": {"a": schema}}

    answer = execute(runtime, an_execute_request(schema=schema))

    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert depth_of(answer.json()) <= DEEPEST_OUTPUT + 1


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@pytest.mark.parametrize("path", POSTED)
def test_large_bodies(runtime, path):
    accepted = post_with(runtime, path, json.dumps("x" * MIB))
    refused = post_with(runtime, path, json.dumps("x" * (4 * MIB)))
    at_the_edge = post_with(runtime, path, json.dumps("x" * (7 * MIB)))
    over_the_edge = post_with(runtime, path, json.dumps("x" * (11 * MIB)))

    assert accepted.status_code in (200, 413)
    assert [answer.status_code for answer in (refused, at_the_edge, over_the_edge)] == [413] * 3
    assert all(code_of(answer, "too_large") for answer in (refused, at_the_edge, over_the_edge))


def test_large_bodies_of_one_mebibyte_are_executed(runtime, counted):
    request = counted.request(pad=["é" * 1_000] * 300)

    first, second = execute(runtime, request), execute(runtime, request)

    assert len(json.dumps(request, ensure_ascii=False).encode()) > MIB
    assert [first.status_code, second.status_code] == [200, 200]
    assert first.content == second.content


def test_large_bodies_without_a_length(runtime, counted):
    raw = json.dumps(counted.request()).encode()

    answer = runtime.http.post("/execute", content=iter([raw[:100], raw[100:]]), headers=JSON_HEADERS)

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("known", "twice"),
    [
        ('"stage": "EXPLORE"', '"stage": "DIVERGE_MODE", "stage": "EXPLORE"'),
        ('"task_id"', '"task_id": 5, "task_id"'),
        ('"planted": 1', '"planted": 0, "planted": 1'),
        ('"planted": 1', '"planted": 0, "pl\\u0061nted": 1'),
        ('"planted": 1', '"": 0, "": 1'),
    ],
    ids=range(5),
)
def test_duplicate_keys(runtime, known, twice):
    raw = json.dumps(POSTED["/execute"](1))
    assert known in raw

    answer = runtime.http.post("/execute", content=raw.replace(known, twice, 1), headers=JSON_HEADERS)

    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert code_of(answer, "bad_request")
