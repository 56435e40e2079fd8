"""`piecework contract`, `task` and `payment` against workers of real processes."""

import json
import threading

import pytest

from piecework_cli.main import main
from tests.support.machine import wait_until
from tests.support.worker.contracts import SEEKER_KEY, SEEKER_WALLET, WORKER_AGENT_ID, WORKER_KEY, WORKER_WALLET
from tests.support.worker.machine import running_worker


@pytest.fixture(scope="module")
def hiring(gateway):
    with running_worker(gateway) as running:
        yield running


@pytest.fixture
def operator(hiring, embedded_aws, monkeypatch):
    """The command as the operator of that worker calls it."""
    for name, value in embedded_aws.variables.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: main(["--url", hiring.gateway.url, *arguments])


def test_a_signed_contract_is_registered_once(hiring, operator, tmp_path, capsys):
    file = str(tmp_path / "c.json")
    parties = ("--seeker", SEEKER_WALLET, "--worker", WORKER_WALLET, "--worker-agent", WORKER_AGENT_ID)
    main(["contract", "propose", *parties, "--price", "5", "--description", "Score", file])
    for role, key in (("worker", WORKER_KEY), ("seeker", SEEKER_KEY)):
        (tmp_path / role).write_text(key)
        main(["contract", "sign", file, "--as", role, "--key", str(tmp_path / role)])
    capsys.readouterr()

    answers = []
    for _ in range(2):
        assert operator("contract", "register", file) == 0
        answers.append(json.loads(capsys.readouterr().out))

    assert answers[0] == answers[1] and answers[0]["execute_url"] == f"{hiring.gateway.url}/execute"


def test_an_unknown_contract_is_told_with_the_workers_words(operator, capsys):
    assert operator("contract", "show", "ctr_unknown") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "CONTRACT_NOT_FOUND"


def test_a_task_is_watched_to_its_end(hiring, operator, tmp_path, capsys):
    gate = tmp_path / "gate"
    gate.write_text("0")
    hired = hiring.hire("steady", {"gate": str(gate)})
    opening = threading.Timer(1.0, gate.write_text, ["4"])
    opening.start()

    assert operator("task", "watch", hired.contract_id, hired.task_id, "--every", "0.1", "--seconds", "60") == 0
    opening.join()
    first, *rest = capsys.readouterr().out.splitlines()
    assert operator("task", "show", hired.contract_id) == 0

    assert json.loads(first)["status"] == "pending"
    ended = json.loads("".join(line for line in rest if not line.startswith('{"')))
    shown = json.loads(capsys.readouterr().out)
    assert ended["status"] == shown["status"] == "completed" and shown["task_id"] == hired.task_id


def test_a_task_that_does_not_end_in_time_is_given_up(hiring, operator, tmp_path, capsys):
    gate = tmp_path / "gate"
    gate.write_text("0")
    hired = hiring.hire("steady", {"gate": str(gate)})

    assert operator("task", "watch", hired.contract_id, "--every", "0.1", "--seconds", "0") == 1

    gate.write_text("4")
    assert "in time" in capsys.readouterr().err
    wait_until(lambda: hiring.task(hired)["status"] == "completed")


def test_a_task_of_another_contract_is_told_with_the_workers_words(hiring, operator, capsys):
    hired, other = hiring.hire("echo", {}), hiring.hire("echo", {})

    assert operator("task", "show", other.contract_id, hired.task_id) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "TASK_NOT_FOUND"


def test_payments_of_a_running_worker_are_listed_and_its_fees_exported(hiring, operator, capsys):
    hired = hiring.hire("echo", {"brief": "b"})

    assert operator("payment", "list", "--status", "settled") == 0
    listed = {entry["contract_id"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert operator("payment", "show", hired.contract_id) == 0
    shown = json.loads(capsys.readouterr().out)
    assert operator("ledger", "export", "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert listed[hired.contract_id]["state"] == "COMPLETED"
    [fee] = [row for row in rows if row["contract_id"] == hired.contract_id]
    assert (fee["usdc"], fee["transaction"]) == ("0.050000", shown["receipt"]["transaction"])
