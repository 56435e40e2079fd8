"""`piecework contract` and `piecework key`: what they write, what they refuse, what they never show."""

import json
import os
import stat

import pytest

from piecework.clock import now_in_ms
from piecework.worker.contract.contracts import validate
from piecework_cli.main import main
from tests.support.worker.contracts import (
    IDENTITY,
    SEEKER_KEY,
    SEEKER_WALLET,
    WORKER_AGENT_ID,
    WORKER_KEY,
    WORKER_WALLET,
)


@pytest.fixture
def keys(tmp_path):
    """Key files by party."""
    files = {}
    for role, key in (("worker", WORKER_KEY), ("seeker", SEEKER_KEY)):
        files[role] = tmp_path / f"{role}.key"
        files[role].write_text(key)
    return files


@pytest.fixture
def proposal(tmp_path):
    """A contract file nobody has signed."""
    file = tmp_path / "contract.json"
    assert propose(file) == 0
    return file


def propose(file, *more) -> int:
    parties = ("--seeker", SEEKER_WALLET, "--worker", WORKER_WALLET, "--worker-agent", WORKER_AGENT_ID)
    return main(["contract", "propose", *parties, "--price", "5", "--description", "Score", *more, str(file)])


def sign(file, role, key) -> int:
    return main(["contract", "sign", str(file), "--as", role, "--key", str(key)])


def test_a_proposal_signed_by_both_is_accepted(tmp_path, keys):
    file, schema = tmp_path / "c.json", tmp_path / "schema.json"
    schema.write_text('{"type":"object"}')

    options = ("--webhook-url", "https://seeker.example/hook", "--output-schema", str(schema), "--attempts", "2")
    assert propose(file, *options, "--executor", "echo", "--max-latency-ms", "60000", "--term", "12h") == 0
    assert sign(file, "worker", keys["worker"]) == sign(file, "seeker", keys["seeker"]) == 0

    body = json.loads(file.read_text())
    record = validate(body["contract"], body["webhook_secret"], IDENTITY, now_in_ms())
    assert (record.attempts, record.max_latency_ms, record.output_schema) == (2, 60_000, {"type": "object"})
    assert record.document["task"]["requirements"] == ["echo"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("executor", ["nobody", "refund_desk"])
def test_a_proposal_names_only_an_executor_that_the_worker_door_runs(tmp_path, capsys, executor):
    file = tmp_path / "c.json"

    assert propose(file, "--executor", executor) == 1

    told = capsys.readouterr().err
    assert executor in told and "echo" in told and "completion" in told and not file.exists()


def test_a_proposal_without_a_file_is_printed(capsys):
    arguments = ["contract", "propose", "--seeker", SEEKER_WALLET, "--worker", WORKER_WALLET]
    assert main([*arguments, "--worker-agent", WORKER_AGENT_ID, "--price", "5", "--description", "x"]) == 0

    assert json.loads(capsys.readouterr().out)["contract"]["signatures"]["worker"] == ""


def test_the_worker_signs_first(proposal, keys, capsys):
    assert sign(proposal, "seeker", keys["seeker"]) == 1

    assert "worker signs first" in capsys.readouterr().err


def test_only_the_partys_own_key_signs(proposal, keys, capsys):
    before = proposal.read_text()

    assert sign(proposal, "worker", keys["seeker"]) == 1

    assert "parties.worker.wallet" in capsys.readouterr().err and proposal.read_text() == before


def test_what_a_worker_would_refuse_is_not_signed(tmp_path, keys, capsys):
    file = tmp_path / "c.json"
    propose(file, "--max-latency-ms", "0")

    assert sign(file, "worker", keys["worker"]) == 1
    assert "V14" in capsys.readouterr().err


def test_a_contract_that_changed_after_its_hash_was_made_is_not_signed(proposal, keys, capsys):
    body = json.loads(proposal.read_text())
    body["contract"]["terms"]["price"]["amount"] = "6"
    proposal.write_text(json.dumps(body))

    assert sign(proposal, "worker", keys["worker"]) == 1
    assert "V9" in capsys.readouterr().err


def test_show_tells_what_a_file_lacks_and_then_its_terms(proposal, keys, capsys):
    assert main(["contract", "show", str(proposal)]) == 1
    assert json.loads(capsys.readouterr().out)["rule"] == "V10"
    sign(proposal, "worker", keys["worker"])
    sign(proposal, "seeker", keys["seeker"])
    capsys.readouterr()

    assert main(["contract", "show", str(proposal)]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["accepted"] is True and shown["price"] == "5 USDC on base" and shown["atomic"] == 5_000_000


@pytest.mark.parametrize("text", ["", "[]", '{"a":1}', "{", '{"contract":1}', '{"contract":{"contract_id":"ctr_a"}}'])
def test_a_file_that_holds_no_contract_is_refused(tmp_path, text):
    file = tmp_path / "c.json"
    file.write_text(text)

    assert main(["contract", "show", str(file)]) == 1


def test_a_term_of_another_form_is_refused(tmp_path, capsys):
    assert propose(tmp_path / "c.json", "--term", "soon") == 1
    assert "--term" in capsys.readouterr().err


def test_a_new_key_is_private_and_never_overwrites(tmp_path, capsys):
    file = tmp_path / "k"

    assert main(["key", "new", str(file)]) == 0
    address = capsys.readouterr().out.strip()
    key = file.read_text().strip()
    assert main(["key", "new", str(file)]) == 1
    assert main(["key", "address", str(file)]) == 0

    told = capsys.readouterr()
    assert told.out.strip() == address and key not in told.out + told.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.read_text().strip() == key


def test_an_encrypted_key_store_is_opened_with_its_password(tmp_path, monkeypatch, capsys):
    from eth_account import Account

    file = tmp_path / "store.json"
    file.write_text(json.dumps(Account.encrypt(WORKER_KEY, "open sesame", iterations=2)))

    monkeypatch.setenv("PIECEWORK_KEY_PASSWORD", "open sesame")
    assert main(["key", "address", str(file)]) == 0
    assert capsys.readouterr().out.strip() == WORKER_WALLET

    monkeypatch.setenv("PIECEWORK_KEY_PASSWORD", "wrong")
    assert main(["key", "address", str(file)]) == 1
    assert "wrong" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "0x12", "0x" + "00" * 32, "0x" + "ff" * 32, "{}", "[1]"])
