"""The kernel door answers no request in a way that its published OpenAPI document does not have."""

import copy
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from local.gateway.lambdas.variables import ROOT
from tests.fuzz.fuzzing import CHECKS, FIXED, OF_NARROWED, fuzzed
from tests.support.machine import RunningGateway

PUBLISHED = ROOT / "docs" / "openapi" / "kernel.json"
SECRET = "secret-of-the-fuzzer-0123456789"
AGENT, RUNNER = "fuzzed", "geo-1"
WORKING = 2

PAUSE = "/pause"  # has a test of its own: creates for an agent that is paused are answered 503
LEFT_OUT = ("/stream", PAUSE)  # and streams do not end


@pytest.fixture(scope="module")
def door(gateway) -> RunningGateway:
    return gateway(
        api="KernelApi",
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_POLICY_DEFAULT="permissive",
        PIECEWORK_KERNEL_TOKENS=f"fuzz={SECRET}",
    )


@pytest.fixture(scope="module")
def known(door):
    """Ids of running executions, of their sessions and steps; their agent and a runner stay connected."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    with ExitStack() as open_streams:
        agent = open_streams.enter_context(
            door.http.stream("GET", f"/v0/agents/stream?agent_id={AGENT}&consumer_id=one", headers=headers)
        )
        runner = f"/v0/runners/stream?runner_id={RUNNER}&consumer_id=one&capabilities=geo.lookup"
        open_streams.enter_context(door.http.stream("GET", runner, headers=headers))
        for _ in range(WORKING):
            made = door.http.post("/v0/executions", json={"agent_id": AGENT, "labels": {"env": "qa"}}, headers=headers)
            assert made.status_code == 201, made.text
        lines = (line.removeprefix("data: ") for line in agent.iter_lines() if line.startswith("data: "))
        told = [json.loads(next(lines)) for _ in range(WORKING)]
        yield {
            "execution_id": [one["execution_id"] for one in told],
            "session_id": [one["session_id"] for one in told],
            "step_id": [_step(door, one, headers, remote=position % 2 == 0) for position, one in enumerate(told)],
        }


def _step(door: RunningGateway, told: dict[str, Any], headers: dict[str, str], *, remote: bool) -> str:
    ids = {name: told[name] for name in ("execution_id", "session_id")}
    intent = {"type": "invoke_tool", "tool_id": "geo.lookup", "remote": remote}
    answer = door.http.post("/v0/agents/intent", json={**ids, "intent": intent}, headers=headers)
    return str(answer.json()["step_id"])


def without(*ends: str) -> dict[str, Any]:
    """The document but the operations whose paths end so."""
    return only(lambda path: not path.endswith(ends))


def only(is_asked: Callable[[str], bool]) -> dict[str, Any]:
    """The document of some paths."""
    document = json.loads(PUBLISHED.read_text("utf-8"))
    return {**document, "paths": {path: given for path, given in document["paths"].items() if is_asked(path)}}


def narrowed(document: dict[str, Any], known: dict[str, list[str]]) -> dict[str, Any]:
    """The document with executions, sessions and steps that there are, so that requests get to the core."""
    made = copy.deepcopy(document)
    narrow = {name: {"type": "string", "enum": ids} for name, ids in known.items()}
    narrow |= {"agent_id": {"enum": [AGENT, "nobody"]}, "tool_id": {"enum": ["geo.lookup", "notes.find"]}}
    narrow |= {"runner_id": {"enum": [RUNNER]}, "idempotency_key": {"enum": ["", "a", "b"]}}
    for operations in made["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                parameter["schema"] = narrow.get(parameter["name"], parameter["schema"])
    for name, schema in made["components"]["schemas"].items():
        is_request = name.endswith(("Body", "Part"))
        for member in (narrow.keys() & schema.get("properties", {}).keys()) if is_request else ():
            schema["properties"][member] = narrow[member]
    return made


def test_no_request_of_120_to_any_operation_breaks_the_door(door, tmp_path):
    document = written(without(*LEFT_OUT), tmp_path)
    report = checked(door, document, tmp_path, 240, *FIXED, "--max-examples", "8")

    assert report["test_cases"]["generated"] >= 120


def test_no_request_to_pause_or_resume_an_agent_breaks_the_door(door, tmp_path):
    document = written(only(lambda path: path.endswith((PAUSE, "/resume"))), tmp_path)
    report = checked(door, document, tmp_path, 240, *FIXED, "--max-examples", "8")

    assert report["test_cases"]["generated"] >= 10


@pytest.mark.slow
def test_no_request_of_80_about_running_executions_breaks_the_door(door, known, tmp_path):
    document = written(narrowed(without(*LEFT_OUT, "/cancel"), known), tmp_path)  # nothing happens after a cancel
    checks = OF_NARROWED
    before = logged(door, known)
    report = checked(door, document, tmp_path, 240, *FIXED, "--mode", "positive", "--max-examples", "8", checks=checks)

    assert report["test_cases"]["generated"] >= 80
    assert logged(door, known) > before + WORKING  # the core was reached


@pytest.mark.slow
def test_no_request_of_1000_breaks_the_door(door, tmp_path):
    document = written(without(*LEFT_OUT), tmp_path)
    report = checked(door, document, tmp_path, 1_500, "--phases", "coverage,fuzzing", "--max-examples", "80")

    assert report["test_cases"]["generated"] >= 1_000


def checked(door: RunningGateway, document: Path, out: Path, seconds: int, *more: str, checks: Any = CHECKS) -> Any:
    """The report of one run."""
    return fuzzed(door, document, checks, seconds, out, "--header", f"Authorization: Bearer {SECRET}", *more)


def logged(door: RunningGateway, known: dict[str, list[str]]) -> int:
    """How many events the known executions have in their logs."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    pages = [door.http.get(f"/v0/executions/{one}/events?limit=1000", headers=headers) for one in known["execution_id"]]
    return sum(len(page.json()["events"]) for page in pages)


def written(document: dict[str, Any], folder: Path) -> Path:
    path = folder / "kernel.json"
    path.write_text(json.dumps(document), "utf-8")
    return path
