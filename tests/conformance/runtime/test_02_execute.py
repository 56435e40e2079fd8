"""Runtime specification, cases 14-18 and 33-36: what /execute answers, and how it fails."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jsonschema
import pytest

from tests.support.runtime.requests import (
    KERNEL_SCHEMA,
    a_nonce_request,
    a_scripted_request,
    a_seed,
    an_execute_request,
    code_of,
    error_of,
    execute,
    executed,
    minimal_ok,
)
from tests.support.served import url_run

ODD_SCHEMA_SECONDS = 10  # far under the kernel's 30, on a busy machine

TYPED = {
    "type": "object",
    "required": ["text", "count", "ratio", "flag", "list", "nothing"],
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        "nothing": {"type": "null"},
    },
    "additionalProperties": False,
}
NESTED = {
    "type": "object",
    "required": ["outer"],
    "properties": {
        "outer": {
            "type": "object",
            "required": ["inner"],
            "properties": {
                "inner": {
                    "type": "object",
                    "required": ["n"],
                    "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 3}},
                }
            },
        }
    },
}
ENUM = {
    "type": "object",
    "required": ["answer", "level"],
    "properties": {"answer": {"enum": ["yes", "no"]}, "level": {"enum": [7]}},
}
MINIMUM = {
    "type": "object",
    "required": ["n", "confidence"],
    "properties": {"n": {"type": "integer", "minimum": 3}, "confidence": {"type": "number", "maximum": 0.5}},
}
FALSE_AS_INTEGER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "const": 3}}}


@pytest.mark.parametrize(
    "stage", ["EXPLORE", "DECIDE", "DIVERGE_MODE", "explore", "verify", "finalize", "EXECUTE", "banana"]
)
def test_kernel_stages(runtime, stage):
    output = executed(runtime, an_execute_request(stage=stage))["candidate_output"]

    assert jsonschema.Draft202012Validator(KERNEL_SCHEMA).is_valid(output)


@pytest.mark.inside("knows what the executor echo answers")
def test_kernel_stages_are_told_to_the_executor(runtime):
    for stage in ("EXPLORE", "DECIDE", "DIVERGE_MODE", "explore", "verify", "finalize", "EXECUTE", "banana"):
        output = executed(runtime, an_execute_request(stage=stage))["candidate_output"]
        assert output["check_summary"].startswith(f"stage={stage.lower()} ")


@pytest.mark.inside("knows what the executor echo answers")
def test_kernel_stages_diverge_from_what_was_blacklisted(runtime):
    explored = executed(runtime, an_execute_request(stage="EXPLORE"))["candidate_output"]
    diverged = executed(runtime, an_execute_request(stage="DIVERGE_MODE"))["candidate_output"]

    assert diverged["answer"] != explored["answer"]


@pytest.mark.parametrize("stage", ["DECIDE", "decide"])
def test_decide_reuses_exact_hit(runtime, stage):
    earlier = {"answer": "an earlier answer", "confidence": 0.7}

    reused = executed(runtime, an_execute_request(stage=stage, seed_bundle=a_seed(earlier)))

    assert reused["candidate_output"] == earlier


@pytest.mark.parametrize(
    "payload", [{"answer": 5}, {"confidence": 0.7}, "text", None, {"answer": "x", "confidence": "high"}], ids=json.dumps
)
def test_decide_reuses_exact_hit_only_if_it_fits(runtime, payload):
    fresh = executed(runtime, an_execute_request(stage="DECIDE", seed_bundle=a_seed(payload)))["candidate_output"]

    assert fresh != payload
    assert jsonschema.Draft202012Validator(KERNEL_SCHEMA).is_valid(fresh)


@pytest.mark.parametrize(
    ("stage", "hit_type"), [("DECIDE", "Similar"), ("EXPLORE", "Exact"), ("verify", "Exact"), ("DIVERGE_MODE", "Exact")]
)
def test_decide_reuses_exact_hit_and_nothing_else(runtime, stage, hit_type):
    earlier = {"answer": "an earlier answer"}

    answered = executed(runtime, an_execute_request(stage=stage, seed_bundle=a_seed(earlier, hit_type)))

    assert answered["candidate_output"]["answer"] != "an earlier answer"


@pytest.mark.parametrize("schema", [TYPED, NESTED, ENUM, MINIMUM, FALSE_AS_INTEGER], ids=lambda schema: "")
def test_output_valid_under_both_checks(runtime, schema):
    answer = execute(runtime, an_execute_request(schema=schema))

    assert answer.status_code == 200, answer.text
    output = answer.json()["candidate_output"]
    jsonschema.validate(output, schema, cls=jsonschema.Draft202012Validator)
    assert minimal_ok(schema, output)


def test_output_valid_under_both_checks_writes_integers_as_integers(runtime):
    by_echo = execute(runtime, an_execute_request(schema=NESTED))

    assert re.search(r'"n":3[,}]', by_echo.text)


@pytest.mark.inside("tells the executor what to do")
def test_output_valid_under_both_checks_takes_no_double_for_an_integer(runtime):
    by_hand = execute(runtime, a_scripted_request({"output": {"n": 3}}, schema=FALSE_AS_INTEGER))
    as_double = execute(runtime, a_scripted_request({"output": {"n": 3.0}}, schema=FALSE_AS_INTEGER))

    assert re.search(r'"n":3[,}]', by_hand.text)
    assert as_double.status_code == 400


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize(
    ("schema", "output"),
    [
        (TYPED, {"text": "x"}),
        (ENUM, {"answer": "maybe", "level": 7}),
        (MINIMUM, {"n": 2, "confidence": 0.1}),
        ({"required": []}, "text"),
        ({"type": "object"}, [1]),
        (True, {"answer": "x"}),
        ({}, None),
    ],
    ids=json.dumps,
)
def test_output_valid_under_both_checks_or_none(runtime, schema, output):
    answer = execute(runtime, a_scripted_request({"output": output}, schema=schema))

    assert answer.status_code == 400
    assert code_of(answer, "no_valid_output")


def test_unsatisfiable_schema_400(runtime):
    schema = {"type": "object", "required": ["x"], "properties": {"x": {"enum": []}}}
    begun = time.monotonic()

    first, second = (execute(runtime, an_execute_request(schema=schema)) for _ in range(2))

    assert [first.status_code, second.status_code] == [400, 400]
    assert "schema" in error_of(first)["error"]
    assert time.monotonic() - begun < ODD_SCHEMA_SECONDS


def an_any_of_bomb(levels):
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        False,
        "x",
        5,
        None,
        [],
        {"type": "foo"},
        {"type": 5},
        {"type": ["string", "null"]},
        {"type": ["object", "array"]},
        {"type": "integer"},
        {"required": "answer"},
        {"properties": []},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}},
        {"$ref": "#/nowhere"},
        {"$ref": "http://169.254.169.254/latest/meta-data/"},
        {"$ref": "file:///etc/passwd"},
        {"$schema": "https://example.com/own"},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "((x|x)*){50}y"}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "(?=a)b\\1"}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "a{1,100000}b{9999}"}}},
        {"type": "object", "patternProperties": {"^(([a-z])+.)+[A-Z]([a-z])+$": {"type": "integer"}}},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "minItems": 10**9},
        {"type": "object", "minProperties": 10**9},
        {"type": "number", "multipleOf": 1e-300},
        {"type": "integer", "minimum": 2**70},
        {"minimum": 5, "maximum": 4, "type": "number"},
        {"not": {}},
        an_any_of_bomb(40),
        {"allOf": [{"anyOf": [{"const": n}, {"const": n + 1}]} for n in range(30)]},
    ],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_odd_schemas(runtime, schema):
    begun = time.monotonic()

    answer = execute(runtime, an_execute_request(schema=schema))

    assert time.monotonic() - begun < ODD_SCHEMA_SECONDS
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code == 200:
        output = answer.json()["candidate_output"]
        assert minimal_ok(schema, output)
        assert jsonschema.Draft202012Validator(schema).is_valid(output)
    else:
        error_of(answer)


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize(
    "pattern_and_text", [("^(a+)+$", "a" * 50_000 + "!"), ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000)], ids=["1", "2"]
)
def test_odd_schemas_that_would_take_for_ever_on_this_output(runtime, pattern_and_text):
    pattern, text = pattern_and_text
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    begun = time.monotonic()

    answer = execute(runtime, a_scripted_request({"output": {"a": text}}, schema=schema))

    assert answer.status_code == 400
    assert time.monotonic() - begun < ODD_SCHEMA_SECONDS


class ThrottledTable(BaseHTTPRequestHandler):
    """A DynamoDB that is over its limit, always."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}'
        self.send_response(400)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def a_throttled_table():
    server = ThreadingHTTPServer(("127.0.0.1", 0), ThrottledTable)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_never_429(runtime):
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: execute(runtime, an_execute_request()), range(40)))

    assert {answer.status_code for answer in answers} <= {200, 500, 502, 503}


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize(("fail", "status"), [("retryable", 503), ("upstream", 502)])
def test_never_429_when_an_upstream_is_throttled(runtime, fail, status):
    answer = execute(runtime, a_scripted_request({"fail": fail, "text": "the model is throttled"}))

    assert answer.status_code == status
    assert error_of(answer)["code"] == {"retryable": "unavailable", "upstream": "upstream_failed"}[fail]


