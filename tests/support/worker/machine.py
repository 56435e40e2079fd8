"""The whole worker door in real processes: gateway, functions, queues and streams, beside a stub facilitator.

with running_worker(gateway, SSE_MODE="buffered") as worker:
    hired = worker.hire("steady", {"gate": str(path)})      # registered, paid, accepted
    worker.stream(hired, after=2)
"""

import base64
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from eth_account import Account
from eth_account.messages import encode_typed_data

from local.facilitator.server import StubFacilitator
from piecework.jsons import Json
from piecework.worker.chain.networks import BASE
from tests.support.machine import EXECUTORS, ROOT, Gateways, RunningGateway
from tests.support.worker.contracts import WORKER_AGENT_ID, WORKER_WALLET, a_contract
from tests.support.worker.payments import SEEKER_KEY, header, typed_data

HIRED = ROOT / "tests" / "support" / "hired_executors"
STREAM_KEY = "a key that only tests use"


@dataclass
class Hired:
    """A contract and the task that came of it."""

    contract_id: str
    task_id: str
    answer: httpx.Response


@dataclass
class RunningWorker:
    """A worker that can be hired."""

    gateway: RunningGateway
    facilitator: StubFacilitator

    @property
    def http(self) -> httpx.Client:
        return self.gateway.http

    def contract(self, executor: str | None = None, **changes: Json) -> str:
        """Register a contract; returns its id."""
        answer = self.register(executor, **changes)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["contract_id"])

    def register(self, executor: str | None = None, **changes: Json) -> httpx.Response:
        """POST /contracts."""
        wanted = {"task__requirements": [executor]} if executor else {}
        document = a_contract(
            int(time.time() * 1000), **{"task__input_schema": {}, "task__output_schema": {}, **wanted, **changes}
        )
        return self.http.post("/contracts", json={"contract": document})

    def execute(self, contract_id: str, body: Json, *, pay: bool = True) -> httpx.Response:
        """POST /execute, as a stock client does: unpaid first, then with the payment that was asked for."""
        headers = {"X-Contract-ID": contract_id}
        answer = self.http.post("/execute", json=body, headers=headers)
        if pay and answer.status_code == 402:
            answer = self.http.post("/execute", json=body, headers=headers | payment(answer))
        return answer

    def hire(self, executor: str | None, body: Json, **changes: Json) -> Hired:
        """A contract with its paid task."""
        contract_id = self.contract(executor, **changes)
        answer = self.execute(contract_id, body)
        assert answer.status_code in (200, 202), answer.text
        return Hired(contract_id, answer.json()["task_id"], answer)

    def task(self, hired: Hired) -> Json:
        """The task as polling tells it."""
        return self.http.get(f"/tasks/{hired.task_id}", headers={"X-Contract-ID": hired.contract_id}).json()


def payment(asked: httpx.Response) -> dict[str, str]:
    """The header that pays what a 402 asks for, made as the specification says, with none of our own code."""
    entry = json.loads(base64.b64decode(asked.headers["payment-required"]))["accepts"][0]
    authorization = {
        "from": Account.from_key(SEEKER_KEY).address,
        "to": entry["payTo"],
        "value": entry["amount"],
        "validAfter": "0",
        "validBefore": str(int(time.time()) + entry["maxTimeoutSeconds"]),
        "nonce": "0x" + secrets.token_hex(32),
    }
    message = encode_typed_data(full_message=typed_data(authorization, BASE))
    signature = "0x" + Account.sign_message(message, SEEKER_KEY).signature.hex().removeprefix("0x")
    payload = {"signature": signature, "authorization": authorization}
    return {"PAYMENT-SIGNATURE": header({"x402Version": 2, "accepted": entry, "payload": payload})}


@contextmanager
def running_worker(gateways: Gateways, **variables: str | None) -> Iterator[RunningWorker]:
    """A worker of its own, over the session's embedded AWS."""
    with StubFacilitator() as facilitator:
        given = {
            "PIECEWORK_PARAM_DeployWorkerDoor": "true",
            "PIECEWORK_EXECUTORS_PATH": os.pathsep.join(map(str, (EXECUTORS, HIRED))),
            "PIECEWORK_STREAM_KEY": STREAM_KEY,
            "WORKER_WALLETS": WORKER_WALLET,
            "WORKER_AGENT_ID": WORKER_AGENT_ID,
            "FACILITATOR_URL": facilitator.url,
            "BASE_RPC_URL": facilitator.rpc_url,
            **variables,
        }
        running = gateways(api="WorkerApi", fresh=True, **given)
        try:
            yield RunningWorker(running, facilitator)
        finally:
            running.close()
