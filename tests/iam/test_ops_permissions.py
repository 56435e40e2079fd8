"""The operator's door's functions and their roles agree, both ways."""

import time
from collections import Counter
from dataclasses import replace

import pytest

from piecework.clock import now_in_ms
from piecework.worker.contract.contracts import record_of
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.aws_calls import recorded
from tests.support.ops.tasks import a_task
from tests.support.roles import FUNCTION, refused, template_with, unused
from tests.support.runtime.requests import a_scripted_request, execute
from tests.support.worker.contracts import a_contract

SECRET = "ops-correct-horse-battery"
DOORS = {"worker": True, "kernel": True, "console": True}
OURS = set(template_with(console=True).of_type(FUNCTION)) - set(template_with().of_type(FUNCTION))


@pytest.fixture(scope="module")
def console(gateway, embedded_aws):
    secret = embedded_aws.client("secretsmanager").create_secret(
        Name="iam-ops-tokens", SecretString=f"ann={SECRET},bob={SECRET}-2"
    )["ARN"]
    running = gateway(
        api="ConsoleApi",
        PIECEWORK_PARAM_DeployConsole="true",
        PIECEWORK_PARAM_DeployWorkerDoor="true",
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_OpsTokensSecretArn=secret,
        PIECEWORK_PARAM_OpsTokenRoles="ann=viewer,bob=operator",
    )
    running.http.headers["Authorization"] = f"Bearer {SECRET}"
    return running


@pytest.fixture(scope="module")
def calls(console, gateway, embedded_aws):
    """Every call of the door's functions after all of it was used."""
    drive(console)
    read_pieces(console, gateway())
    read_tasks(console, embedded_aws)
    return Counter({call: times for call, times in recorded().items() if call.function in OURS})


def drive(console) -> None:
    assert console.http.get("/ops/health").json() == {"status": "ok"}
    status = console.http.get("/ops/status").json()
    assert status["doors"] == {"runtime": True, "worker": True, "kernel": True}
    assert all(isinstance(found["dead_letters"], int) for found in status["queues"].values())
    assert set(status["queues"]) == {"task", "webhook", "due", "kernel_due", "kernel_hosted"}


def read_pieces(console, runtime) -> None:
    """A piece with steps, evidence and an answer that lies in the bucket, as the runtime door made it."""
    request = a_scripted_request({"output": {"answer": "x" * 20_000}, "artifacts": [["notes", "found", "text/plain"]]})
    assert execute(runtime, request).status_code == 200
    ids = {name: request[name] for name in ("task_id", "execution_id", "attempt_id")}

    found = console.http.get("/ops/piece", params={"caller": "anonymous", **ids}).json()
    page = console.http.get("/ops/pieces", params={"limit": "50"}).json()

    assert found["state"] == "done" and found["output"]["size_bytes"] > 20_000
    assert found["key"] in [item["key"] for item in page["items"]]
    [ref] = found["evidence_refs"]
    path = f"/ops/pieces/{found['key']}/evidence/{ref['digest'].removeprefix('sha256:')}"
    evidence = console.http.get(path)
    assert (evidence.text, evidence.headers["content-disposition"]) == ("found", "attachment")
    assert console.http.get(f"/ops/pieces/{found['key']}").json() == found
    assert console.http.get("/ops/pieces", params={"cursor": "nope"}).status_code == 400


def read_tasks(console, aws) -> None:
    """A contract and its paid task, as the worker door made them."""
    client, name = aws.client("dynamodb"), f"ctr_ops{time.time_ns()}"
    task = a_task(name, created_at_ms=now_in_ms())
    ExecutionsTable(client, "piecework-work", "piecework-due").claim(None, replace(task, due_ms=0))
    document = a_contract(now_in_ms(), contract_id=name)
    record = record_of(document, None, attempts=3, source="api", stored_at_ms=now_in_ms())
    ContractsTable(client, "piecework-contracts").put(record)

    found = console.http.get(f"/ops/tasks/{name}").json()
    pages = {what: console.http.get(f"/ops/{what}").json()["items"] for what in ("tasks", "contracts")}

    assert [move["payment"] for move in found["moves"]] == ["authorized"]
    assert all(name in [item["contract_id"] for item in page] for page in pages.values())
    assert console.http.get("/ops/ledger").json()["is_complete"] is True
    assert console.http.get("/ops/tasks/ctr_nobody").status_code == 404


def test_the_door_asks_for_a_credential_and_knows_roles(console):
    assert console.http.get("/ops/status", headers={"Authorization": ""}).status_code == 401
    assert console.http.post("/ops/status").status_code == 405
    assert console.http.get("/ops/nope").status_code == 404
    assert console.http.get("/").status_code == 404


def test_no_function_of_the_door_makes_a_call_that_would_be_refused(calls):
    assert {call.function for call in calls} == OURS
    assert refused(calls, template_with(**DOORS)) == []


def test_no_function_of_the_door_has_a_permission_that_nothing_uses(calls):
    assert [grant for grant in unused(calls, template_with(**DOORS)) if grant.function in OURS] == []