@pytest.mark.inside("throttles the door's table or functions")
def test_never_429_when_the_table_is_throttled(gateway):
    with a_throttled_table() as endpoint:
        runtime = gateway(fresh=True, AWS_ENDPOINT_URL=endpoint)
        answer = execute(runtime, a_nonce_request())
        runtime.close()

    assert answer.status_code == 503
    assert error_of(answer)["code"] == "unavailable"


@pytest.mark.inside("throttles the door's table or functions")
def test_never_429_when_no_environment_is_free(gateway):
    runtime = gateway(fresh=True, PIECEWORK_PARAM_ExecuteReservedConcurrency="1")

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: execute(runtime, a_nonce_request(1)), range(4)))

    runtime.close()
    assert sorted(answer.status_code for answer in answers)[0] == 200
    refused = [answer for answer in answers if answer.status_code != 200]
    assert refused
    assert all(answer.status_code in (500, 502, 503) for answer in refused)
    assert all(error_of(answer)["error"] for answer in refused)


@pytest.mark.parametrize("task_type", ["anything-an-operator-wrote", "", "SWARM", "ünïcode ☕"])
def test_unknown_task_type_served(runtime, task_type):
    """By the default executor where the operator has named one; refused, not answered by another, where not."""
    answer = execute(runtime, an_execute_request(task_type))

    if answer.status_code == 200 or not url_run.url():
        assert jsonschema.Draft202012Validator(KERNEL_SCHEMA).is_valid(answer.json()["candidate_output"])
    else:
        assert answer.status_code == 422 and code_of(answer, "task_type_unknown")


