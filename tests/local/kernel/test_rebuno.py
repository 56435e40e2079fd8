"""The public kernel SDKs, unmodified, against two copies of the door over one embedded AWS."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from local.die_with_parent import dying_with_parent
from tests.support.machine import ROOT, RunningGateway, children, wait_until
from tests.support.proxy import Proxy

STOCK = ROOT / "tests" / "support" / "stock"
SDKS = {"0.4.8": ("rebuno", "rebuno_048.py"), "0.2.0": ("rebuno02", "rebuno_020.py")}
CASES = ("local", "remote", "parallel", "flaky", "boom", "denied", "gated", "signal", "cancel", "directory")
SECRET = "only for tests"
SECONDS = 240
BY = {
    "execution.created": {"ada"},
    "intent.accepted": {"desk"},
    "execution.completed": {"desk"},
    "step.started": {"geo"},
    "step.retried": {"geo"},
    "signal.received": {"ada"},
    "execution.cancelled": {"ada"},
}
POLICY = """
rules:
  - id: interop-ok
    priority: 10
    when: {tool_ids: [interop_upper, interop_sum, interop_flaky, interop_slow, interop_boom]}
    then: {decision: allow, timeout_ms: 60000}
  - id: interop-gate
    priority: 20
    when: {tool_id: interop_gated}
    then: {decision: require_approval, reason: a human must look}
default: {decision: deny, reason: interop default deny}
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> dict[str, str]:
    policy = tmp_path_factory.mktemp("policy") / "interop.yaml"
    policy.write_text(POLICY)
    return {
        "PIECEWORK_PARAM_DeployKernelDoor": "true",
        "PIECEWORK_POLICY": str(policy),
        "PIECEWORK_KERNEL_TOKENS": f"sdk={SECRET}",
    }


@pytest.fixture(scope="module")
def copies(gateways, settings) -> tuple[RunningGateway, RunningGateway]:
    return gateways(api="KernelApi", **settings), gateways(api="KernelApi", fresh=True, **settings)