def test_what_is_no_key_is_refused_without_being_shown(tmp_path, capsys, monkeypatch, text):
    monkeypatch.setenv("PIECEWORK_KEY_PASSWORD", "x")
    file = tmp_path / "k"
    file.write_text(text)

    assert main(["key", "address", str(file)]) == 1
    assert not text or text not in capsys.readouterr().err


def test_a_worker_that_does_not_answer_is_told(capsys):
    assert main(["--url", "http://127.0.0.1:1", "contract", "show", "ctr_a"]) == 1
    assert "does not answer" in capsys.readouterr().err


def test_import_puts_the_contract_into_the_workers_table(embedded_aws, proposal, keys, monkeypatch, capsys):
    table = embedded_aws.new_table("ContractsTable")
    sign(proposal, "worker", keys["worker"])
    sign(proposal, "seeker", keys["seeker"])
    for name in [name for name in os.environ if name.startswith(("PIECEWORK_", "AWS_"))]:
        monkeypatch.delenv(name)
    settings = {"WORKER_WALLETS": WORKER_WALLET, "WORKER_AGENT_ID": WORKER_AGENT_ID, "PIECEWORK_CONTRACTS_TABLE": table}
    for name, value in {**embedded_aws.variables, **settings}.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()

    assert main(["contract", "import", str(proposal)]) == 0

    told = json.loads(capsys.readouterr().out)
    item = embedded_aws.client("dynamodb").get_item(TableName=table, Key={"pk": {"S": told["contract_id"]}})["Item"]
    assert told["kept"] == "new" and item["source"] == {"S": "import"} and item["hash"] == {"S": told["hash"]}
