"""The kernel door in real processes: the demo agent and runner of `make run`, hosted agents, and the command."""

import os
import re
import subprocess
import sys

import pytest

from local.aws import stop
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import ROOT
from piecework.aws.table import THE_KERNEL, Table
from piecework.jsons import loads
from piecework_cli.main import main
from tests.support.machine import wait_until
from tests.support.worker.contracts import SECRET

POLICY = """
rules:
  - id: refund
    priority: 1
    when: {tool_id: pay.refund}
    then: {decision: require_approval, reason: a person, notify: "webhook:desk"}
  - {id: demo, priority: 2, when: {agent_id: demo}, then: {decision: allow}}
default: {decision: deny, reason: not on the list}
"""


@pytest.fixture(scope="module")
def kernel(own_gateway, tmp_path_factory):
    """A kernel door with a demo agent and a demo runner connected to it."""
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text(POLICY)
    running = own_gateway(
        api="KernelApi",
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_POLICY=str(policy),
        PIECEWORK_SWEEP_SECONDS="1",
        PIECEWORK_KERNEL_WEBHOOKS=f"desk=https://hooks.invalid/approvals {SECRET}",  # a name that never resolves
    )
    command = dying_with_parent("exec", sys.executable, "-m", "local.demo_kernel", "--url", running.url)
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, start_new_session=True)
    yield running
    stop(process)


@pytest.fixture
def operator(kernel, monkeypatch):
    """The command, as it is called for that door."""
    monkeypatch.setenv("PIECEWORK_KERNEL_URL", kernel.url)
    return lambda *arguments: main(list(arguments))


def create(kernel, agent_id, given):
    answer = kernel.http.post("/v0/executions", json={"agent_id": agent_id, "input": given})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def shown(kernel, execution_id):
    return kernel.http.get(f"/v0/executions/{execution_id}").json()


def until(kernel, execution_id, status):
    wait_until(lambda: shown(kernel, execution_id)["status"] == status)


def test_the_demo_agent_and_runner_finish_an_execution_that_is_watched(kernel, operator, capsys):
    execution_id = create(kernel, "demo", {"text": "hello there"})

    assert operator("exec", "watch", execution_id) == 0

    kinds = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert kinds[0] == "execution.created" and kinds[-1] == "execution.completed"
    assert kinds.count("step.completed") == 2
    assert shown(kernel, execution_id)["output"] == {"words": 2, "shouted": "HELLO THERE!"}


def test_the_example_of_the_readme_is_watched_to_its_end(kernel):
    readme = (ROOT / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"/v0/executions -d '(.*?)'", readme)

    execution_id = kernel.http.post("/v0/executions", content=shown).json()["id"]

    assert "event: execution.completed" in kernel.http.get(f"/v0/executions/{execution_id}/stream").text


def test_a_signal_of_the_command_reaches_the_demo_agent(kernel, operator, capsys):
    execution_id = create(kernel, "demo", {"text": "wait", "wait_for": "go"})
    until(kernel, execution_id, "blocked")

    assert operator("exec", "signal", execution_id, "go", "--payload", '{"by": "mia"}') == 0

    assert operator("exec", "watch", execution_id) == 0
    assert shown(kernel, execution_id)["output"]["signal"] == {"by": "mia"}


def test_a_hosted_agent_waits_for_a_person_without_a_process(kernel, operator, capsys):
    execution_id = create(kernel, "refund_desk", {"prompt": "Refund order A-17, 42.00 please"})
    until(kernel, execution_id, "blocked")

    wait_until(lambda: execution_id in listed(operator, capsys))
    assert operator("approvals", "grant", execution_id) == 0

    assert operator("exec", "watch", execution_id) == 0
    receipt = {"receipt": "demo-A-17", "cents": 4200}
    assert shown(kernel, execution_id)["output"] == {
        "order": "A-17",
        "cents": 4200,
        "refunded": True,
        "receipt": receipt,
    }
    wait_until(lambda: execution_id not in listed(operator, capsys))


def test_a_webhook_about_a_waiting_approval_is_tried_without_holding_anything_up(kernel, own_gateway):
    execution_id = create(kernel, "refund_desk", {"order": "A-19", "cents": 4200})
    table = own_gateway.aws.template.physical_name("KernelTable")

    def webhooks():
        rows = Table(own_gateway.aws.client("dynamodb"), table, THE_KERNEL).query(f"WEBHOOK#{execution_id}")
        return [(row["name"], row["attempt"], loads(row["tries"])) for row in rows if "tries" in row]

    wait_until(webhooks)

    [(name, attempt, [[first, status, _]])] = webhooks()
    assert (name, attempt, first, status) == ("desk", 2, 1, None)
    assert shown(kernel, execution_id)["status"] == "blocked"


def test_a_denial_of_the_command_reaches_the_hosted_agent(kernel, operator, capsys):
    execution_id = create(kernel, "refund_desk", {"order": "A-18", "cents": 4200})
    until(kernel, execution_id, "blocked")

    assert operator("approvals", "deny", execution_id, "--reason", "not ours") == 0

    until(kernel, execution_id, "completed")
    assert shown(kernel, execution_id)["output"]["because"] == "not ours"


def test_an_executor_without_tools_serves_an_execution(kernel):
    execution_id = create(kernel, "echo", "hello")

    until(kernel, execution_id, "completed")
    assert shown(kernel, execution_id)["output"]["answer"] == "default::hello"


def test_a_cancelled_execution_is_listed_as_such(kernel, operator, capsys):
    execution_id = create(kernel, "nobody-connected", None)

    assert operator("exec", "cancel", execution_id) == 0
    capsys.readouterr()

    wait_until(lambda: f"{execution_id}  cancelled" in rows(operator, capsys))
    assert operator("exec", "watch", execution_id) == 1


def listed(operator, capsys):
    assert operator("approvals", "ls") == 0
    return capsys.readouterr().out


def rows(operator, capsys):
    assert operator("exec", "ls", "--agent", "nobody-connected") == 0
    return capsys.readouterr().out
