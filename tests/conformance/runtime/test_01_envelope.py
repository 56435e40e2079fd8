"""Runtime specification, cases 1-13: paths, methods, bodies, credentials, over real HTTP."""

import base64
import hmac
import importlib
import json
import os
import sys
import time
from unittest import mock
from urllib.parse import quote

import httpx
import pytest

from piecework.edge.tokens import caller_of, parse_tokens
from tests.support.runtime.requests import (
    EVENTS,
    KERNEL_HEADERS,
    a_verify_request,
    an_event_request,
    an_execute_request,
    code_of,
    error_of,
    execute,
    executed,
    speak,
)
from tests.support.runtime.verification import Context

POSTED = {
    "/execute": an_execute_request,
    "/verify": lambda: a_verify_request({"answer": "x"}),
    "/agent-events": an_event_request,
}
ENDPOINTS = [("GET", "/health"), ("GET", "/capabilities"), *(("POST", path) for path in POSTED)]
EXECUTE_MEMBERS = (
    *("task_id", "execution_id", "task_type", "inputs", "profile", "task_contract", "stage", "attempt_id"),
)
VERIFY_MEMBERS = ("candidate", "output_schema", "policy")


def send_alone(runtime, method, path, headers):
    """A request with these headers and no credential but theirs."""
    body = {"json": POSTED[path]()} if method == "POST" else {}
    return httpx.request(method, runtime.url + path, **body, headers=headers, timeout=60, trust_env=False)


def post_bytes(runtime, body, **headers):
    return runtime.http.post("/execute", content=body, headers={"content-type": "application/json", **headers})


def test_health_ok(runtime):
    answer = runtime.http.get("/health")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}


@pytest.mark.inside("starts a door that is cold, or is set otherwise")
def test_health_ok_also_cold(gateway):
    cold = gateway(fresh=True)
    begun = time.monotonic()

    first = cold.http.get("/health")

    assert time.monotonic() - begun < 5
    begun = time.monotonic()
    second = cold.http.get("/health")
    assert time.monotonic() - begun < 1
    cold.close()
    assert [first.status_code, second.status_code] == [200, 200]
    assert first.json() == second.json() == {"status": "ok"}


def test_capabilities_shape(runtime):
    answer = runtime.http.get("/capabilities")

    capabilities = answer.json()
    assert answer.status_code == 200
    assert set(capabilities) == {"task_types", "profiles", "provider_family", "model_id"}
    assert all(isinstance(name, str) for name in capabilities["task_types"] + capabilities["profiles"])
    assert "swarm" in capabilities["task_types"]
    assert "default" in capabilities["profiles"]
    assert capabilities["provider_family"].strip()
    assert capabilities["model_id"].strip()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("POST", "/nope", 404, "not_found"),
        ("POST", "/execute/", 404, "not_found"),
        ("GET", "/health/", 404, "not_found"),
        ("POST", "/Execute", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/execute", 405, "method_not_allowed"),
        ("DELETE", "/verify", 405, "method_not_allowed"),
        ("PUT", "/agent-events", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("POST", "/capabilities", 405, "method_not_allowed"),
    ],
)
def test_unknown_path_404_wrong_method_405(runtime, method, path, status, code):
    answer = runtime.http.request(method, path)

    assert answer.status_code == status
    assert code_of(answer, code)
    if status == 405:
        assert answer.headers["allow"] == ("GET" if path in ("/health", "/capabilities") else "POST")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda raw: b"{", id="half an object"),
        pytest.param(lambda raw: b"", id="nothing"),
        pytest.param(lambda raw: b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(lambda raw: b"{}x", id="trailing letter"),
        pytest.param(lambda raw: b"\xff", id="not UTF-8"),
        pytest.param(lambda raw: b"\xef\xbb\xbf" + raw, id="byte order mark before a request"),
        pytest.param(lambda raw: raw + b"x", id="trailing letter after a request"),
        pytest.param(lambda raw: raw + b"{}", id="two documents"),
        pytest.param(lambda raw: raw[:-1], id="request without its end"),
        pytest.param(lambda raw: raw.replace(b'"default"', b'"\xff\xfe"'), id="request that is not UTF-8"),
        pytest.param(lambda raw: raw.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(lambda raw: b"[" + raw + b"]", id="array"),
        pytest.param(lambda raw: b"null", id="null"),
        pytest.param(lambda raw: raw[:-1] + b",}", id="trailing comma"),
        pytest.param(lambda raw: b"/* */" + raw, id="comment"),
    ],
)
def test_malformed_json_400(runtime, counted, broken):
    request = counted.request()

    answer = post_bytes(runtime, broken(json.dumps(request).encode()))

    assert answer.status_code == 400
    assert code_of(answer, "bad_request")
    counted.are(request, 0)


