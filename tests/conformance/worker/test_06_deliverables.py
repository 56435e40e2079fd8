"""Worker conformance, cases 51, 59 to 61, and the three functions of a hired task over the embedded AWS."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock
from uuid import uuid4

import httpx
import pytest

from local.facilitator.server import StubFacilitator
from piecework.aws.transport.caller import Caller
from piecework.aws.transport.connections import Answer
from piecework.clock import now_in_ms
from piecework.jsons import Json
from piecework.worker.contract.contracts import ContractRecord, validate
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.deliverables_bucket import DeliverablesBucket
from tests.support.machine import EXECUTORS, Aws
from tests.support.worker.contracts import IDENTITY, a_contract
from tests.support.worker.handlers import EMULATED_KEY, PUBLIC_BASE_URL, Handler, handler
from tests.support.worker.handlers import Answer as Reply
from tests.support.worker.payments import header, signed_payload
from tests.support.worker.stage import stub_facilitator

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


Handle = Callable[[dict[str, Json], object], Json]  # a function's entry point


@dataclass
class Door:
    """The functions of the worker door, and what stands behind them."""

    hire: Handler
    task: Handle
    due: Handle
    aws: Aws
    variables: dict[str, str]
    stub: StubFacilitator

    def contract(self, **changes: Json) -> ContractRecord:
        now = now_in_ms()
        record = validate(a_contract(now, **{"task__requirements": ["scripted"], **changes}), None, IDENTITY, now)
        ContractsTable(self.aws.client("dynamodb"), self.variables["PIECEWORK_CONTRACTS_TABLE"]).put(record)
        return record

    def post(self, contract: ContractRecord, body: Json, *, pay: bool = True, longest_ms: int = 120_000) -> Reply:
        headers = {"X-Contract-ID": [contract.contract_id]}
        if pay:
            terms = PaymentTerms.of(contract, longest_ms, PUBLIC_BASE_URL)
            payload = signed_payload(terms, now=int(time.time()), nonce="0x" + secrets.token_hex(32))
            headers["PAYMENT-SIGNATURE"] = [header(payload)]
        return self.hire("POST", "/execute", body, headers=headers)

    def poll(self, contract: ContractRecord, task_id: str) -> Reply:
        return self.hire(
            "GET",
            f"/tasks/{task_id}",
            resource="/tasks/{task_id}",
            params={"task_id": task_id},
            headers={"X-Contract-ID": [contract.contract_id]},
        )

    def messages(self, queue: str) -> list[dict[str, str]]:
        """Take what lies in a queue."""
        sqs = self.aws.client("sqs")
        url = self.variables[queue]
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [{"messageId": message["MessageId"], "body": message["Body"]} for message in found]


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 900_000


@pytest.fixture(scope="module")
def door(embedded_aws):
    sqs = embedded_aws.client("sqs")
    with stub_facilitator() as stub, contextlib.ExitStack() as stack:
        variables = {
            **embedded_aws.variables,
            "PIECEWORK_CONTRACTS_TABLE": embedded_aws.new_table("ContractsTable"),
            "PIECEWORK_WORK_TABLE": embedded_aws.new_table("WorkTable"),
            "PIECEWORK_DUE_TABLE": embedded_aws.new_table("DueTable"),
            "PIECEWORK_BUCKET": embedded_aws.new_bucket(),
            "FACILITATOR_URL": stub.url,
            "BASE_RPC_URL": stub.rpc_url,
            "PIECEWORK_EXECUTORS_PATH": str(EXECUTORS),
            "PIECEWORK_DELIVERABLES_KEY_ARN": EMULATED_KEY,
        }
        for name in ("TASK", "DUE", "WEBHOOK"):
            made = sqs.create_queue(QueueName=f"{name.lower()}-{uuid4().hex}")
            variables[f"PIECEWORK_{name}_QUEUE_URL"] = made["QueueUrl"]
        stack.enter_context(mock.patch.dict(os.environ, variables))
        made = [stack.enter_context(handler(f"worker.{name}.app", variables)) for name in ("hire", "task", "due")]
        yield Door(made[0], made[1].handle, made[2].handle, embedded_aws, variables, stub)


@pytest.fixture(autouse=True)
def fresh(door):
    door.stub.reset()


def script(**wishes: Json) -> dict[str, Json]:
    return {"brief": "b", "output": {"score": 7}, **wishes}


def fetch(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False)


def test_deliverable_checksum(door):
    contract = door.contract()
    svg = "<svg xmlns='http://www.w3.org/2000/svg'/>"

    answer = door.post(
        contract, script(artifacts=[["plan.txt", "the plan", "text/plain"], ["a.svg", svg, "image/svg+xml"]])
    )

    assert answer.status == 200, answer.text
    entries = answer.json()["deliverables"]
    assert [entry["name"] for entry in entries] == ["plan.txt", "a.svg"]
    for entry in entries:
        got = fetch(entry["url"])
        assert "sha256:" + hashlib.sha256(got.content).hexdigest() == entry["checksum"]
        assert got.status_code == 200 and len(got.content) == entry["size"]
        assert got.headers["content-type"] == entry["mime"]
        assert re.match(r"attachment; filename=\"[^\"]+\"; filename\*=UTF-8''", got.headers["content-disposition"])


def test_deliverable_traversal(door):
    contract = door.contract()
    names = ["../../etc/passwd", "a/b", ".env", "x\0.png", "photo\u202egnp.exe"]

    body = door.post(contract, script(artifacts=[[name, "x", "text/plain"] for name in names])).json()

    assert [entry["name"] for entry in body["deliverables"]] == ["etc_passwd", "a_b", "env", "x_.png", "photo_gnp.exe"]
    listed = door.aws.client("s3").list_objects_v2(Bucket=door.variables["PIECEWORK_BUCKET"])
    keys = [item["Key"] for item in listed["Contents"] if contract.contract_id in item["Key"]]
    start = f"deliverables/{contract.contract_id}/{body['task_id']}/g1/"
    assert all(key.startswith(start) and key.rpartition("/")[2] == f"{n:03d}" for n, key in enumerate(sorted(keys)))


def test_inline_too_big(door):
    contract = door.contract(task__output_schema={})

    body = door.post(contract, {"brief": "b", "output": "x" * (2 * 1024 * 1024)} | {"brief": "b"}).json()

    assert body.get("error", {}).get("code") == "PAYLOAD_TOO_LARGE"  # as an input; an executor may still make as much
    big = door.contract(task__output_schema={})
    body = door.post(big, {"brief": "b", "repeat": ["x", 2 * 1024 * 1024]}).json()
    assert body["output"]["type"] == "file" and body["output"]["mime"] == "text/plain; charset=utf-8"
    assert len(fetch(body["output"]["url"]).content) == 2 * 1024 * 1024 == body["output"]["size"]


def test_poll_reissues_urls(door):
    contract = door.contract()
    first = door.post(contract, script(artifacts=[["plan.txt", "the plan", "text/plain"]])).json()
    time.sleep(1.1)  # a signature's time is in seconds

    second = door.poll(contract, first["task_id"]).json()

    before, after = first["deliverables"][0], second["deliverables"][0]
    assert before["url"] != after["url"] and before["checksum"] == after["checksum"]
    assert fetch(before["url"]).content == fetch(after["url"]).content == b"the plan"
    assert after["expires_at"] > first["metadata"]["completed_at"]


def test_a_deliverable_lies_under_a_kms_key_and_its_link_opens_it(door):
    contract = door.contract()
    body = door.post(contract, script(artifacts=[["plan.txt", "the plan", "text/plain"]])).json()
    s3, bucket = door.aws.client("s3"), door.variables["PIECEWORK_BUCKET"]
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"deliverables/{contract.contract_id}/")["Contents"]

    heads = [door.aws.boto3("s3").head_object(Bucket=bucket, Key=item["Key"]) for item in listed]

    assert [head["ServerSideEncryption"] for head in heads] == ["aws:kms"]
    assert [head["SSEKMSKeyId"] for head in heads] == [EMULATED_KEY]
    assert fetch(body["deliverables"][0]["url"]).content == b"the plan"


def test_without_an_own_key_s3_is_left_to_choose_the_accounts(door, monkeypatch):
    """A fresh account has no `alias/aws/s3` until S3 makes it, which it does for a write that names no key."""
    s3, sent = door.aws.clients.s3, []

    def answered(request, *_):
        sent.append(request.headers)
        return Answer(200, {}, b"")

    monkeypatch.setattr(Caller, "sent", lambda caller, *given: answered(*given))

    DeliverablesBucket(lambda: s3, "any").put("deliverables/x", b"x", hashlib.sha256(b"x").digest(), "text/plain", "a")

    [headers] = sent
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert not [name for name in headers if "kms-key-id" in name.lower()]


def test_a_deliverable_lies_under_the_operators_key_where_there_is_one(door):
    s3, bucket = door.aws.client("s3"), door.variables["PIECEWORK_BUCKET"]
    key, name = "arn:aws:kms:us-east-1:000000000000:key/mine", f"deliverables/{uuid4().hex}"
    shelf = DeliverablesBucket(lambda: s3, bucket, key=key)

    shelf.put(name, b"x", hashlib.sha256(b"x").digest(), "text/plain", "attachment")

    assert door.aws.boto3("s3").head_object(Bucket=bucket, Key=name)["SSEKMSKeyId"] == key
    assert fetch(shelf.link(name).url).content == b"x"


def test_a_file_that_was_deleted_is_told_without_a_dead_link(door):
    contract = door.contract()
    body = door.post(contract, script(artifacts=[["plan.txt", "the plan", "text/plain"]])).json()
    s3, bucket = door.aws.client("s3"), door.variables["PIECEWORK_BUCKET"]
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        if contract.contract_id in item["Key"]:
            s3.delete_object(Bucket=bucket, Key=item["Key"])

    (entry,) = door.poll(contract, body["task_id"]).json()["deliverables"]

    assert "url" not in entry and entry["details"]["status"] == 410 and entry["name"] == "plan.txt"


def test_a_second_request_repeats_the_receipt(door):
    contract = door.contract()
    first = door.post(contract, script())

    second = door.post(contract, script(), pay=False)

    assert first.status == second.status == 200
    assert first.headers["PAYMENT-RESPONSE"] == second.headers["PAYMENT-RESPONSE"]
    assert door.stub.count("settle") == 1


def test_a_large_input_and_result_take_the_way_over_the_bucket(door):
    contract = door.contract()
    text = "ü" * 20_000

    body = door.post(contract, script(output={"score": 7, "text": text})).json()

    assert body["output"]["content"]["text"] == text
    assert door.poll(contract, body["task_id"]).json()["output"] == body["output"]


def test_a_queued_task_is_done_by_the_task_function(door):
    contract = door.contract(task__requirements=["scripted"], sla__max_latency_ms=1_000)
    answer = door.post(contract, script(artifacts=[["plan.txt", "p", "text/plain"]]))
    assert answer.status == 202
    messages = door.messages("PIECEWORK_TASK_QUEUE_URL")
    assert [sorted(json.loads(message["body"])) for message in messages] == [
        ["attempt", "contract_id", "generation", "kind", "task_id"]
    ]

    assert door.task({"Records": messages}, Context()) == {"batchItemFailures": []}

    body = door.poll(contract, answer.json()["task_id"]).json()
    assert body["status"] == "completed" and body["payment"]["status"] == "settled"
    assert door.task({"Records": messages}, Context()) == {"batchItemFailures": []}
    assert door.stub.count("settle") == 1


def test_a_due_time_passes_through_the_due_function_to_the_task(door):
    door.stub.say("settle", "500", "ok")
    contract = door.contract()
    answer = door.post(contract, script())
    assert answer.status == 202
    executions = executions_of(door)
    standing = executions.read(contract.contract_id)
    early = door.due({"source": "aws.events"}, Context())
    assert early == {"failed": 0} and now_in_ms() < standing.due_ms
    message = json.dumps({"kind": "task", "contract_id": contract.contract_id, "due_ms": standing.due_ms})

    assert door.due({"Records": [{"messageId": "1", "body": message}]}, Context()) == {"batchItemFailures": []}

    assert [json.loads(found["body"]) for found in door.messages("PIECEWORK_TASK_QUEUE_URL")] == [json.loads(message)]


def executions_of(door):
    from piecework.worker.store.executions_table import ExecutionsTable

    variables = door.variables
    return ExecutionsTable(
        door.aws.client("dynamodb"), variables["PIECEWORK_WORK_TABLE"], variables["PIECEWORK_DUE_TABLE"]
    )


def test_a_message_that_could_not_be_handled_comes_back(door):
    records = [
        {"messageId": "1", "body": "not json"},
        {"messageId": "2", "body": '{"kind":"task","contract_id":"ctr_x"}'},
    ]

    assert door.task({"Records": records}, Context()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_what_a_paid_task_costs_in_requests(door, monkeypatch):
    contract = door.contract()
    calls: list[str] = []
    sent = Caller.sent

    def counted(caller, request, *given):
        calls.append(request.operation)
        return sent(caller, request, *given)

    monkeypatch.setattr(Caller, "sent", counted)

    answer = door.post(contract, script(artifacts=[["plan.txt", "p", "text/plain"]]))

    assert answer.status == 200
    assert sorted(calls) == ["GetItem"] * 2 + ["PutObject"] + ["TransactWriteItems"] * 3
    assert (door.stub.count("verify"), door.stub.count("settle")) == (1, 1)