@pytest.mark.inside("knows which executor is the default")
@pytest.mark.parametrize("task_type", ["anything-an-operator-wrote", "", "SWARM", "ünïcode ☕"])
def test_unknown_task_type_served_by_the_default(runtime, task_type):
    as_swarm = executed(runtime, an_execute_request("swarm"))["candidate_output"]["answer"]

    assert executed(runtime, an_execute_request(task_type))["candidate_output"]["answer"] == as_swarm


@pytest.mark.parametrize("profile", ["nope", "Default", "", " default"])
def test_unknown_profile_422(runtime, profile):
    answer = execute(runtime, an_execute_request(profile=profile))

    assert answer.status_code == 422
    assert "profile" in error_of(answer)["error"]


def test_a2a_invoke_answers(runtime):
    inputs = {
        "request_id": "r-1",
        "target_agent_id": "agent-7",
        "capability": "summarise",
        "payload": {"text": "to be summarised"},
        "auth_proof": None,
        "payment_proof": None,
        "settlement": None,
        "signature": None,
        "protocol": "google_a2a",
    }

    output = executed(runtime, an_execute_request("a2a_invoke", inputs))["candidate_output"]

    assert isinstance(output["answer"], str)
    assert output["answer"]


PROMPT = "Our private plans for 2031"
KEY = "sk-verysecretkey0123456789"
TRACE = f'Traceback (most recent call last):\n  File "/var/task/app.py", line 3\n{KEY}'
SCRIPTS = [
    pytest.param({"fail": "bug", "text": TRACE}, {}, 500, id="bug"),
    pytest.param({"fail": "retryable", "text": "Forced Offline by POLICY today"}, {}, 503, id="phrase"),
    pytest.param({"fail": "upstream", "text": "forced  offline\nby policy"}, {}, 502, id="phrase over two lines"),
    pytest.param({"fail": "refused", "text": "too long " * 500}, {}, 400, id="long"),
    pytest.param({"fail": "refused", "text": '"☕\\' * 500}, {}, 400, id="long and escaped"),
    pytest.param({"fail": "refused", "text": "\x00\x1b[31m\u2028☕"}, {}, 400, id="control characters"),
    pytest.param({"output": {"a": KEY}}, {"properties": {"a": {"const": "k"}}}, 400, id="const"),
    pytest.param({"output": {"a": KEY}}, {"properties": {"a": {"type": "integer"}}}, 400, id="type"),
    pytest.param({"output": {"a": KEY * 9999}}, {"properties": {"a": {"pattern": "^x"}}}, 400, id="pattern"),
    pytest.param({"output": {"a": 1}}, {"properties": {"a": {"enum": [KEY, PROMPT]}}}, 400, id="enum"),
]


