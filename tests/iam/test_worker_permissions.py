"""The worker door's functions and their roles agree, both ways."""

import base64
import json
import time
from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.iam.alone import stop, sweep
from tests.support.aws_calls import recorded
from tests.support.machine import wait_until
from tests.support.roles import EXCEPTIONS, FUNCTION, grants_of, refused, statements_of, template_with, unused
from tests.support.worker.contracts import EXAMPLE, SECRET, a_contract
from tests.support.worker.machine import Hired, running_worker

pytestmark = pytest.mark.slow  # waits for the minute's sweep of the due times

OWN = Path(__file__).parent / "hired"
OURS = set(template_with(worker=True).of_type(FUNCTION)) - set(template_with().of_type(FUNCTION))
WEBHOOK = "WebhookFunction"
INPUT = {"brief": "b" * 20_000}  # over what an item keeps
CALLBACKS = {**EXAMPLE["callbacks"], "webhook_url": "https://seeker.invalid/hook"}  # a name that never resolves


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
            "node": "it is known when the facilitator runs",
        }.items()
    }
    with running_worker(
        gateway,
        PIECEWORK_EXECUTORS_PATH=str(OWN),
        PIECEWORK_STREAM_KEY="",
        PIECEWORK_STREAM_KEY_ARN=arns["stream"],
        PIECEWORK_PARAM_ExecutorSecretArn=arns["executors"],
        PIECEWORK_PARAM_FacilitatorAuthSecretArn=arns["facilitator"],
        PIECEWORK_PARAM_BaseRpcUrlSecretArn=arns["node"],
        BASE_RPC_URL="",
        BASE_RPC_URL_SECRET_ARN=arns["node"],
    ) as running:
        secrets.put_secret_value(SecretId=arns["node"], SecretString=running.facilitator.rpc_url)
        yield running


@pytest.fixture(scope="module")
def calls(worker, embedded_aws):
    """Every call of the worker's functions after all of it was used."""
    drive(worker)
    assert json.loads(sweep(embedded_aws))["failed"] == 0
    assert stop(embedded_aws) == "stopped"
    return Counter({call: times for call, times in recorded().items() if call.function in OURS})


def drive(worker) -> None:
    """Hire a short and a long executor, each with a webhook, a settlement sent at the second try, and a reader."""
    for executor in ("thorough", "patient"):
        worker.facilitator.say("settle", "401", "ok")
        hired = hire(worker, executor)
        assert hired.answer.status_code == 202
        wait_until(lambda hired=hired: worker.task(hired)["status"] == "completed", seconds=60)
        read(worker, hired)
    assert hire(worker, "thorough").answer.status_code == 200
    wait_until(lambda: any(call.action == "dynamodb:UpdateItem" for call in recorded() if call.function == WEBHOOK))


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


def test_no_function_of_the_worker_makes_a_call_that_would_be_refused(calls):
    assert {call.function for call in calls} == OURS
    assert refused(calls, template_with(worker=True)) == []


def test_no_function_of_the_worker_has_a_permission_that_nothing_uses(calls):
    assert ours(unused(calls, template_with(worker=True))) == []


def test_any_permission_of_the_worker_that_is_taken_away_is_missed(calls):
    template = template_with(worker=True)
    needed = [grant for grant in sorted(ours(grants_of(template))) if grant.action not in EXCEPTIONS]

    for grant in needed:

        def without(raw, grant=grant):
            [statement] = [entry for entry in statements_of(raw, grant.function) if entry["Sid"] == grant.sid]
            statement["Action"].remove(grant.action)

        missed = refused(calls, template_with(without, worker=True))
        assert {(call.function, call.action) for call in missed} == {(grant.function, grant.action)}, grant
    assert needed


@pytest.mark.parametrize("function", sorted(OURS))
@pytest.mark.parametrize("action", ["dynamodb:Scan", "sqs:PurgeQueue", "s3:ListBucket"])
def test_any_permission_that_is_added_to_the_worker_is_found(calls, function, action):
    def extra(raw):
        resource = {"Fn::GetAtt": ["Bucket", "Arn"]}
        entry = {"Sid": "Extra", "Effect": "Allow", "Action": [action], "Resource": resource}
        statements_of(raw, function).append(entry)

    found = ours(unused(calls, template_with(extra, worker=True)))

    assert [(grant.function, grant.action) for grant in found] == [(function, action)]


def ours(grants):
    return [grant for grant in grants if grant.function in OURS]
