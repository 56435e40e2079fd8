"""Section 11, envelope: health, capabilities, paths, media types, malformed and mistyped requests, credentials."""

import base64
import http.client
import json
import urllib.parse
from pathlib import Path

from local.conformance.target import Json, NotApplicable, Target, a_task, expect, refused, without

REQUIRED = ("task_id", "execution_id", "task_type", "inputs", "profile", "task_contract", "stage", "attempt_id")
DOCS_EXAMPLE = Path(__file__).resolve().parents[2] / "events" / "runtime" / "execute" / "docs.json"
JSON_TYPE = {"content-type": "application/json"}


def health_ok(target: Target) -> None:
    answer = target.send("GET", "/health")
    expect(answer.status_code == 200 and answer.json() == {"status": "ok"}, answer.text)


def capabilities_shape(target: Target) -> None:
    answer = target.send("GET", "/capabilities").json()
    expect(set(answer) == {"task_types", "profiles", "provider_family", "model_id"}, answer)
    expect(all(isinstance(name, str) for name in answer["task_types"] + answer["profiles"]), answer)
    expect(answer["provider_family"].strip() and answer["model_id"].strip(), answer)
    expect("default" in answer["profiles"], answer)


def unknown_path_404_wrong_method_405(target: Target) -> None:
    refused(target.send("GET", "/nope"), 404)
    refused(target.post("/execute/", a_task()), 404)
    refused(target.send("GET", "/execute"), 405)


def malformed_json_400(target: Target) -> None:
    for raw in (b"{", b"", b"\xef\xbb\xbf{}", b"{}x", b'{"task_id":"\xff"}'):
        refused(target.post("/execute", raw), 400)
        refused(target.post("/verify", raw), 400)


def nonfinite_and_surrogates_400(target: Target) -> None:
    for token in ("NaN", "-Infinity", "1e", '"\\ud800"'):
        raw = json.dumps(a_task(inputs={"prompt": "@"})).replace('"@"', token).encode()
        refused(target.post("/execute", raw), 400)


def wrong_content_type_415(target: Target) -> None:
    raw = json.dumps(a_task()).encode()
    refused(target.send("POST", "/execute", raw, {"content-type": "text/plain"}), 415)
    for name in ("content-type", "CONTENT-TYPE"):
        answer = target.send("POST", "/execute", raw, {name: "application/json; charset=utf-8"})
        expect(answer.status_code == 200, answer.text)


def missing_each_required_field(target: Target) -> None:
    for name in REQUIRED:
        refused(target.post("/execute", without(a_task(), name)), 400, 422, saying=name)
    target.execute(a_task())
    target.execute(without(a_task(), "seed_bundle"))


def wrong_types(target: Target) -> None:
    mistyped: tuple[tuple[str, Json], ...] = (("task_id", 5), ("task_contract", []), ("stage", None))
    for name, value in mistyped:
        refused(target.post("/execute", {**a_task(), name: value}), 400, 422)
    target.execute(a_task(inputs=[1]))


def unknown_fields_ignored(target: Target) -> None:
    plain = a_task()
    contract = plain["task_contract"]
    extra = {**plain, "more": 1, "task_contract": {**contract, "more": 1, "budget": {**contract["budget"], "more": 1}}}
    expect(target.execute(plain) == target.execute(extra), "extra members change the answer")


def basic_auth(target: Target) -> None:
    if "=" not in target.token:
        raise NotApplicable("needs a token of the form name=secret")
    wrong = base64.b64encode(f"{target.token.partition('=')[0]}:wrong".encode()).decode()
    for method, path in (("GET", "/health"), ("GET", "/capabilities"), ("POST", "/execute"), ("POST", "/verify")):
        for value in ("", f"Basic {wrong}", "Basic %%%", "Bearer wrong"):
            answer = target.send(method, path, b"{}", {**JSON_TYPE, "authorization": value})
            expect(answer.status_code == 401, f"{path} answered {answer.status_code} to {value!r}")
            expect("basic" in answer.headers.get("www-authenticate", "").lower(), "no WWW-Authenticate: Basic")
    health_ok(target)


def no_user_agent_no_accept_encoding(target: Target) -> None:
    parts = urllib.parse.urlsplit(target.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=60)
    raw = json.dumps(a_task()).encode()
    connection.putrequest("POST", f"{parts.path.rstrip('/')}/execute", skip_accept_encoding=True)
    for name, value in {"accept": "*/*", **JSON_TYPE, "content-length": str(len(raw)), **target.credential}.items():
        connection.putheader(name, value)
    connection.endheaders(raw)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    expect(answer.status == 200, body)
    expect(answer.getheader("content-encoding") is None, "the answer is compressed")
    expect(answer.getheader("content-length") == str(len(body)), "Content-Length is wrong or missing")


def docs_execute_example_verbatim(target: Target) -> None:
    body = json.loads(DOCS_EXAMPLE.read_text("utf-8"))["body"].encode()
    output = target.execute(body)["candidate_output"]
    expect(isinstance(output["answer"], str) and isinstance(output["confidence"], int | float), output)


def deep_nesting(target: Target) -> None:
    deepest: object = "x"
    for _ in range(139):
        deepest = [deepest]
    target.execute({**a_task(), "inputs": deepest})
    refused(target.post("/execute", b"[" * 10_000 + b"]" * 10_000), 400)


def large_bodies(target: Target) -> None:
    for size, statuses in ((1024 * 1024, (200, 400, 413)), (7 * 1024 * 1024, (400, 413))):
        answer = target.post("/execute", a_task(inputs={"prompt": "x", "filling": "y" * size}))
        expect(answer.status_code in statuses, f"{size} bytes: {answer.status_code} {answer.text[:200]}")


def duplicate_keys(target: Target) -> None:
    raw = b'{"stage":"EXPLORE",' + json.dumps(a_task()).encode()[1:]
    expect(target.post("/execute", raw).status_code in (200, 400), "neither the last one nor 400")
