"""The worker door on this machine: every process there is, from the signed contract to the paid result."""

import subprocess
import sys

import httpx
import pytest

from local.gateway.lambdas.variables import ROOT
from tests.support.machine import wait_until
from tests.support.worker.machine import running_worker


@pytest.fixture(scope="module")
def worker(gateway):
    with running_worker(gateway) as running:
        yield running


@pytest.fixture
def gate(tmp_path):
    path = tmp_path / "gate"
    path.write_text("0")
    return path


def test_a_short_task_is_answered_in_the_request_that_pays_it(worker):
    hired = worker.hire("echo", {"brief": "hello"})

    body = hired.answer.json()
    assert hired.answer.status_code == 200
    assert body["status"] == "completed"
    assert body["payment"]["status"] == "settled"
    assert "payment-response" in hired.answer.headers


def test_asking_again_pays_nothing(worker):
    hired = worker.hire("echo", {"brief": "hello"})
    settled = worker.facilitator.count("settle")

    again = worker.execute(hired.contract_id, {"brief": "hello"})

    assert again.status_code == 200
    assert again.json()["task_id"] == hired.task_id
    assert worker.facilitator.count("settle") == settled


def test_a_long_task_goes_through_the_queue(worker, gate):
    gate.write_text("4")

    hired = worker.hire("steady", {"gate": str(gate)})

    assert hired.answer.status_code == 202
    assert hired.answer.json()["poll_url"] == f"{worker.gateway.url}/tasks/{hired.task_id}"
    wait_until(lambda: worker.task(hired)["status"] == "completed")


def test_a_file_is_fetched_by_its_link(worker):
    hired = worker.hire("echo", {"brief": "hello"})

    files = hired.answer.json()["deliverables"]
    for file in files:
        fetched = httpx.get(file["url"], trust_env=False)
        assert fetched.status_code == 200
        assert len(fetched.content) == file["size"]
    assert files


@pytest.mark.slow  # waits for a lease to lapse and for the sweep
def test_a_task_whose_runner_is_killed_is_finished_by_another(worker, gate):
    gate.write_text("1")
    hired = worker.hire("steady", {"gate": str(gate)})
    with worker.http.stream("GET", hired.answer.json()["stream_url"]) as stream:
        assert "event: progress" in stream.iter_lines()  # without its text, which is for those who have paid
    worker.gateway.kill("worker.task.app.handler")
    gate.write_text("4")

    wait_until(lambda: worker.task(hired)["status"] == "completed", seconds=90)

    nonces = [charge.nonce for charge in worker.facilitator.ledger.charges()]
    assert len(nonces) == len(set(nonces))


def test_the_manifest_names_what_is_registered(worker):
    manifest = worker.http.get("/manifest").json()

    names = {capability["name"]: capability for capability in manifest["capabilities"]}
    assert names["echo"]["default"] is True
    assert {"steady", "completion"} <= names.keys()
    assert manifest["endpoint"]["url"] == worker.gateway.url
    assert manifest["pricing"]["x402"] == {"scheme": "exact", "versions": [2, 1]}


def test_a_path_or_method_that_is_not_served_is_said_so_in_the_doors_words(worker):
    missing, wrong = worker.http.get("/nothing"), worker.http.delete("/execute")

    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert wrong.headers["allow"] == "POST"


def test_the_demo_hires_pays_once_and_fetches(worker):
    assert (ROOT / ".venv-seekers/bin/python").exists(), "the stock x402 client is missing: run `make demo-hire`"
    command = [sys.executable, "-m", "local.demo_hire"]
    ended = subprocess.run(
        command, cwd=ROOT, env={"URL": worker.gateway.url}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "payments   1" in ended.stdout
    assert ended.stdout.count("200 completed") == 2
    assert "file " in ended.stdout