@pytest.mark.parametrize("bad", ["NaN", "-Infinity", "Infinity", "1e", ".5", r'"\ud800"', r'"\udc00\ud800"'])
@pytest.mark.parametrize("place", ["inputs", "schema", "unknown"])
def test_nonfinite_and_surrogates_400(runtime, counted, bad, place):
    request = counted.request()
    where = {"inputs": request["inputs"], "schema": request["task_contract"]["output_schema"], "unknown": request}
    where[place]["planted"] = "here"

    answer = post_bytes(runtime, json.dumps(request).replace('"here"', bad, 1).encode())

    assert answer.status_code == 400
    assert code_of(answer, "bad_request")
    counted.are(request, 0)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1.50", "1" * 2_000])
@pytest.mark.parametrize("place", ["inputs", "schema", "unknown"])
def test_numbers_beyond_doubles_are_read(runtime, counted, number, place):
    request = counted.request()
    where = {"inputs": request["inputs"], "schema": request["task_contract"]["output_schema"], "unknown": request}
    where[place]["planted"] = "here"

    answer = post_bytes(runtime, json.dumps(request).replace('"here"', number, 1).encode())

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("name", "media_type", "status"),
    [
        ("content-type", "text/plain", 415),
        ("content-type", "application/x-www-form-urlencoded", 415),
        ("content-type", "application/jsonp", 415),
        ("content-type", "application/json", 200),
        ("content-type", "application/json; charset=utf-8", 200),
        ("content-type", "application/json;charset=UTF-8", 200),
        ("content-type", "Application/JSON", 200),
        ("CONTENT-TYPE", "application/json", 200),
        ("cOnTeNt-TyPe", "application/json", 200),
        ("x-no-type", "at all", 415),
    ],
)
def test_wrong_content_type_415(runtime, name, media_type, status):
    body = json.dumps(an_execute_request()).encode()
    headers = {name: media_type, "content-length": str(len(body))}

    heard = speak(runtime, "POST", "/execute", headers, body)

    assert heard.status == status
    if status == 415:
        assert json.loads(heard.body).get("code", "unsupported_media_type") == "unsupported_media_type"


@pytest.mark.parametrize(
    ("path", "member"),
    [*(("/execute", name) for name in EXECUTE_MEMBERS), *(("/verify", name) for name in VERIFY_MEMBERS)],
)
def test_missing_each_required_field(runtime, path, member):
    request = POSTED[path]()
    del request[member]

    answer = runtime.http.post(path, json=request)

    assert answer.status_code in (400, 422)
    assert member in error_of(answer)["error"]


@pytest.mark.parametrize("seed", [{}, {"seed_bundle": None}], ids=["absent", "null"])
def test_missing_each_required_field_but_the_seed(runtime, seed):
    request = an_execute_request()
    del request["seed_bundle"]

    assert execute(runtime, {**request, **seed}).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_id": 5},
        {"execution_id": None},
        {"attempt_id": ["a"]},
        {"task_type": True},
        {"profile": 1.5},
        {"stage": None},
        {"task_contract": []},
        {"task_contract": "x"},
        {"task_contract": {}},
        {"task_contract": {"output_schema": {}, "evidence_policy": 5}},
        {"task_contract": {"output_schema": {}, "budget": {"verify_cost_units": -1}}},
        {"seed_bundle": "seed"},
        {"seed_bundle": []},
    ],
    ids=json.dumps,
)
def test_wrong_types(runtime, counted, wrong):
    request = {**counted.request(), **wrong}

    answer = execute(runtime, request)

    assert answer.status_code in (400, 422)
    assert next(iter(wrong)) in error_of(answer)["error"]


@pytest.mark.parametrize("inputs", [[1], "text", 5, None, True, {"prompt": 5}, {"prompt": None}], ids=json.dumps)
def test_wrong_types_of_inputs_are_answered_without_a_prompt(runtime, inputs):
    with_none = executed(runtime, an_execute_request("swarm", {}))["candidate_output"]["answer"]

    assert executed(runtime, an_execute_request("swarm", inputs))["candidate_output"]["answer"] == with_none


def test_unknown_fields_ignored(runtime):
    plain = an_execute_request()
    first = execute(runtime, plain)
    contract = plain["task_contract"]
    more = {"extra": {"deep": [1]}}
    levels = ("budget", "assignment", "acceptance", "evidence_policy")
    extended = {**plain, **more, "task_contract": {**contract, **more, **{k: {**contract[k], **more} for k in levels}}}

    second = execute(runtime, extended)

    assert first.status_code == second.status_code == 200
    assert second.content == first.content


def basic(name, secret):
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


CREDENTIALS = [
    (lambda name, secret: None, 401),
    (lambda name, secret: basic(name, "wrong"), 401),
    (basic, 200),
    (lambda name, secret: f"Bearer {secret}", 200),
]
ODD_CREDENTIALS = [
    (lambda name, secret: basic(name, ""), 401),
    (lambda name, secret: basic("other", secret), 401),
    (lambda name, secret: basic(name, quote(secret, safe="") + "%2F"), 401),
    (lambda name, secret: "Basic %%%", 401),
    (lambda name, secret: f"Digest {secret}", 401),
    (lambda name, secret: basic(name, secret).replace("Basic", "basic"), 200),
]


