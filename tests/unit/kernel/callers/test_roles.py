"""Roles at the routes: each route is asked with a token of every single role."""

import json
import re

import pytest

from kernel.http.api import create_app, routed
from local.aws import NotStarted
from local.gateway.lambdas.variables import ROOT
from local.openapi.roles import needs_of_routes, table
from local.parameters import Refused, check_values
from local.preflight import check_roles
from local.template import read
from piecework.edge.roles import Role, parse_roles
from piecework.values import replace
from tests.support.kernel.desk import GATED, Caller, Desk
from tests.support.kernel.functions import kernel_function, streams_function
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.stage import KernelStage

TOKENS = (*((role.value, f"secret of {role}") for role in Role), ("nameless", "secret of nobody"))
ROLES = ",".join(f"{role}={role}" for role in Role)
TEXT = ",".join(f"{name}={secret}" for name, secret in TOKENS)
OPEN = {("GET", "/v0/health"), ("GET", "/v0/ready")}
EXPECTED = {  # written down once more by hand: a slip in a declaration must not make its own test
    "GET /metrics": "client approver viewer operator",
    "POST /v0/executions": "client",
    "GET /v0/executions": "client approver viewer operator",
    "POST /v0/executions/cancel": "client operator",
    "GET /v0/executions/{execution_id}": "client approver viewer operator",
    "POST /v0/executions/{execution_id}/cancel": "client operator",
    "POST /v0/executions/{execution_id}/again": "client",
    "POST /v0/executions/{execution_id}/forget": "operator",
    "POST /v0/executions/{execution_id}/signal": "client approver",
    "GET /v0/executions/{execution_id}/events": "client approver viewer operator",
    "GET /v0/executions/{execution_id}/approvals/{step_id}": "client approver viewer operator",
    "GET /v0/executions/{execution_id}/stream": "client approver viewer operator",
    "GET /v0/approvals": "client approver viewer operator",
    "GET /v0/agents": "client approver viewer operator",
    "POST /v0/agents/{agent_id}/pause": "operator",
    "POST /v0/agents/{agent_id}/resume": "operator",
    "POST /v0/agents/intent": "agent",
    "POST /v0/agents/step-result": "agent",
    "GET /v0/agents/stream": "agent",
    "POST /v0/runners/steps/{step_id}/started": "runner",
    "POST /v0/runners/{runner_id}/results": "runner",
    "POST /v0/runners/{runner_id}/capabilities": "runner",
    "POST /v0/runners/{runner_id}/tools": "runner",
    "DELETE /v0/runners/{runner_id}": "runner operator",
    "GET /v0/runners": "client approver viewer operator",
    "GET /v0/runners/stream": "runner",
    "GET /v0/tools": "client agent runner approver viewer operator",
}


def bearer(name):
    return {"authorization": f"Bearer {dict(TOKENS)[name]}"}


def a_desk(roles=ROLES):
    return Desk(tokens=TOKENS, roles=lambda: parse_roles(roles))


def asked(door, method, path, role):
    """The status of an answer to a token of this role."""
    filled = re.sub(r"\{\w+\}", "x", path)
    return door.request(method, filled, headers=bearer(role), **({"json": {}} if method == "POST" else {}))


@pytest.fixture
def doors():
    """Both functions as their callers see them."""
    with streams_function(KernelStage(), FakeHints(), tokens=lambda: TOKENS, roles=parse_roles(ROLES)) as streams:
        yield {True: Caller(streams.app), False: a_desk().client}


def test_every_route_serves_exactly_the_roles_of_the_table(doors):
    allowed = {}
    for method, path in needs_of_routes():
        answers = {role: asked(doors[path.endswith("/stream")], method, path, role) for role in Role}
        for role, answer in answers.items():
            if answer.status_code == 403:
                assert answer.json()["code"] == "FORBIDDEN", (path, role)
                assert answer.json()["error"].startswith("this needs the role "), (path, role)
                assert answer.headers["x-request-id"], (path, role)
            assert answer.status_code != 401 and answer.status_code < 500, (path, role, answer.text)
        allowed[method, path] = {role for role, answer in answers.items() if answer.status_code != 403}
    print(table())

    served = {f"{method} {path}": roles for (method, path), roles in allowed.items() if (method, path) not in OPEN}
    assert served == {route: set(map(Role, names.split())) for route, names in EXPECTED.items()}
    assert {route: roles for route, roles in allowed.items() if route in OPEN} == {route: set(Role) for route in OPEN}
    assert table() in (ROOT / "docs/kernel/roles.md").read_text("utf-8")


