"""The operator's door answers no request in a way that its published OpenAPI document does not have."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.gateway.lambdas.variables import ROOT
from piecework.ops.status import QUEUES
from tests.fuzz.fuzzing import CHECKS, FIXED, OF_NARROWED, fuzzed
from tests.support.machine import RunningGateway
from tests.support.worker.doubtful import doubtful
from tests.support.worker.stage import stub_facilitator

pytestmark = pytest.mark.slow

PUBLISHED = ROOT / "docs" / "openapi" / "ops.json"
SECRET = "secret-of-the-fuzzer-0123456789"
PAUSES = ("/pause", "/resume")  # have a run of their own: what is paused is answered 503
LEFT_OUT = ("/verdicts", "/stream")  # CloudWatch Logs, which the embedded AWS does not have; and streams do not end


@pytest.fixture(scope="module")
def facilitator():
    with stub_facilitator() as running:
        yield running


@pytest.fixture(scope="module")
def door(gateway, facilitator) -> RunningGateway:
    return gateway(
        api="ConsoleApi",
        PIECEWORK_PARAM_DeployConsole="true",
        PIECEWORK_PARAM_DeployWorkerDoor="true",
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_POLICY_DEFAULT="permissive",
        PIECEWORK_OPS_TOKENS=f"fuzz={SECRET}",
        FACILITATOR_URL=facilitator.url,
        BASE_RPC_URL=facilitator.rpc_url,
    )


@pytest.fixture
def known(door, facilitator, embedded_aws) -> dict[str, list[str]]:
    """A payment in doubt with its evidence, and the names of queues."""
    name = doubtful(embedded_aws.client("dynamodb"), facilitator)
    headers = {"Authorization": f"Bearer {SECRET}"}
    shown = door.http.post(f"/ops/tasks/{name}/payment/evidence", json={}, headers=headers).json()
    return {"contract_id": [name], "override": [name], "evidence": [shown["evidence"], "0" * 64], "name": [*QUEUES]}


def only(is_asked: Callable[[str], bool]) -> dict[str, Any]:
    """The document of some paths."""
    document = json.loads(PUBLISHED.read_text("utf-8"))
    return {**document, "paths": {path: given for path, given in document["paths"].items() if is_asked(path)}}


def lenient(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the rule that it says in words: what is empty or null counts as absent where it is optional."""
    made = copy.deepcopy(document)
    for operations in made["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    parameter["schema"] = {"anyOf": [parameter["schema"], {"const": ""}]}
            for body in operation.get("requestBody", {}).get("content", {}).values():
                properties, needed = body["schema"].get("properties", {}), body["schema"].get("required", ())
                for name in properties.keys() - set(needed):
                    properties[name] = {"anyOf": [properties[name], {"enum": [None, ""]}]}
    return made


def narrowed(document: dict[str, Any], known: dict[str, list[str]]) -> dict[str, Any]:
    """The document with what there is, so that requests get past the first checks."""
    made = copy.deepcopy(document)
    for operations in made["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in known:
                    parameter["schema"] = {"type": "string", "enum": known[parameter["name"]]}
            for body in operation.get("requestBody", {}).get("content", {}).values():
                properties = body["schema"].get("properties", {})
                properties |= {name: {"enum": known[name]} for name in properties.keys() & known.keys()}
    return made


def checked(door: RunningGateway, document: dict[str, Any], out: Path, *more: str, checks: Any = CHECKS) -> Any:
    """The report of one run."""
    path = out / "ops.json"
    path.write_text(json.dumps(document), "utf-8")
    return fuzzed(door, path, checks, 900, out, "--header", f"Authorization: Bearer {SECRET}", *more)


def records_of(door: RunningGateway) -> Iterator[dict[str, Any]]:
    """All records of what operators did; those of one run fill several pages."""
    cursor: str | None = ""
    while cursor is not None:
        headers = {"Authorization": f"Bearer {SECRET}"}
        page = door.http.get("/ops/records", params={"limit": 50, "cursor": cursor}, headers=headers).json()
        yield from page["items"]
        cursor = page["next"]


def resume_all(door: RunningGateway) -> None:
    """Let nothing stay paused that other tests ask for."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    for _ in range(20):
        stands = door.http.get("/ops/status", headers=headers).json()
        for pause in stands["paused"]:
            door.http.post("/ops/resume", json={"scope": pause["scope"], "reason": "tested"}, headers=headers)
        for pause in stands["paused_agents"]:
            body = {"agent_id": pause["scope"].removeprefix("agent:"), "reason": "tested"}
            door.http.post("/ops/kernel/agents/resume", json=body, headers=headers)
        if not (stands["paused"] or stands["paused_agents"]):
            return
    raise AssertionError(f"still paused: {stands['paused']}, {stands['paused_agents']}")


def test_no_request_of_300_breaks_the_operators_door(door, tmp_path):
    document = lenient(only(lambda path: not path.endswith((*PAUSES, *LEFT_OUT))))

    report = checked(door, document, tmp_path, *FIXED, "--max-examples", "10")

    assert report["test_cases"]["generated"] >= 300


def test_no_request_to_pause_or_resume_breaks_the_operators_door(door, tmp_path):
    try:
        report = checked(
            door, lenient(only(lambda path: path.endswith(PAUSES))), tmp_path, *FIXED, "--max-examples", "10"
        )
    finally:
        resume_all(door)

    assert report["test_cases"]["generated"] >= 20


def test_no_request_about_a_payment_in_doubt_and_dead_letters_breaks_the_operators_door(door, known, tmp_path):
    document = narrowed(only(lambda path: "/tasks/" in path or "/dead-letters/" in path), known)
    checks = OF_NARROWED

    report = checked(door, document, tmp_path, *FIXED, "--mode", "positive", "--max-examples", "20", checks=checks)

    assert report["test_cases"]["generated"] >= 60
    assert {record["verb"] for record in records_of(door)} >= {"payment.resolve", "dead_letters.redrive"}  # the core


def test_no_request_of_1500_breaks_the_operators_door(door, tmp_path):
    document = lenient(only(lambda path: not path.endswith((*PAUSES, *LEFT_OUT))))

    report = checked(door, document, tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "40")

    assert report["test_cases"]["generated"] >= 1_500