def test_error_text_hygiene(runtime):
    schema = {"type": "object", "required": ["x"], "properties": {"x": {"enum": []}}}

    answer = execute(runtime, an_execute_request("swarm", {"prompt": f"{PROMPT} {KEY}"}, schema=schema))

    assert answer.status_code == 400
    says_nothing_it_should_not(answer)


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize(("script", "schema", "status"), SCRIPTS)
def test_error_text_hygiene_of_failures(runtime, script, schema, status):
    request = a_scripted_request({**script, "prompt": PROMPT}, schema={"type": "object", **schema})

    answer = execute(runtime, request)

    assert answer.status_code == status, answer.text
    says_nothing_it_should_not(answer)


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda request: {**request, "profile": KEY}, 422),
        (lambda request: {**request, "task_id": {KEY: PROMPT}}, 422),
        (lambda request: {**request, "task_contract": {"output_schema": {}, "evidence_policy": KEY}}, 422),
        (lambda request: {**request, "task_contract": {"output_schema": {"type": KEY}}}, 400),
        (lambda request: {**request, "task_contract": {"output_schema": {"$ref": f"http://{KEY}.example/"}}}, 400),
        (lambda request: {**request, "task_contract": {"output_schema": {"pattern": f"({KEY}"}}}, 400),
    ],
    ids=range(6),
)
def test_error_text_hygiene_of_refused_requests(runtime, spoil, status):
    answer = execute(runtime, spoil(an_execute_request("swarm", {"prompt": PROMPT})))

    assert answer.status_code == status, answer.text
    says_nothing_it_should_not(answer)


def test_error_text_hygiene_of_what_is_not_json(runtime):
    raw = json.dumps(an_execute_request("swarm", {"prompt": PROMPT + KEY})).encode()

    answer = runtime.http.post("/execute", content=raw[:-1], headers={"content-type": "application/json"})

    assert answer.status_code == 400
    says_nothing_it_should_not(answer)


@pytest.mark.inside("reads the door's log")
def test_error_text_hygiene_of_the_log(runtime):
    request = an_execute_request("swarm", {"prompt": f"{PROMPT} {KEY} for the log"})
    executed(runtime, request)
    execute(runtime, {**request, "profile": "nope"})
    execute(runtime, {**request, "inputs": {"prompt": "other"}})

    assert f"{KEY} for the log" not in runtime.logged()


def says_nothing_it_should_not(answer):
    error_of(answer)
    text = answer.text.lower()
    for forbidden in (PROMPT, KEY, "Traceback", ".py", "/var/task", "/layers/", "forced offline by policy"):
        assert forbidden.lower() not in text


ALLOWING = [
    KERNEL_SCHEMA,
    {},
    {"type": "object"},
    {"type": "object", "required": ["decision"], "properties": {"decision": {"type": "string"}}},
    {"type": "object", "properties": {"decision": {"enum": ["BUY", "SELL"]}, "confidence": {"maximum": 0.4}}},
    {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "decision": {"type": "string"}, "confidence": {"type": "number"}},
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("schema", ALLOWING, ids=range(len(ALLOWING)))
def test_aggregation_fields(runtime, schema):
    output = executed(runtime, an_execute_request(schema=schema))["candidate_output"]

    assert isinstance(output["decision"], str)
    assert output["decision"].strip()
    assert isinstance(output["confidence"], int | float)
    assert 0 <= output["confidence"] <= 1


def test_aggregation_fields_are_left_out_where_the_schema_forbids_them(runtime):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "additionalProperties": False}

    assert set(executed(runtime, an_execute_request(schema=schema))["candidate_output"]) == {"answer"}
