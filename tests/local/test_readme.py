"""What the README shows works as printed: its request, and its executor."""

import json
import re
from pathlib import Path

import httpx
import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_commands_a_newcomer_needs_come_first():
    shown = re.findall(r"^make [a-z-]+", README, re.MULTILINE)

    assert shown[:2] == ["make run", "make test"]


@pytest.fixture(scope="module")
def runtime(gateway, tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (folder / "shout.py").write_text(code, "utf-8")
    running = gateway(fresh=True, PIECEWORK_EXECUTORS_PATH=str(folder))
    yield running
    running.close()


@pytest.fixture(scope="module")
def request_body() -> dict:
    (shown,) = re.findall(r"/execute -H 'content-type: application/json' -d '(.*?)'\n", README, re.DOTALL)
    return json.loads(shown)


def execute(runtime, body: dict) -> httpx.Response:
    return runtime.http.post("/execute", json=body)


def test_the_request_shown_is_answered_with_evidence_replayed_and_guarded(runtime, request_body):
    first, again = execute(runtime, request_body), execute(runtime, request_body)
    changed = execute(runtime, {**request_body, "inputs": {"prompt": "changed"}})
    (ref,) = first.json()["evidence_refs"]

    assert first.status_code == 200 and first.json()["evidence_inline"]
    assert httpx.get(ref["uri"], trust_env=False).status_code == 200
    assert again.content == first.content and again.headers["x-piecework-replayed"] == "true"
    assert changed.status_code == 409


def test_the_executor_shown_serves_its_type_and_profiles(runtime, request_body):
    body = {**request_body, "execution_id": "e-2", "task_type": "shouting", "profile": "loud"}

    capabilities = runtime.http.get("/capabilities").json()
    answer = execute(runtime, body)

    assert "shouting" in capabilities["task_types"] and "loud" in capabilities["profiles"]
    assert answer.json()["candidate_output"] == {"answer": "HELLO!!!"}
    assert answer.json()["evidence_inline"] == [{"mime": "text/plain", "content": "shouted for a-1"}]


def test_the_executor_shown_refuses_for_good(runtime, request_body):
    refused = execute(runtime, {**request_body, "execution_id": "e-3", "task_type": "shouting", "inputs": {}})

    assert refused.status_code == 400 and refused.json() == {"error": "inputs.prompt is needed", "code": "refused"}
