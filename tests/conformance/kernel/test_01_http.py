"""Kernel specification section 11, cases 1 to 7: what every request has in common."""

import json

import pytest

from tests.support.kernel.desk import Desk


def authorized(text: str) -> dict[str, str]:
    return {"Authorization": text}


@pytest.mark.needs("TOKEN")
def test_auth_missing_401(guarded, secret):
    for method, path in [
        ("GET", "/v0/executions"),
        ("POST", "/v0/executions"),
        ("GET", "/v0/executions/x"),
        ("POST", "/v0/agents/intent"),
        ("POST", "/v0/runners/r/results"),
        ("GET", "/v0/tools"),
        ("GET", "/v0/executions/x/unknown"),
    ]:
        answer = guarded.request(method, path)
        assert answer.status_code == 401, path
        assert answer.json() == {"error": "unauthorized", "code": "UNAUTHORIZED", "details": None}
    for header in (f"bearer {secret}", f"Bearer  {secret}", f"Bearer {secret}2", "Bearer", secret):
        assert guarded.get("/v0/executions", headers=authorized(header)).status_code == 401
    assert guarded.get("/v0/executions", headers=authorized(f"Bearer {secret}")).status_code == 200


@pytest.mark.needs("TOKEN")
def test_auth_exempt(guarded, secret):
    assert guarded.get("/v0/health").json() == {"status": "ok"}
    assert guarded.get("/v0/ready").json() == {"status": "ready"}
    assert guarded.get("/metrics").status_code == 401
    shown = guarded.get("/metrics", headers=authorized(f"Bearer {secret}"))
    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_request_id_echo(desk):
    def sent(value: str) -> str:
        return desk.client.get("/v0/health", headers={"X-Request-ID": value}).headers["x-request-id"]

    assert sent("abc-1") == "abc-1"
    assert sent("x" * 128) == "x" * 128
    assert sent("x" * 129) not in ("", "x" * 129)
    assert len(desk.client.get("/nowhere").headers["x-request-id"]) == 36


def test_body_too_large(desk):
    def sized(size: int) -> bytes:
        frame = b'{"agent_id":"a","input":""}'
        return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]

    refused = desk.client.post("/v0/executions", content=sized(1_048_577))
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "request body too large" in refused.json()["error"]
    assert desk.client.post("/v0/executions", content=sized(1_048_000)).status_code == 201
    assert desk.client.post("/v0/executions", content=sized(1_048_576)).status_code == 201


def test_bad_json(desk):
    for body in (b"", b"{", b"[]", b'{"agent_id":5}', b'"a"', b"\xff", b'{"agent_id":"a","labels":[]}'):
        assert desk.client.post("/v0/executions", content=body).status_code == 400, body
    for body in (b'{"agent_id":"a","zzz":1}', b'{"agent_id":"a"} tail', b' {"agent_id":"a","labels":null}{'):
        assert desk.client.post("/v0/executions", content=body).status_code == 201, body
    odd_type = {"Content-Type": "text/plain"}
    assert desk.client.post("/v0/executions", content=b'{"agent_id":"a"}', headers=odd_type).status_code == 201


def test_error_shape(desk):
    answer = desk.get("/v0/executions/unknown")

    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "code", "details"}
    assert (answer.json()["code"], answer.json()["details"]) == ("NOT_FOUND", None)
    assert answer.json()["error"].startswith("not found: ")
    assert answer.text == json.dumps(answer.json(), separators=(",", ":")) + "\n"


def test_method_and_path(desk):
    for path, allowed in [
        ("/v0/executions", {"GET", "POST"}),
        ("/v0/executions/x", {"GET"}),
        ("/v0/executions/x/cancel", {"POST"}),
        ("/v0/agents/intent", {"POST"}),
        ("/v0/runners/r", {"DELETE"}),
        ("/v0/tools", {"GET"}),
    ]:
        answer = desk.client.put(path)
        assert (answer.status_code, answer.content) == (405, b""), path
        assert allowed <= set(answer.headers["allow"].replace(" ", "").split(","))
    for path in ("/nowhere", "/v0/executions/x/nowhere", "/v0"):
        assert desk.client.get(path, follow_redirects=False).status_code == 404
    for path in ("/v0/executions", "/v0/executions/"):
        assert desk.client.get(path, follow_redirects=False).status_code == 200


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_cors_only_for_configured_origins(desk):
    assert "access-control-allow-origin" not in desk.client.get("/v0/health", headers={"Origin": "http://a"}).headers
    client = Desk(tokens=(("ops", "secret-token"),), origins=("http://a",)).client

    asked = client.options("/v0/executions", headers={"Origin": "http://a"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "http://a")
    assert asked.headers["access-control-max-age"] == "86400"
    assert "X-Request-ID" in asked.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in client.get("/v0/health", headers={"Origin": "http://b"}).headers


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_an_unready_store_is_told():
    from piecework.errors import Unavailable

    desk = Desk()
    door = desk.app.app.state.door

    def fails() -> None:
        raise Unavailable("no table")

    object.__setattr__(door, "ready", fails)
    answer = desk.get("/v0/ready")

    assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert "database not reachable" in answer.json()["error"]
    assert desk.get("/v0/health").status_code == 200
