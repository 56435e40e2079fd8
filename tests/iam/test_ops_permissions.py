"""The operator's door's functions and their roles agree, both ways."""

import time
from collections import Counter
from dataclasses import replace

import pytest

from piecework.aws.steps_table import result_steps, work_steps
from piecework.clock import now_in_ms
from piecework.ops.status import QUEUES
from piecework.webhooks.deliveries import Delivery, DeliveryState
from piecework.webhooks.store import work_deliveries
from piecework.worker.chain.networks import BASE
from piecework.worker.contract.contracts import record_of
from piecework.worker.record.debts import owed_by
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.states import State
from piecework.worker.record.values import Settlement
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from piecework.worker.store.stream_table import StreamTable
from piecework.worker.stream.streams import Event, stream_of
from piecework.worker.task.work import attempt_key
from tests.iam.kernel_driving import POLICY
from tests.iam.ops_kernel_driving import SECRET, act_on_the_kernel, look_at_the_kernel
from tests.support.aws_calls import recorded
from tests.support.machine import wait_until
from tests.support.ops.issuer import token
from tests.support.ops.tasks import a_task
from tests.support.roles import FUNCTION, refused, template_with, unused
from tests.support.runtime.requests import a_scripted_request, execute
from tests.support.runtime.verification import a_candidate, a_verify_body
from tests.support.worker.contracts import a_contract
from tests.support.worker.doubtful import doubtful
from tests.support.worker.records import moved
from tests.support.worker.stage import stub_facilitator

CLIENT_ID = "/piecework/piecework/console-client-id"
LATER = int(time.time()) + 3_600
DOORS = {"worker": True, "kernel": True, "console": True}
OURS = set(template_with(**DOORS).of_type(FUNCTION)) - set(template_with(worker=True, kernel=True).of_type(FUNCTION))


@pytest.fixture(scope="module")
def facilitator():
    with stub_facilitator() as running:
        yield running


@pytest.fixture(scope="module")
def console(gateway, embedded_aws, facilitator):
    secrets = embedded_aws.client("secretsmanager")
    tokens = f"ann={SECRET},bob={SECRET}-2"
    secret = secrets.create_secret(Name="iam-ops-tokens", SecretString=tokens)["ARN"]
    node = secrets.create_secret(Name="iam-ops-node", SecretString=facilitator.rpc_url)["ARN"]
    bucket = embedded_aws.client("s3")
    bucket.create_bucket(Bucket="policies")
    bucket.put_object(Bucket="policies", Key="kernel/policy.yaml", Body=POLICY)
    embedded_aws.client("ssm").put_parameter(Name=CLIENT_ID, Value="console", Type="String")
    running = gateway(
        api="ConsoleApi",
        PIECEWORK_OPS_ISSUER="https://issuer.example",  # the template's own has no keys here
        PIECEWORK_PARAM_DeployConsole="true",
        PIECEWORK_PARAM_DeployWorkerDoor="true",
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_OpsTokensSecretArn=secret,
        PIECEWORK_PARAM_OpsTokenRoles="ann=viewer,bob=operator+approver",
        PIECEWORK_PARAM_BaseRpcUrlSecretArn=node,
        FACILITATOR_URL=facilitator.url,
        PIECEWORK_PARAM_KernelPolicyBucket="policies",
        PIECEWORK_PARAM_KernelPolicyKey="kernel/policy.yaml",
        PIECEWORK_PARAM_LedgerCompleteFrom="2026-01-01",
    )
    running.http.headers["Authorization"] = f"Bearer {SECRET}"
    return running


@pytest.fixture(scope="module")
def calls(console, gateway, embedded_aws, facilitator):
    """Every call of the door's functions after all of it was used."""
    drive(console)
    runtime = gateway(PIECEWORK_PARAM_DeployConsole="true", PIECEWORK_PARAM_OpsTokensSecretArn="arn")
    sign_in(console)
    read_pieces(console, runtime, embedded_aws)
    read_tasks(console, embedded_aws)
    act(console, embedded_aws)
    decide(console, embedded_aws, facilitator)
    pay_back(console, embedded_aws, facilitator)
    look_at_the_kernel(console, act_on_the_kernel(console, embedded_aws))
    return Counter({call: times for call, times in recorded().items() if call.function in OURS})