@pytest.mark.needs("TOKEN")
@pytest.mark.parametrize(
    ("method", "path", "header", "status"),
    [
        *((*endpoint, *credential) for endpoint in ENDPOINTS for credential in CREDENTIALS),
        *(("GET", "/health", *credential) for credential in ODD_CREDENTIALS),
    ],
)
def test_basic_auth(guarded, known, method, path, header, status):
    value = header(*known)

    answer = send_alone(guarded, method, path, {} if value is None else {"authorization": value})

    assert answer.status_code == status
    if status == 401:
        assert code_of(answer, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert known[1] not in answer.text


@pytest.mark.inside("knows the door's own secret")
def test_basic_auth_of_the_specifications_example(guarded):
    for value, status in (("Basic cnVudGltZTpzM2NyZXQvKw==", 200), (basic("runtime", "s3cret%2F%2B"), 401)):
        assert send_alone(guarded, "GET", "/health", {"authorization": value}).status_code == status


@pytest.mark.needs("TOKEN")
def test_basic_auth_from_a_percent_encoded_base_url(with_credential):
    answer = httpx.post(f"{with_credential}/execute", json=an_execute_request(), timeout=30, trust_env=False)

    assert answer.status_code == 200


@pytest.mark.needs("TOKEN")
def test_basic_auth_guards_unknown_paths_too(guarded):
    assert send_alone(guarded, "GET", "/nope", {}).status_code == 401


@pytest.mark.inside("looks into the door's own code")
def test_basic_auth_compares_every_secret_in_constant_time():
    with mock.patch.object(hmac, "compare_digest", wraps=hmac.compare_digest) as compared:
        found = caller_of("Bearer s3cret/+", parse_tokens("runtime=s3cret/+,other=another-secret"))

    assert found == "runtime"
    assert [call.args[1] for call in compared.call_args_list] == [b"s3cret/+", b"another-secret"]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_no_user_agent_no_accept_encoding(runtime, method, path):
    body = json.dumps(POSTED[path]()).encode() if method == "POST" else b""
    stated = {**KERNEL_HEADERS, "content-length": str(len(body))} if method == "POST" else {"accept": "*/*"}

    heard = speak(runtime, method, path, stated, body)

    assert heard.status == 200
    assert "content-encoding" not in heard.headers
    assert heard.headers["content-type"] == "application/json"
    assert len(heard.body) == int(heard.headers["content-length"])
    assert isinstance(json.loads(heard.body), dict)


def test_docs_execute_example_verbatim(runtime):
    event = json.loads((EVENTS / "runtime" / "execute" / "docs.json").read_text())
    raw = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()

    answer = post_bytes(runtime, raw)

    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"candidate_output", "evidence_inline", "evidence_refs"}
    assert isinstance(body["candidate_output"]["answer"], str)
    assert isinstance(body["candidate_output"]["confidence"], int | float)
    allowed = json.loads(raw)["task_contract"]["evidence_policy"]["inline_mime_allowlist"]
    assert all(item["mime"] in allowed for item in body["evidence_inline"])


@pytest.fixture(scope="module")
def invoke(embedded_aws, runtime):
    """The execute function's handler in this process, over the table and bucket the gateway uses."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    names = {"TABLE": "piecework-results", "BUCKET": "piecework-local", "RUNTIME_PUBLIC_URL": runtime.url}
    names["DEFAULT_EXECUTOR"] = "echo"
    ours = {f"PIECEWORK_{name}": value for name, value in names.items()}
    environment = {**kept, **embedded_aws.variables, **ours, "POWERTOOLS_METRICS_NAMESPACE": "Piecework"}
    with mock.patch.dict(os.environ, environment, clear=True):
        sys.modules.pop("runtime.execute.app", None)
        yield importlib.import_module("runtime.execute.app").handler


def an_event(body, path="/execute", *, encoded=False):
    return {
        "resource": "/execute",
        "path": path,
        "httpMethod": "POST",
        "headers": {"Content-Type": "application/json"},
        "requestContext": {"authorizer": {"caller": "anonymous"}, "apiId": "api", "stage": path.split("/")[1]},
        "body": base64.b64encode(body).decode() if encoded else body.decode(),
        "isBase64Encoded": encoded,
    }


@pytest.mark.inside("hands the function an event of its platform")
def test_base64_encoded_gateway_body(runtime, invoke):
    raw = json.dumps(an_execute_request("swarm", {"prompt": "café ☕"}), ensure_ascii=False).encode()

    over_http = post_bytes(runtime, raw)
    as_text, as_base64 = invoke(an_event(raw), Context()), invoke(an_event(raw, encoded=True), Context())

    assert over_http.status_code == as_text["statusCode"] == as_base64["statusCode"] == 200
    assert over_http.text == as_text["body"] == as_base64["body"]


@pytest.mark.inside("hands the function an event of its platform")
@pytest.mark.parametrize("encoded", [False, True])
def test_prefixed_path(invoke, encoded):
    raw = json.dumps(an_execute_request()).encode()

    plain = invoke(an_event(raw), Context())
    prefixed = invoke(an_event(raw, "/prod/execute", encoded=encoded), Context())

    assert plain["statusCode"] == prefixed["statusCode"] == 200
    assert prefixed["body"] == plain["body"]
