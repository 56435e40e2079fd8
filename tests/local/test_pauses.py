"""Pauses in real processes: what callers of each door read, and what is done is told all the same."""

import pytest

from piecework.aws.rows.pauses import PausesRow
from piecework.clock import now_in_ms
from piecework.durable.pauses import Pause
from tests.support.runtime.requests import an_execute_request, execute
from tests.support.worker.machine import running_worker

EXECUTE, KERNEL = "runtime.execute.app.handler", "kernel.http.app.handler"


@pytest.fixture
def pauses(embedded_aws):
    """The row in the deployed table; what a test has paused is resumed after it."""
    row = PausesRow(embedded_aws.client("dynamodb"), "piecework-results")
    yield row
    for pause in row.all():
        row.end(pause.scope)


def paused(pauses, scope):
    pauses.begin(Pause(scope, now_in_ms(), "mia", "a test"))


def restarted(running, handler, method, path):
    """Have a new process of a function, which has not looked yet; the request that finds the old one gone is lost."""
    running.kill(handler)
    running.http.request(method, path)


def is_refused(answer, code):
    body = answer.json()
    found = body["code"] if isinstance(body["error"], str) else body["error"]["code"]
    assert (answer.status_code, answer.headers["retry-after"], found) == (503, "30", code)
    return True


def test_a_paused_executor_answers_what_is_done_and_begins_nothing_until_it_is_resumed(gateway, pauses):
    runtime, done, fresh = gateway(), an_execute_request(), an_execute_request()
    first = execute(runtime, done)
    paused(pauses, "executor:echo")
    restarted(runtime, EXECUTE, "POST", "/execute")

    assert is_refused(execute(runtime, fresh), "unavailable")
    assert execute(runtime, done).content == first.content
    pauses.end("executor:echo")
    restarted(runtime, EXECUTE, "POST", "/execute")

    assert execute(runtime, fresh).status_code == 200


def test_a_paused_worker_takes_no_contract_and_no_money_and_tells_what_was_paid(gateway, pauses):
    with running_worker(gateway) as worker:
        hired, contract = worker.hire("echo", {"brief": "hello"}), worker.contract("echo")
        paused(pauses, "door:worker")
        restarted(worker.gateway, "worker.hire.app.handler", "GET", "/tasks/task_nobody")
        restarted(worker.gateway, "worker.contracts.app.handler", "GET", "/healthz")

        assert is_refused(worker.execute(contract, {"brief": "x"}), "EXECUTION_TRANSIENT")
        assert is_refused(worker.register("echo"), "EXECUTION_TRANSIENT")
        assert worker.execute(hired.contract_id, {"brief": "hello"}).json()["task_id"] == hired.task_id
        assert worker.task(hired)["status"] == "completed" and worker.facilitator.count("settle") == 1


def test_a_paused_kernel_creates_nothing_and_shows_what_is_there(gateway, pauses):
    kernel = gateway(api="KernelApi", PIECEWORK_PARAM_DeployKernelDoor="true")
    made = kernel.http.post("/v0/executions", json={"agent_id": "nobody"}).json()
    paused(pauses, "door:kernel")
    restarted(kernel, KERNEL, "GET", "/v0/executions")

    assert is_refused(kernel.http.post("/v0/executions", json={"agent_id": "nobody"}), "SERVICE_UNAVAILABLE")
    assert kernel.http.get(f"/v0/executions/{made['id']}").json()["status"] == "pending"
    assert kernel.http.post(f"/v0/executions/{made['id']}/cancel").status_code == 200
    pauses.end("door:kernel")
    restarted(kernel, KERNEL, "GET", "/v0/executions")
