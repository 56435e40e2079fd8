"""A worker door behind a URL, as its cases ask it: contracts signed by both parties, payments, real HTTP, real time.

The contracts are signed with development keys, as `make run` has the worker's; another wallet's key must be given.
Where the caller names the stub facilitator that the door pays through, it is told what to answer and asked what it saw.
"""

import json
import secrets
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from piecework.worker.contract.contracts import ContractRecord, WorkerIdentity, validate
from piecework.worker.settings import WorkerSettings
from tests.support.served import url_run
from tests.support.worker.contracts import SEEKER_KEY, SETTINGS, a_contract
from tests.support.worker.payments import decoded, header, signed_payload
from tests.support.worker.stage import BODY, Told

PATIENCE_SECONDS = 60.0  # for a task that ends by itself
NO_REQUIREMENT = {"type": "object"}  # the door's default executor need not answer what the example's contract wants


class ServedStub:
    """The stub facilitator that the door pays through, by its `/control`."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self.tell({"reset": True})
        self._before = len(self.told()["charges"])

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What it was asked about payments."""
        return [call for call in self.told()["calls"] if call["call"] != "supported"]

    def count(self, call: str, nonce: str | None = None) -> int:
        return sum(one["call"] == call and nonce in (None, one.get("nonce")) for one in self.calls)

    def charges(self) -> int:
        """How often money has moved since this case began."""
        return len(self.told()["charges"]) - self._before

    def say(self, call: str, *words: str) -> None:
        self.tell({call: ",".join(words)})

    def tell(self, control: dict[str, Any]) -> None:
        self._http.put("/control", json=control).raise_for_status()

    def told(self) -> dict[str, Any]:
        return dict(self._http.get("/control").raise_for_status().json())

    def close(self) -> None:
        self.tell({"reset": True})
        self._http.close()


class ServedStage:
    """The door at the URL."""

    def __init__(self, http: httpx.Client, stub: ServedStub | None, node: pytest.Item) -> None:
        self._http, self.stub, self._node = http, stub, node
        manifest = http.get("/manifest").raise_for_status().json()
        self.base: str = manifest["endpoint"]["url"]
        self._identity = WorkerIdentity.of(WorkerSettings.from_env({**SETTINGS, "PUBLIC_BASE_URL": self.base}))
        self._terms: dict[str, Any] = {}  # what is asked is asked once: the same contract may be paid later
        self._pending: list[tuple[ContractRecord, str]] = []

    def clock(self) -> int:
        return int(time.time() * 1000)

    def contract(self, **changes: Any) -> ContractRecord:
        """A contract that the door has taken in."""
        given = {"task__output_schema": NO_REQUIREMENT, **changes}
        document = a_contract(self.clock(), **given)
        answer = self._http.post("/contracts", json={"contract": document})
        assert answer.status_code == 201, answer.text
        return validate(document, None, self._identity, self.clock())

    def payload(self, contract: ContractRecord, **changes: Any) -> dict[str, Any]:
        terms: Any = self._terms.setdefault(contract.contract_id, None) or self._asked(contract)
        self._terms[contract.contract_id] = terms
        given = {"key": SEEKER_KEY, "nonce": "0x" + secrets.token_hex(32), "now": self.clock() // 1000, **changes}
        return signed_payload(terms, **given)

    def _asked(self, contract: ContractRecord) -> SimpleNamespace:
        """What the door's own 402 asks for, as a client reads it; what is wrong with it a case will see."""
        asked = _told(self._http.post("/execute", json=BODY, headers={"X-Contract-ID": contract.contract_id}))
        assert asked.status == 402, asked.text
        entry = decoded(asked.headers["PAYMENT-REQUIRED"])["accepts"][0]
        return SimpleNamespace(
            pay_to=entry["payTo"],
            atomic=int(entry["amount"]),
            max_timeout_seconds=entry["maxTimeoutSeconds"],
            network=contract.network,
            entry=lambda version: entry,
        )

    def pay(self, contract: ContractRecord, **changes: Any) -> dict[str, list[str]]:
        """The header of a fresh payment."""
        return {"PAYMENT-SIGNATURE": [header(self.payload(contract, **changes))]}

    def post(self, contract: ContractRecord | str, body: Any = BODY, *headers: dict[str, list[str]]) -> Told:
        """POST /execute; what is pending after it is waited for by `settle_down`."""
        name = contract if isinstance(contract, str) else contract.contract_id
        given = [("X-Contract-ID", name)] if name else []
        given += [(key, value) for one in headers for key, values in one.items() for value in values]
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = _told(self._http.post("/execute", content=raw, headers=[*given, ("content-type", "application/json")]))
        if told.status == 202 and isinstance(contract, ContractRecord):
            self._pending.append((contract, told.body["task_id"]))
        return told

    def get(self, contract: ContractRecord | str | None, task_id: str) -> Told:
        """GET /tasks/{task_id}."""
        name = contract.contract_id if isinstance(contract, ContractRecord) else contract
        return _told(self._http.get(f"/tasks/{task_id}", headers={"X-Contract-ID": name} if name else {}))

    def is_free(self, contract: ContractRecord) -> bool:
        """Whether nobody has claimed it: then a payment is asked for."""
        return self.post(contract).status == 402

    def settle_down(self) -> None:
        """Wait until what was pending has ended."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while self._pending:
            contract, task_id = self._pending[-1]
            if self.get(contract, task_id).body["status"] != "pending":
                self._pending.pop()
                continue
            assert time.monotonic() < ends, "a task does not end"
            time.sleep(0.5)

    def settles(self) -> int:
        assert self.stub
        return self.stub.count("settle")

    def charges(self) -> int:
        """How often money moved: the facilitator's truth."""
        assert self.stub
        return self.stub.charges()

    def ran(self, times: int) -> None:
        """How often an executor ran is not seen over a URL."""
        url_run.held_back(self._node.config, "how often an executor ran", self._node)


def _told(answer: httpx.Response) -> Told:
    return Told(answer.status_code, answer.headers, answer.text)  # type: ignore[arg-type]
