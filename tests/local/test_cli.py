"""`piecework contract` against a worker of real processes."""

import json

import pytest

from piecework_cli.main import main
from tests.support.contracts import SEEKER_KEY, SEEKER_WALLET, WORKER_AGENT_ID, WORKER_KEY, WORKER_WALLET


@pytest.fixture(scope="module")
def worker(gateway):
    return gateway(
        api="WorkerApi",
        PIECEWORK_PARAM_DeployWorkerDoor="true",
        PUBLIC_BASE_URL="https://w.example/hire",
        WORKER_WALLETS=WORKER_WALLET,
        WORKER_AGENT_ID=WORKER_AGENT_ID,
    )


def test_a_signed_contract_is_registered_once(worker, tmp_path, capsys):
    file = str(tmp_path / "c.json")
    parties = ("--seeker", SEEKER_WALLET, "--worker", WORKER_WALLET, "--worker-agent", WORKER_AGENT_ID)
    main(["contract", "propose", *parties, "--price", "5", "--description", "Score", file])
    for role, key in (("worker", WORKER_KEY), ("seeker", SEEKER_KEY)):
        (tmp_path / role).write_text(key)
        main(["contract", "sign", file, "--as", role, "--key", str(tmp_path / role)])
    capsys.readouterr()

    answers = []
    for _ in range(2):
        assert main(["--url", worker.url, "contract", "register", file]) == 0
        answers.append(json.loads(capsys.readouterr().out))

    assert answers[0] == answers[1] and answers[0]["execute_url"] == "https://w.example/hire/execute"


def test_an_unknown_contract_is_told_with_the_workers_words(worker, capsys):
    assert main(["--url", worker.url, "contract", "show", "ctr_unknown"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "CONTRACT_NOT_FOUND"