def test_a_refusal_names_the_missing_role(doors):
    refused = asked(doors[False], "POST", "/v0/agents/intent", Role.VIEWER)

    assert (refused.status_code, refused.json()) == (
        403,
        {"error": "this needs the role agent", "code": "FORBIDDEN", "details": None},
    )


def test_the_role_is_checked_before_the_body_is_read(doors):
    for body in (b"", b"{", b"x" * 2_000_000):
        answer = doors[False].post("/v0/executions", content=body, headers=bearer(Role.VIEWER))

        assert answer.status_code == 403


def test_who_has_no_token_is_still_refused_as_before(doors):
    assert doors[False].get("/v0/executions").status_code == 401
    assert doors[True].get("/v0/agents/stream").status_code == 401


def test_a_path_with_a_newline_at_its_end_is_no_way_around_the_token(doors):
    for method, path in needs_of_routes():
        if not path.endswith("/stream"):
            body = {"json": {"agent_id": "desk"}} if method == "POST" else {}
            filled = re.sub(r"\{\w+\}", "x", path)
            for end in ("%0A", "%0D", "%20", "%00"):
                answer = doors[False].request(method, filled + end, **body)

                assert answer.status_code in (401, 404), (method, path + end, answer.text)


def test_a_route_that_the_edge_has_not_seen_serves_nobody():
    bare = Caller(routed(a_desk().door))

    for method, path in needs_of_routes():
        if (method, path) not in OPEN and not path.endswith("/stream"):
            assert bare.request(method, re.sub(r"\{\w+\}", "x", path)).status_code == 401, path


def test_a_name_that_has_no_roles_may_read_and_nothing_else(doors):
    assert asked(doors[False], "GET", "/v0/executions", "nameless").status_code == 200
    assert asked(doors[False], "POST", "/v0/executions", "nameless").status_code == 403
    assert asked(doors[True], "GET", "/v0/agents/stream", "nameless").status_code == 403


def test_without_roles_every_token_may_do_everything():
    client = a_desk("").client

    for method, path in needs_of_routes():
        if not path.endswith("/stream"):
            assert asked(client, method, path, "nameless").status_code != 403, path


def test_an_answer_about_a_step_needs_an_approver_and_any_other_signal_a_client():
    desk = Desk()
    work = desk.work()
    step_id = work.step(GATED)
    desk = with_roles(desk)
    answer = {"signal_type": "step.approve", "payload": {"step_id": step_id, "approved": True}}
    other = {"signal_type": "go", "payload": 1}
    path = f"/v0/executions/{work.id}/signal"

    assert desk.post(path, json=answer, headers=bearer(Role.CLIENT)).json()["error"] == "this needs the role approver"
    assert desk.post(path, json=other, headers=bearer(Role.APPROVER)).json()["error"] == "this needs the role client"
    assert desk.post(path, json=other, headers=bearer(Role.CLIENT)).status_code == 200
    assert desk.post(path, json=answer, headers=bearer(Role.APPROVER)).status_code == 200
    assert desk.post(path, json=answer, headers=bearer(Role.CLIENT)).status_code == 403  # a late one too
    assert work.types.count("step.dispatched") == 1


def test_a_signal_for_which_the_agent_waits_by_the_name_of_an_answer_is_a_clients():
    desk = Desk()
    work = desk.work()
    work.intend("wait", signal_type="step.approve")
    client = with_roles(desk)
    path, signal = f"/v0/executions/{work.id}/signal", {"signal_type": "step.approve", "payload": {"approved": True}}

    assert client.post(path, json=signal, headers=bearer(Role.APPROVER)).status_code == 403
    assert client.post(path, json=signal, headers=bearer(Role.CLIENT)).status_code == 200


def with_roles(desk):
    """Callers of the same kernel at a door with roles."""
    return Caller(create_app(replace(desk.door, tokens=lambda: TOKENS, roles=lambda: parse_roles(ROLES))))


