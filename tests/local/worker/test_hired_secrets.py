"""What every process of the worker writes while it is paid, refused, interrupted and read: no secret is among it."""

import base64
import json
import time

import pytest

from tests.support.machine import wait_until
from tests.support.worker.contracts import EXAMPLE, SECRET, a_contract
from tests.support.worker.machine import STREAM_KEY, payment, running_worker

CALLBACKS = {**EXAMPLE["callbacks"], "webhook_url": "https://seeker.invalid/hook"}  # a name that never resolves


@pytest.fixture(scope="module")
def worker(gateway):
    with running_worker(gateway, POWERTOOLS_LOG_LEVEL="DEBUG") as running:
        yield running


def a_hooked_contract(worker, executor):
    document = a_contract(
        int(time.time() * 1000),
        task__requirements=[executor],
        task__input_schema={},
        task__output_schema={},
        callbacks=CALLBACKS,
    )
    answer = worker.http.post("/contracts", json={"contract": document, "webhook_secret": SECRET})
    assert answer.status_code == 201, answer.text
    assert SECRET not in answer.text
    return document["contract_id"]


def pay(worker, contract_id, body, spoil=""):
    """Ask, then pay, with a header that may be spoilt; the secrets of the payment, and the answer."""
    headers = {"X-Contract-ID": contract_id}
    [(name, value)] = payment(worker.http.post("/execute", json=body, headers=headers)).items()
    document = json.loads(base64.b64decode(value))
    signature = document["payload"]["signature"]
    if spoil:
        document["payload"]["signature"] = signature[:-4] + spoil
        value = base64.b64encode(json.dumps(document).encode()).decode()
    answer = worker.http.post("/execute", json=body, headers={**headers, name: value})
    return [value, signature[2:-4]], answer


def queries_of(text):
    """The signed queries of every address in an answer."""
    return [part.partition('"')[0] for part in text.split("?")[1:] if "Signature" in part or part.startswith("st=")]


def test_no_process_writes_and_no_answer_repeats_a_secret(worker, tmp_path):
    gate = tmp_path / "gate"
    gate.write_text("0")
    short, long, unpaid, forged, garbled = (
        a_hooked_contract(worker, name) for name in ("echo", "steady", "echo", "echo", "echo")
    )
    payments, answers = [], []
    for contract_id, body, word, spoil in (
        (short, {"brief": "b"}, "ok", ""),
        (long, {"gate": str(gate)}, "ok", ""),
        (unpaid, {"brief": "b"}, "fail:insufficient_funds", ""),
        (forged, {"brief": "b"}, "ok", "0000"),
    ):
        worker.facilitator.say("settle", word)
        used, answer = pay(worker, contract_id, body, spoil)
        payments += used
        answers.append(answer)
    sent = base64.b64encode(b"not JSON, but secret all the same").decode()
    answers.append(worker.http.post("/execute", json={}, headers={"X-Contract-ID": garbled, "PAYMENT-SIGNATURE": sent}))
    worker.facilitator.say("settle", "ok")
    gate.write_text("4")
    streamed = worker.http.get(answers[1].json()["stream_url"])
    found = {"X-Contract-ID": long}
    task = f"/tasks/{answers[1].json()['task_id']}"
    wait_until(lambda: worker.http.get(task, headers=found).json()["status"] == "completed", seconds=60)
    wait_until(lambda: worker.gateway.logged().count("worker-webhook") >= 2)
    again = worker.http.post("/execute", json={"brief": "b"}, headers={"X-Contract-ID": short})

    logged = worker.gateway.logged()
    links = queries_of(answers[0].text) + queries_of(answers[1].text) + queries_of(again.text)
    assert [answer.status_code for answer in answers] == [200, 202, 402, 402, 400]
    assert len(links) >= 3 and streamed.status_code == 200 and '"outcome"' in logged
    assert [secret for secret in (*payments, *links, sent, SECRET, STREAM_KEY) if secret in logged] == []
    for answer in (*answers, again):
        told = answer.text + str(answer.headers)
        assert [secret for secret in (*payments, sent, SECRET, STREAM_KEY) if secret in told] == []
