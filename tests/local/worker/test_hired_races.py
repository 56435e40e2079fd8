"""The worker door in real processes when many ask at once, and when its process is killed around a settlement."""

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.machine import wait_until
from tests.support.worker.machine import payment, running_worker

BODY = {"brief": "hello"}


@pytest.fixture(scope="module")
def worker(gateway):
    with running_worker(gateway) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(worker):
    worker.facilitator.reset()


def asked(worker, contract_id):
    """The header of one payment for a contract."""
    return payment(worker.http.post("/execute", json=BODY, headers={"X-Contract-ID": contract_id}))


def settlements(worker, header):
    """How often one payment was sent to be settled, and charged; an earlier file's task may end here, too."""
    [value] = header.values()
    nonce = json.loads(base64.b64decode(value))["payload"]["authorization"]["nonce"]
    charges = [charge for charge in worker.facilitator.ledger.charges() if charge.nonce == nonce]
    return worker.facilitator.count("settle", nonce), len(charges)


def send(worker, contract_id, header):
    return worker.http.post("/execute", json=BODY, headers={"X-Contract-ID": contract_id} | header)


def test_thirty_identical_paid_requests_are_one_run_one_settlement_and_one_task(worker):
    contract_id = worker.contract("nonce")
    header = asked(worker, contract_id)

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: send(worker, contract_id, header), range(30)))

    assert {answer.status_code for answer in answers} <= {200, 202}
    (task_id,) = {answer.json()["task_id"] for answer in answers}
    poll = {"X-Contract-ID": contract_id}
    wait_until(lambda: worker.http.get(f"/tasks/{task_id}", headers=poll).json()["status"] == "completed")
    assert worker.gateway.runs(contract_id) == 1
    assert settlements(worker, header) == (1, 1)


def test_one_payment_on_two_contracts_from_twenty_threads_has_one_winner(worker):
    contracts = [worker.contract("nonce"), worker.contract("nonce")]
    header = asked(worker, contracts[0])

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: (n % 2, send(worker, contracts[n % 2], header)), range(20)))

    taken = {which for which, answer in answers if answer.status_code in (200, 202)}
    assert len(taken) == 1
    assert {answer.status_code for which, answer in answers if which not in taken} == {409}
    (winner,) = taken
    wait_until(lambda: send(worker, contracts[winner], {}).status_code == 200)
    assert worker.gateway.runs(contracts[winner]) == 1 and worker.gateway.runs(contracts[1 - winner]) == 0
    assert settlements(worker, header) == (1, 1)


@pytest.mark.slow  # the lost settlement's lease lasts half a minute
def test_a_worker_killed_between_settlement_and_record_completes_and_charges_once(worker):
    contract_id = worker.contract("echo")
    header, before = asked(worker, contract_id), len(worker.facilitator.ledger.charges())
    worker.facilitator.say("settle", "lost", "ok")  # the money moves, and no answer comes
    thread = threading.Thread(target=lambda: send(worker, contract_id, header), daemon=True)
    thread.start()
    wait_until(lambda: len(worker.facilitator.ledger.charges()) == before + 1)

    assert worker.gateway.kill("worker.hire.app.handler") >= 1

    answers = []

    def completed():
        answers.append(send(worker, contract_id, {}))
        return answers[-1].status_code == 200

    wait_until(completed, seconds=120)
    assert {answer.status_code for answer in answers} <= {200, 202, 502}  # 502: the gateway lost the killed process
    body = answers[-1].json()
    assert body["payment"]["status"] == "settled" and "payment-response" in answers[-1].headers
    assert len(worker.facilitator.ledger.charges()) == before + 1