def test_roles_that_cannot_be_read_close_the_door(capsys):
    settings = {"PIECEWORK_KERNEL_TOKENS": TEXT, "PIECEWORK_KERNEL_TOKEN_ROLES": "ada=boss"}
    with kernel_function("http", settings) as http:
        client = Caller(http.app)

        assert client.get("/v0/tools", headers=bearer("client")).status_code == 500
        assert client.get("/v0/health").status_code == 200
    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["settings"].startswith("ada has a role that is not one of client, agent")
    with kernel_function("streams", settings) as streams:
        assert Caller(streams.app).get("/v0/agents/stream", headers=bearer("agent")).status_code == 500


def test_the_functions_read_the_roles_of_their_environment():
    settings = {"PIECEWORK_KERNEL_TOKENS": TEXT, "PIECEWORK_KERNEL_TOKEN_ROLES": ROLES}
    with kernel_function("http", settings) as http:
        assert asked(Caller(http.app), "POST", "/v0/executions", Role.VIEWER).status_code == 403
    with kernel_function("streams", settings) as streams:
        assert asked(Caller(streams.app), "GET", "/v0/agents/stream", Role.VIEWER).status_code == 403
        assert asked(Caller(streams.app), "GET", "/v0/agents/stream", Role.AGENT).status_code == 400


@pytest.mark.parametrize(("roles", "times"), [("", 1), (ROLES, 0)])
def test_each_start_says_once_when_approval_is_no_boundary(capsys, roles, times):
    settings = {"PIECEWORK_KERNEL_TOKENS": TEXT, "PIECEWORK_KERNEL_TOKEN_ROLES": roles}
    with kernel_function("http", settings) as http:
        for _ in range(3):
            Caller(http.app).post("/v0/executions", content=b"{", headers=bearer("client"))

    lines = [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]
    assert lines.count("approval_is_no_boundary") == times
    assert lines.count("kernel") == 3


@pytest.mark.parametrize(
    ("tokens", "roles", "sentence"),
    [
        ("a=1", "a", "roles must be a comma list of name=role"),
        ("a=1", "a=boss", "a has a role that is not one of client, agent"),
        ("", "a=agent", "without PIECEWORK_KERNEL_TOKENS the door is open"),
        ("a=1", "a=agent,b=client", "has no token of the name b"),
    ],
)
def test_roles_that_cannot_hold_are_a_mistake_that_is_told_before_anything_starts(tokens, roles, sentence):
    for name in ("PIECEWORK_KERNEL_TOKEN_ROLES", "PIECEWORK_PARAM_KernelTokenRoles"):
        with pytest.raises(NotStarted, match=f"PIECEWORK_KERNEL_TOKEN_ROLES: .*{sentence}"):
            check_roles({"PIECEWORK_KERNEL_TOKENS": tokens, name: roles})


def test_roles_that_hold_start():
    check_roles({"PIECEWORK_KERNEL_TOKENS": "a=1,a=2,b=3", "PIECEWORK_KERNEL_TOKEN_ROLES": "a=agent+client"})
    check_roles({"PIECEWORK_KERNEL_TOKENS": "a=1"})
    check_roles({})


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("", True),
        ("ada=approver+viewer,desk=agent", True),
        ("ada", False),
        ("ada=", False),
        ("ada=boss", False),
        ("ada=viewer+", False),
        ("ada=viewer,", False),
        (f"{'a' * 65}=viewer", False),
    ],
)
def test_the_template_takes_the_roles_that_the_code_can_read(text, is_taken):
    raw = read(ROOT / "template.yaml")
    if is_taken:
        check_values(raw, {"KernelTokenRoles": text})
        parse_roles(text)
    else:
        with pytest.raises(Refused, match="KernelTokenRoles must be a comma list"):
            check_values(raw, {"KernelTokenRoles": text})


def test_the_template_takes_no_more_roles_than_a_function_has_room_for():
    raw, entry = read(ROOT / "template.yaml"), "ada=approver"
    fits = ",".join([entry] * (2_000 // (len(entry) + 1)))

    check_values(raw, {"KernelTokenRoles": fits})
    with pytest.raises(Refused, match="KernelTokenRoles must have 2000 characters at most"):
        check_values(raw, {"KernelTokenRoles": f"{fits},{entry},{entry}"})


def test_the_template_knows_every_role():
    pattern = read(ROOT / "template.yaml")["Parameters"]["KernelTokenRoles"]["AllowedPattern"]

    assert set(re.findall(r"[a-z]+(?=[|)])", pattern)) == set(Role)