def sign_in(console) -> None:
    """Somebody with another client's token: the client's id is read, and no key is asked for."""
    another = token(iss="https://issuer.example", client_id="another", exp=LATER, without=["iat"])
    stranger = {"Authorization": f"Bearer {another}"}
    for method, path in (
        ("GET", "/ops/status"),
        ("POST", "/ops/dead-letters/task/look"),
        ("GET", "/ops/kernel/agents"),
        ("GET", "/ops/kernel/executions/none/stream"),
        ("POST", "/ops/kernel/executions"),
    ):
        answer = console.http.request(method, path, headers=stranger)
        assert answer.status_code == 401 and "not for this console" in answer.json()["error"]


def drive(console) -> None:
    assert console.http.get("/ops/health").json() == {"status": "ok"}
    status = console.http.get("/ops/status").json()
    assert status["doors"] == {"runtime": True, "worker": True, "kernel": True}
    assert all(isinstance(found["dead_letters"], int) for found in status["queues"].values())
    assert set(status["queues"]) == set(QUEUES)
    assert status["paused"] == [] and isinstance(status["paused_agents"], list)  # other tests may have paused some
    assert [found["is_known"] for found in status["oldest"].values()] == [True, True]


def read_pieces(console, runtime, aws) -> None:
    """A piece with a step, evidence and an answer in the bucket, as the runtime door made it; then it is forgotten."""
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
    for wanted in (found["key"], found["attempt_id"]):
        [item] = console.http.get("/ops/find", params={"id": wanted}).json()["items"]
        assert (item["kind"], item["id"]) == ("piece", found["key"])
    read_verdicts(console, runtime, found)
    steps, key = result_steps(aws.client("dynamodb"), "piecework-results"), found["key"]
    steps.record_listed("0" * 64, b'"x"', now_in_ms() // 1000 + 900, piece=key, name="one")
    operator = {"Authorization": f"Bearer {SECRET}-2"}
    forget, why = f"/ops/pieces/{found['key']}/forget", {"reason": "a test of permissions"}
    assert console.http.post(forget, json=why).status_code == 403
    assert console.http.post(forget, json=why, headers=operator).json()["complete"] is True
    assert console.http.get(path).status_code == 404
    assert execute(runtime, request).json()["code"] == "forgotten"


def read_verdicts(console, runtime, piece) -> None:
    """A verdict on that piece's output, which the log has a moment later: in the list and beside the piece."""
    candidate = a_candidate({}, execution_id=piece["execution_id"], candidate_id=f"c-{time.time_ns()}")
    given = runtime.http.post("/verify", json=a_verify_body(candidate=candidate)).json()

    def told(path, **query):
        items = console.http.get(path, params=query).json()["items"]
        return [item for item in items if item["candidate_id"] == candidate["candidate_id"]]

    wait_until(lambda: told("/ops/verdicts", reason="100"))
    [item] = told("/ops/verdicts", candidate_id=candidate["candidate_id"], status="passed")
    assert given["verifier_result_hash"] == item["verifier_result_hash"]
    assert item["output_digest"] == candidate["output_ref"]["digest"] and item["caller"] == "anonymous"
    assert told(f"/ops/pieces/{piece['key']}/verdicts") == [item]
    assert console.http.get(f"/ops/pieces/{'0' * 64}/verdicts").status_code == 404


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
    [item] = console.http.get("/ops/find", params={"id": name}).json()["items"]
    assert item == {"kind": "task", "id": name, "by": "contract_id", "of": None, "at_ms": None, "is_whole": True}
    looked = console.http.get("/ops/find", params={"id": f"0x{'0' * 64}"}).json()["looked"]
    assert {"nonce", "transaction"} <= {one["by"] for one in looked}
    assert console.http.get("/ops/ledger").json()["is_complete"] is True
    assert console.http.get("/ops/tasks/ctr_nobody").status_code == 404
    forget_a_task(console, aws, record, task)


def forget_a_task(console, aws, record, task) -> None:
    """A task that has ended, with a webhook, an event of its stream, a step and a file, all of which go."""
    client, name, s3 = aws.client("dynamodb"), f"ctr_ops{time.time_ns()}", aws.client("s3")
    ended = replace(task, contract_id=name, state=State.FAILED_PERMANENT, due_ms=0)
    ended = replace(ended, settlement=Settlement("not_charged"), has_webhook=True)
    ExecutionsTable(client, "piecework-work", "piecework-due").claim(
        None, replace(ended, payment=replace(task.payment, claim_key=f"8453/0xasset/0xfrom/0x{name}"))
    )
    ContractsTable(client, "piecework-contracts").put(replace(record, contract_id=name))
    work_deliveries(client, "piecework-work").put(Delivery(name, "evt_1", "https://seeker.invalid/", b'{"a":1}'))
    StreamTable(client, "piecework-work").append(stream_of(ended), Event(1, "progress", {"pct": 1}), 2**31)
    steps = work_steps(client, "piecework-work")
    steps.record_listed("1" * 64, b"1", 2**31, piece=attempt_key(name, 1, 1), name="one")
    s3.put_object(Bucket="piecework-local", Key=f"work/{name}/input", Body=b"x")
    s3.put_object(Bucket="piecework-local", Key=f"deliverables/{name}/0", Body=b"x")
    operator, why = {"Authorization": f"Bearer {SECRET}-2"}, {"reason": "a test of permissions"}

    found = console.http.post(f"/ops/tasks/{name}/forget", json=why, headers=operator)

    assert found.json()["complete"] is True, found.text
    assert console.http.get(f"/ops/tasks/{name}").json()["forgotten"]["by"] == "bob"
    assert s3.list_objects_v2(Bucket="piecework-local", Prefix=f"work/{name}/")["Contents"] == []
    assert console.http.post("/ops/tasks/ctr_nobody/forget", json=why, headers=operator).status_code == 404
    working = console.http.post(f"/ops/tasks/{task.contract_id}/forget", json=why, headers=operator)
    assert (working.status_code, working.json()["code"]) == (409, "conflict")


def act(console, aws) -> None:
    """A webhook that is sent again, and dead letters of each queue that are looked at and put back."""
    client, name, why = aws.client("dynamodb"), f"ctr_ops{time.time_ns()}", {"reason": "a test of permissions"}
    operator = {"Authorization": f"Bearer {SECRET}-2"}
    deliveries = work_deliveries(client, "piecework-work")
    deliveries.put(Delivery(name, "evt_1", "https://seeker.invalid/", b"{}", state=DeliveryState.GIVEN_UP, attempt=9))
    resend = f"/ops/tasks/{name}/webhooks/evt_1/resend"
    assert console.http.post(resend, json=why).status_code == 403
    assert console.http.post(resend, json=why, headers=operator).json()["was"] == "given_up"
    for queue in QUEUES:
        url = aws.client("sqs").get_queue_url(QueueName=f"piecework-{queue.replace('_', '-')}-dead-letters")["QueueUrl"]
        aws.client("sqs").send_message(QueueUrl=url, MessageBody='{"kind":"nothing"}')
        path = f"/ops/dead-letters/{queue}"
        assert console.http.post(f"{path}/look", json={}, headers=operator).json()["letters"]
        assert console.http.post(f"{path}/redrive", json=why, headers=operator).json()["put_back"] >= 1
    scope = {"scope": "executor:nobody_serves_it", **why}
    assert console.http.post("/ops/pause", json=scope).status_code == 403
    assert console.http.post("/ops/pause", json=scope, headers=operator).json()["is_new"] is True
    assert [pause["by"] for pause in console.http.get("/ops/pauses").json()["items"]] == ["bob"]
    assert console.http.post("/ops/resume", json=scope, headers=operator).json()["was_paused"] is True
    records = console.http.get("/ops/records").json()["items"]
    assert {record["by"] for record in records} == {"bob"} and len(records) >= 6


def decide(console, aws, facilitator) -> None:
    """A payment in doubt: its evidence, a decision on it, and what is shown of that; a second decision is refused."""
    operator = {"Authorization": f"Bearer {SECRET}-2"}
    name = doubtful(aws.client("dynamodb"), facilitator)
    path = f"/ops/tasks/{name}/payment"
    assert console.http.post(f"{path}/evidence", json={}).status_code == 403
    shown = console.http.post(f"{path}/evidence", json={}, headers=operator).json()
    [transaction] = facilitator.ledger.transactions
    assert shown["chain"]["paid_by"] == transaction and shown["answers"]["paid"]["is_shown"] is True

    word = {"decision": "paid", "transaction": transaction, "reason": "the chain shows it"}
    for evidence, status in (("0" * 64, 409), (shown["evidence"], 200), (shown["evidence"], 409)):
        answer = console.http.post(f"{path}/resolve", json={**word, "evidence": evidence}, headers=operator)
        assert answer.status_code == status, answer.text
    assert "bob decided" in answer.json()["error"] and answer.json()["code"] == "conflict"

    came = [move for move in console.http.get("/ops/ledger").json()["received"] if move["contract_id"] == name]
    assert [(move["transaction"], move["resolution"]["operator"]) for move in came] == [(transaction, "bob")]
    assert came[0]["resolution"]["reason"] == "the chain shows it"
    assert "platform_fee_due" in [owed["kind"] for owed in console.http.get("/ops/ledger").json()["owed"]]
    found = console.http.get(f"/ops/tasks/{name}").json()
    assert (found["state"], found["payment"], found["claim"]) == ("COMPLETED", "settled", "spent")
    records = [one for one in console.http.get("/ops/records").json()["items"] if one["target"] == name]
    assert [one["outcome"].get("failed") for one in records] == ["conflict", None, "conflict"]
    assert {(one["by"], one["verb"]) for one in records} == {("bob", "payment.resolve")}


def pay_back(console, aws, facilitator) -> None:
    """What a failed task owes back, and the word that it was paid; said twice, the second one is refused."""
    client, name = aws.client("dynamodb"), f"ctr_ops{time.time_ns()}"
    bound = replace(a_task(name, created_at_ms=now_in_ms()), due_ms=0)
    paid = facilitator.ledger.send(BASE.usdc, "0x" + "12" * 20, "0x" + "77" * 20, 1500).hash
    receipt = {"success": True, "transaction": paid, "network": "base", "payer": bound.payment.payer}
    ended = moved(
        bound, State.FAILED_PERMANENT, payment_status="settled", receipt=receipt, finished_at_ms=now_in_ms(), payment=""
    )
    owed = owed_by(ended)
    row = LedgerRow(
        "refund_due", name, "task_1", 1, 1500, "eip155:8453", "0x" + "12" * 20, owed.at_ms, owed.transaction
    )
    executions = ExecutionsTable(client, "piecework-work", "piecework-due")
    executions.claim(None, bound)
    executions.move(bound, ended, ledger=[row])
    transaction = facilitator.ledger.send(BASE.usdc, "0x" + "77" * 20, row.wallet, 1500).hash
    operator, path = {"Authorization": f"Bearer {SECRET}-2"}, f"/ops/tasks/{name}/payment/refunded"
    [debt] = console.http.get(f"/ops/tasks/{name}").json()["debts"]
    said = {"debt": debt["debt"], "transaction": transaction}
    assert console.http.post(f"{path}/evidence", json=said).status_code == 403
    shown = console.http.post(f"{path}/evidence", json=said, headers=operator).json()
    assert shown["is_shown"] is True, shown
    word = {**said, "evidence": shown["evidence"], "reason": "a test of permissions"}
    answers = [console.http.post(path, json=word, headers=operator) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409], answers[0].text
    assert "bob said so" in answers[1].json()["error"]
    assert [one["operator"] for one in console.http.get("/ops/ledger").json()["refunds"]] == ["bob"]
    assert console.http.get(f"/ops/tasks/{name}").json()["is_owed_back"] is False


def test_the_door_asks_for_a_credential_and_knows_roles(console):
    assert console.http.get("/ops/status", headers={"Authorization": ""}).status_code == 401
    assert console.http.post("/ops/status").status_code == 405
    assert console.http.get("/ops/nope").status_code == 404
    assert console.http.get("/").headers["location"] == "console/now"


def test_no_function_of_the_door_makes_a_call_that_would_be_refused(calls):
    assert {call.function for call in calls} == OURS - {"OpsFilesFunction"}  # which calls nobody
    assert refused(calls, template_with(**DOORS)) == []


def test_no_function_of_the_door_has_a_permission_that_nothing_uses(calls):
    assert [grant for grant in unused(calls, template_with(**DOORS)) if grant.function in OURS] == []
