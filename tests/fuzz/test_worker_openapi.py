"""The worker door answers no request in a way that its published OpenAPI document does not have."""

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

from local.gateway.lambdas.variables import ROOT
from tests.fuzz.fuzzing import CHECKS, FIXED, OF_NARROWED, fuzzed
from tests.support.worker.contracts import a_contract
from tests.support.worker.machine import RunningWorker, payment, running_worker

PUBLISHED = ROOT / "docs" / "openapi" / "worker.json"
BODY = {"brief": "b"}
HIRED = 2


@pytest.fixture(scope="module")
def worker(gateway):
    with running_worker(gateway) as running:
        yield running


def narrowed(worker: RunningWorker) -> dict[str, Any]:
    """The published document with contracts, tasks and payments that there are, so that requests get to the core."""
    made: dict[str, Any] = copy.deepcopy(json.loads(PUBLISHED.read_text("utf-8")))
    hired = [worker.hire("echo", BODY) for _ in range(HIRED)]
    unpaid = [worker.contract("echo") for _ in range(3)]
    asked = worker.execute(unpaid[0], BODY, pay=False)
    payments = [payment(asked)["PAYMENT-SIGNATURE"] for _ in range(4)]
    contracts = {"type": "string", "enum": [*unpaid, *(one.contract_id for one in hired)]}
    narrow = {
        "X-Contract-ID": contracts,
        "contract_id": contracts,
        "task_id": {"type": "string", "enum": [one.task_id for one in hired]},
        "PAYMENT-SIGNATURE": {"type": "string", "enum": [*payments, "e30=", "x"]},
    }
    for operations in made["paths"].values():
        for operation in operations.values():
            kept = [parameter for parameter in operation["parameters"] if parameter["name"] != "X-PAYMENT"]
            operation["parameters"] = kept  # with both payment headers nothing is paid
            for parameter in kept:
                parameter["schema"] = narrow.get(parameter["name"], parameter["schema"])
                parameter["required"] = parameter["name"] in narrow
    bodies = [{"const": BODY}, {"type": "object"}, {"type": "array"}, {"type": ["string", "integer", "null"]}]
    made["paths"]["/execute"]["post"]["requestBody"]["content"]["application/json"]["schema"] = {"anyOf": bodies}
    _narrow_contracts(made["components"]["schemas"])
    return made


def _narrow_contracts(schemas: dict[str, Any]) -> None:
    """Signed contracts, and ones that break a rule late in the list."""
    signed = a_contract(int(time.time() * 1000))
    late = {
        **signed["terms"],
        "price": {"enum": [{"amount": amount, "currency": "USDC", "network": "base"} for amount in ("5", "1e3")]},
    }
    schemas["Registration"]["properties"]["contract"] = {
        "anyOf": [
            {"const": signed},
            {
                "type": "object",
                "properties": {name: {"const": value} for name, value in signed.items()}
                | {"task": schemas["Contract"]["properties"]["task"], "hash": {"type": "string"}}
                | {"terms": {"type": "object", "properties": {name: _as_schema(late[name]) for name in late}}},
                "required": list(signed),
            },
            {"$ref": "#/components/schemas/Contract"},
        ]
    }


def _as_schema(value: Any) -> Any:
    return value if isinstance(value, dict) and "enum" in value else {"const": value}


def checked(worker: RunningWorker, document: Path, out: Path, seconds: int, *more: str) -> dict[str, Any]:
    """The report of one run; nothing is charged twice meanwhile, and something is where it can be."""
    is_published = document == PUBLISHED
    checks = sorted({*(CHECKS if is_published else OF_NARROWED)} - {"ignored_auth"})  # it asks for money
    mode = "all" if is_published else "positive"
    report = fuzzed(worker.gateway, document, checks, seconds, out, "--mode", mode, *more)
    nonces = [charge.nonce for charge in worker.facilitator.ledger.charges()]
    assert len(nonces) == len(set(nonces)) and (is_published or len(nonces) > HIRED)
    return report


@pytest.fixture(params=[pytest.param("published", marks=pytest.mark.slow), "narrowed"])
def document(request, worker, tmp_path) -> Path:
    """The published document, and one that gets past the first checks."""
    if request.param == "published":
        return PUBLISHED
    path = tmp_path / "narrowed.json"
    path.write_text(json.dumps(narrowed(worker)), "utf-8")
    return path


def test_no_request_of_120_breaks_the_worker(worker, document, tmp_path):
    report = checked(worker, document, tmp_path, 240, *FIXED, "--max-examples", "40")

    assert report["test_cases"]["generated"] >= 120


@pytest.mark.slow
def test_no_request_of_1500_breaks_the_worker(worker, document, tmp_path):
    report = checked(worker, document, tmp_path, 1_500, "--phases", "coverage,fuzzing", "--max-examples", "300")

    assert report["test_cases"]["generated"] >= 1_500