@contextmanager
def running(
    version: str, agents: str, runners: str, clients: str, *cases: str, **other: str
) -> Iterator["subprocess.Popen[str]"]:
    """A process with an agent, a runner and a client, each at its address."""
    environment, script = SDKS[version]
    order: dict[str, Any] = {"agents": agents, "runners": runners, "clients": clients, "token": SECRET, "cases": cases}
    python = str(ROOT / f".venv-{environment}/bin/python")
    process = subprocess.Popen(
        dying_with_parent("exec", python, str(STOCK / script), json.dumps(order | other)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def verdict(process: "subprocess.Popen[str]") -> str:
    """What the process printed; it must have passed all its cases."""
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, f"{out}\n{err[-3000:]}"
    return out


def kill(gateway: RunningGateway) -> None:
    """Kill a copy of the door at once, with all of its functions."""
    for pid, _ in children(gateway.process.pid):
        os.kill(pid, signal.SIGKILL)
    gateway.process.kill()
    gateway.process.wait()


@pytest.mark.parametrize("version", ["0.4.8", pytest.param("0.2.0", marks=pytest.mark.slow)])
def test_an_unmodified_sdk_passes_every_case_with_agent_runner_and_client_at_different_copies(copies, version):
    here, there = copies

    with running(version, here.url, there.url, there.url, *CASES) as process:
        out = verdict(process)

    assert out.splitlines()[-1] == "10 passed, 0 failed"


@pytest.mark.slow
@pytest.mark.parametrize("version", SDKS)
def test_an_unmodified_sdk_passes_every_case_with_a_token_for_each_role(gateways, settings, version):
    names = {"desk": "agent", "geo": "runner", "shop": "client", "ada": "approver+client"}
    tokens = {name: f"secret of {name}" for name in names}
    door = gateways(
        api="KernelApi",
        fresh=True,
        **settings
        | {
            "PIECEWORK_KERNEL_TOKENS": ",".join(f"{name}={secret}" for name, secret in tokens.items()),
            "PIECEWORK_KERNEL_TOKEN_ROLES": ",".join(f"{name}={roles}" for name, roles in names.items()),
        },
    )
    own = {"agents_token": tokens["desk"], "runners_token": tokens["geo"], "clients_token": tokens["ada"]}
    reader = {"headers": {"authorization": f"Bearer {tokens['shop']}"}, "params": {"limit": 200}}
    earlier = {one["id"] for one in door.http.get("/v0/executions", **reader).json()["executions"]}  # of other tests

    with running(version, door.url, door.url, door.url, *CASES, **own) as process:
        out = verdict(process)

    listed = door.http.get("/v0/executions", **reader).json()["executions"]
    made = [one for one in listed if one["id"] not in earlier]
    logs = [door.http.get(f"/v0/executions/{one['id']}/events", **reader).json()["events"] for one in made]
    by = {kind: {event.get("by") for log in logs for event in log if event["type"] == kind} for kind in BY}
    assert out.splitlines()[-1] == "10 passed, 0 failed"
    assert by == BY
    refused = door.http.post(
        "/v0/executions", json={"agent_id": "x"}, headers={"authorization": "Bearer secret of geo"}
    )
    assert (refused.status_code, refused.json()["error"]) == (403, "this needs the role client")


@pytest.mark.parametrize(("version", "module"), [("0.4.8", "rebuno.types"), ("0.2.0", "rebuno.models")])
def test_an_unmodified_sdk_reads_members_and_types_that_the_specification_does_not_have(version, module):
    execution = {"id": "e", "status": "failed", "agent_id": "a", "error": "x", "waiting_for": None, "again_of": None}
    execution["forgotten"] = {"at": "2027-01-15T08:00:00.000Z", "by": "o", "reason": "x", "complete": True}
    event = {
        "id": "i",
        "execution_id": "e",
        "type": "run.tokens",
        "payload": {"input_tokens": 1},
        "sequence": 7,
        "by": "",
    }
    script = (
        f"import json, sys; from {module} import Event, Execution; given = json.loads(sys.argv[1]);"
        "print(Execution(**given[0]).status.value, Event(**given[1]).type)"
    )
    python = str(ROOT / f".venv-{SDKS[version][0]}/bin/python")

    done = subprocess.run(
        [python, "-c", script, json.dumps([execution, event])], check=False, capture_output=True, text=True
    )

    assert done.stdout.split() == ["failed", "run.tokens"], done.stderr


@pytest.mark.slow
def test_an_agent_keeps_its_work_when_its_stream_is_ended_on_purpose(gateways, settings):
    rotating = gateways(api="KernelApi", fresh=True, PIECEWORK_KERNEL_ROTATION="3s", **settings)

    with running("0.4.8", rotating.url, rotating.url, rotating.url, "rotated") as process:
        assert verdict(process).endswith("passed, 0 failed\n")


@pytest.mark.slow
def test_an_agent_keeps_its_work_when_the_copy_it_is_connected_to_is_killed(gateways, settings, copies):
    doomed, survivor = gateways(api="KernelApi", fresh=True, **settings), copies[1]

    with (
        Proxy(doomed.url) as proxy,
        running("0.4.8", proxy.url, survivor.url, survivor.url, "survived") as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith("begun ")
        proxy.target = survivor.url
        kill(doomed)
        assert verdict(process).endswith("passed, 0 failed\n")


@pytest.mark.slow
def test_an_execution_goes_to_another_process_when_its_agent_is_killed(copies):
    here, there = copies
    agent = f"twice-{uuid.uuid4().hex[:8]}"
    given = {"agent_id": agent, "input": {"mode": "steady", "seconds": 8}}

    with ExitStack() as stack:
        process = {
            consumer: stack.enter_context(running("0.4.8", url, url, url, "stay", agent=agent, consumer=consumer))
            for consumer, url in (("one", here.url), ("two", there.url))
        }
        execution = asked(here, "POST", "/v0/executions", json=given)["id"]
        wait_until(lambda: "step.completed" in types(there, execution), SECONDS)
        process[consumers(there, execution)[0]].kill()
        wait_until(lambda: asked(here, "GET", f"/v0/executions/{execution}")["status"] == "completed", SECONDS)

    assert set(consumers(here, execution)) == {"one", "two"}
    seen = types(here, execution)
    lost = seen.index("agent.timeout")
    assert seen[lost : lost + 3] == ["agent.timeout", "execution.reset", "execution.started"]


@pytest.mark.slow
@pytest.mark.parametrize("notice", ["before its loss is noticed", "after its loss is noticed"])
def test_a_yes_that_comes_while_the_sdks_process_is_away_is_not_asked_for_again(copies, notice):
    here, there = copies
    agent = f"away-{uuid.uuid4().hex[:8]}"
    with running("0.4.8", here.url, here.url, here.url, "stay", agent=agent, consumer="one") as process:
        execution = asked(here, "POST", "/v0/executions", json={"agent_id": agent, "input": {"mode": "gated"}})["id"]
        wait_until(lambda: "execution.blocked" in types(there, execution), SECONDS)
        process.kill()
        if notice == "after its loss is noticed":
            wait_until(lambda: "agent.timeout" in types(there, execution), SECONDS)
        else:
            time.sleep(0.5)  # the gateway sees the closed socket; the consumer's grace is a second
        step = next(event["step_id"] for event in log(here, execution) if event["type"] == "step.created")
        yes = {"signal_type": "step.approve", "payload": {"step_id": step, "approved": True}}
        asked(there, "POST", f"/v0/executions/{execution}/signal", json=yes)

    with running("0.4.8", there.url, there.url, there.url, "stay", agent=agent, consumer="two"):
        wait_until(lambda: asked(here, "GET", f"/v0/executions/{execution}")["status"] == "completed", SECONDS)

    assert asked(here, "GET", f"/v0/executions/{execution}")["output"] == {"x": 7}
    assert types(here, execution).count("step.approval_required") == 1
    assert types(here, execution).count("step.completed") == 1


def asked(gateway: RunningGateway, method: str, path: str, **other: Any) -> Any:
    answer = gateway.http.request(method, path, headers={"Authorization": f"Bearer {SECRET}"}, **other)
    assert answer.is_success, answer.text
    return answer.json()


def log(gateway: RunningGateway, execution: str) -> list[Any]:
    return asked(gateway, "GET", f"/v0/executions/{execution}/events")["events"]


def types(gateway: RunningGateway, execution: str) -> list[str]:
    return [event["type"] for event in log(gateway, execution)]


def consumers(gateway: RunningGateway, execution: str) -> list[str]:
    """Who was given an execution, in order."""
    started = [event for event in log(gateway, execution) if event["type"] == "execution.started"]
    return [event["payload"]["consumer_id"] for event in started]
