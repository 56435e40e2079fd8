"""Roles at each route of the kernel under /ops: every route is asked with a token of every single role."""

import json
import re

import pytest

from local.gateway.lambdas.variables import ROOT
from local.openapi.roles import ops_table
from piecework.edge.roles import Role
from piecework.ops.kernel_routes import KERNEL, NEEDS
from tests.support.ops.kernel import KernelOps

EVERYBODY = "client approver viewer operator"
EXPECTED = {  # written down once more by hand: a slip in a declaration must not make its own test
    "GET /ops/kernel/executions": EVERYBODY,
    "GET /ops/kernel/executions/{execution_id}": EVERYBODY,
    "GET /ops/kernel/executions/{execution_id}/events": EVERYBODY,
    "GET /ops/kernel/executions/{execution_id}/approvals/{step_id}": EVERYBODY,
    "GET /ops/kernel/executions/{execution_id}/stream": EVERYBODY,
    "GET /ops/kernel/approvals": EVERYBODY,
    "GET /ops/kernel/find": EVERYBODY,
    "GET /ops/kernel/agents": EVERYBODY,
    "GET /ops/kernel/runners": EVERYBODY,
    "GET /ops/kernel/tools": EVERYBODY,
    "GET /ops/kernel/policy": EVERYBODY,
    "GET /ops/kernel/webhooks": EVERYBODY,
    "POST /ops/kernel/policy/evaluate": EVERYBODY,
    "POST /ops/kernel/executions": "client operator",
    "POST /ops/kernel/executions/cancel": "client operator",
    "POST /ops/kernel/executions/{execution_id}/cancel": "client operator",
    "POST /ops/kernel/executions/{execution_id}/again": "client operator",
    "POST /ops/kernel/executions/{execution_id}/signal": "client approver operator",
    "POST /ops/kernel/executions/{execution_id}/forget": "operator",
    "POST /ops/kernel/executions/{execution_id}/approvals/{step_id}": "approver",
    "POST /ops/kernel/agents/pause": "operator",
    "POST /ops/kernel/agents/resume": "operator",
}


@pytest.fixture(scope="module")
def ops():
    return KernelOps()


def filled(path):
    return re.sub(r"\{\w+\}", "x1", path)


def test_every_route_serves_exactly_the_roles_of_the_table(ops):
    served = {}
    for method, path in NEEDS:
        answers = {role: ops.ask(role, method, filled(path), {}) for role in Role}
        for role, answer in answers.items():
            assert answer.status != 401 and answer.status < 500, (path, role, answer)
            if answer.status == 403:
                assert answer.body["error"].startswith("this needs the role "), (path, role)
        served[f"{method} {path}"] = {role for role, answer in answers.items() if answer.status != 403}

    assert served == {route: set(map(Role, names.split())) for route, names in EXPECTED.items()}
    assert ops_table() in (ROOT / "docs/kernel/roles.md").read_text("utf-8")


@pytest.mark.parametrize(("method", "path"), NEEDS)
def test_nobody_gets_past_without_a_secret_of_this_door(ops, method, path):
    assert ops.ask("", method, filled(path), {}).status == 401
    assert ops.ask("x", method, filled(path), {}).status == 401
    assert ops.ask("shop", method, filled(path), {}).status == 401  # a token of the kernel door


def test_a_name_without_roles_reads_and_does_nothing(ops):
    for method, path in NEEDS:
        answer = ops.ask("nameless", method, filled(path), {})

        assert (answer.status == 403) is (method == "POST" and not path.endswith("/evaluate")), (method, path, answer)


def test_no_role_that_only_reads_changes_anything(ops):
    """What each may not do is refused before anything is written, whatever the body asks for."""
    work = ops.desk.work()
    step_id = work.step("pay.refund")
    before = json.dumps(work.desk.events(work.id))
    bodies = {
        f"{KERNEL}/executions": {"agent_id": "triage"},
        f"{KERNEL}/executions/cancel": {"agent_id": "triage", "confirm": 1},
        f"{KERNEL}/executions/{work.id}/cancel": {},
        f"{KERNEL}/executions/{work.id}/again": {},
        f"{KERNEL}/executions/{work.id}/signal": {"signal_type": "step.approve", "payload": {"approved": True}},
        f"{KERNEL}/executions/{work.id}/forget": {"reason": "why"},
        f"{KERNEL}/executions/{work.id}/approvals/{step_id}": {"approved": True},
        f"{KERNEL}/agents/pause": {"agent_id": "triage", "reason": "why"},
        f"{KERNEL}/agents/resume": {"agent_id": "triage", "reason": "why"},
    }

    for path, body in bodies.items():
        for name in ("viewer", "nameless", "agent", "runner"):
            assert ops.ask(name, "POST", path, body).status == 403, (name, path)

    assert json.dumps(work.desk.events(work.id)) == before
    assert ops.get(f"{KERNEL}/agents")["agents"][0]["pause"] is None


def test_without_roles_every_name_may_do_everything():
    ops = KernelOps(roles="")

    for method, path in NEEDS:
        assert ops.ask("nameless", method, filled(path), {}).status not in (401, 403), path


def test_a_method_that_a_path_does_not_have_is_405(ops):
    for method, path, allowed in (
        ("GET", f"{KERNEL}/executions/cancel", "POST"),
        ("POST", f"{KERNEL}/agents", "GET"),
        ("PUT", f"{KERNEL}/executions", "GET, POST"),
        ("DELETE", f"{KERNEL}/policy/evaluate", "POST"),
    ):
        answer = ops.ask("operator", method, path, {})

        assert (answer.status, answer.headers["Allow"]) == (405, allowed)


def test_a_path_that_is_not_there_is_404(ops):
    for path in (f"{KERNEL}", f"{KERNEL}/", f"{KERNEL}/executions/", f"{KERNEL}/nope", f"{KERNEL}/executions/a%2Fb"):
        assert ops.ask("operator", "GET", path).status == 404
