"""The worker door's functions and their roles agree, both ways."""

import base64
import json
import time
from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.support.aws_calls import recorded
from tests.support.contracts import EXAMPLE, SECRET, a_contract
from tests.support.machine import wait_until
from tests.support.roles import FUNCTION, refused, template_with, unused
from tests.support.worker_machine import Hired, running_worker

OWN = Path(__file__).parent / "hired"
SWEEP_SECONDS = 61  # the schedule's first minute
INPUT = {"brief": "b" * 20_000}  # over what an item keeps
CALLBACKS = {**EXAMPLE["callbacks"], "webhook_url": "https://seeker.invalid/hook"}  # a name that never resolves

# Permissions that no call here can show, and why they are needed.
BY_LAMBDA = {
    "sqs:ReceiveMessage": "Lambda's pollers take messages with the function's role",
    "sqs:DeleteMessage": "and delete those that were taken",
    "sqs:GetQueueAttributes": "and look how long the queue is",
}
NOT_SHOWN = {
    ("WebhookFunction", "dynamodb:PutItem"): "only a seeker's 410 leads to it; held by the adapter's contract tests",
}


def a_facilitator_key() -> str:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return json.dumps({"id": "key-1", "privateKey": base64.b64encode(private + public).decode()})


@pytest.fixture(scope="module")
def worker(gateway, embedded_aws):
    secrets = embedded_aws.client("secretsmanager")
    arns = {
        name: secrets.create_secret(Name=f"iam-worker-{name}", SecretString=text)["ARN"]
        for name, text in {
            "stream": "a stream key",
            "executors": '{"PERMITTED_KEY":"value"}',
            "facilitator": a_facilitator_key(),
        }.items()
    }
    with running_worker(
        gateway,
        PIECEWORK_EXECUTORS_PATH=str(OWN),
        PIECEWORK_STREAM_KEY="",
        PIECEWORK_STREAM_KEY_ARN=arns["stream"],
        PIECEWORK_PARAM_ExecutorSecretArn=arns["executors"],
        PIECEWORK_PARAM_FacilitatorAuthSecretArn=arns["facilitator"],
    ) as running:
        yield running


@pytest.fixture(scope="module")
def calls(worker):
    """Every call of the worker's functions after all of it was used."""
    began = time.monotonic()
    drive(worker)
    time.sleep(max(0.0, SWEEP_SECONDS - (time.monotonic() - began)))
    ours = set(template_with(worker=True).of_type(FUNCTION)) - set(template_with().of_type(FUNCTION))
    return Counter({call: times for call, times in recorded().items() if call.function in ours})


def drive(worker) -> None:
    """Hire a short and a long executor, each with a webhook, a settlement that is unclear at first, and a reader."""
    for executor, status in (("thorough", 202), ("patient", 202)):
        worker.facilitator.say("settle", "pending500", "ok")
        hired = hire(worker, executor)
        assert hired.answer.status_code == status
        wait_until(lambda hired=hired: worker.task(hired)["status"] == "completed", seconds=120)
        read(worker, hired)
    assert hire(worker, "thorough").answer.status_code == 200


def hire(worker, executor) -> Hired:
    document = a_contract(
        int(time.time() * 1000),
        task__requirements=[executor],
        task__output_schema={},
        callbacks=CALLBACKS,
    )
    for status in (201, 200):
        body = {"contract": document, "webhook_secret": SECRET}
        assert worker.http.post("/contracts", json=body).status_code == status
    contract_id = document["contract_id"]
    assert worker.http.get(f"/contracts/{contract_id}").json()["state"] == "SIGNED"
    answer = worker.execute(contract_id, INPUT)
    return Hired(contract_id, answer.json()["task_id"], answer)


def read(worker, hired) -> None:
    """By header, and by the token of the URL that was handed out."""
    path = f"/stream/{hired.task_id}"
    assert "event: done" in worker.http.get(path, headers={"X-Contract-ID": hired.contract_id}).text
    assert "event: done" in worker.http.get(hired.answer.json()["stream_url"]).text


@pytest.mark.slow
def test_no_function_of_the_worker_makes_a_call_that_would_be_refused(calls):
    assert calls
    assert refused(calls, template_with(worker=True)) == []


@pytest.mark.slow
def test_no_function_of_the_worker_has_a_permission_that_nothing_uses(calls):
    runtime = set(template_with().of_type(FUNCTION))

    found = [grant for grant in unused(calls, template_with(worker=True)) if grant.function not in runtime]

    left = [grant for grant in found if grant.action not in BY_LAMBDA]
    assert [grant for grant in left if (grant.function, grant.action) not in NOT_SHOWN] == []
    assert {(grant.function, grant.action) for grant in left} == set(NOT_SHOWN)
