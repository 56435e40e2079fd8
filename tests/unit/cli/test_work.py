"""`piecework payment`, `ledger` and `task` over real tables: what an operator sees, and what an operator decides."""

import csv
import io
import json
import os
import time

import pytest

from piecework.aws.due_table import DueTable
from piecework.extend.executors import Refused
from piecework.jsons import canonical
from piecework.worker.record.debts import owed_by
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.states import State
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from piecework_cli.main import main
from tests.support.fakes import FakeClock
from tests.support.worker.contracts import WORKER_AGENT_ID, WORKER_WALLET
from tests.support.worker.stage import BODY, Stage, stub_facilitator

TRANSACTION = "0x" + "ab" * 32


@pytest.fixture
def stage(embedded_aws, monkeypatch):
    """A worker over real tables, which the command's environment names, too."""
    tables = {f"PIECEWORK_{name.upper()}_TABLE": embedded_aws.new_table(f"{name}Table") for name in NAMES}
    for name in [name for name in os.environ if name.startswith(("PIECEWORK_", "AWS_"))]:
        monkeypatch.delenv(name)
    settings = {"WORKER_WALLETS": WORKER_WALLET, "WORKER_AGENT_ID": WORKER_AGENT_ID}
    for name, value in {**embedded_aws.variables, **settings, **tables}.items():
        monkeypatch.setenv(name, value)
    contracts, work, due = tables.values()
    client = embedded_aws.client("dynamodb")
    with stub_facilitator() as facilitator:
        monkeypatch.setenv("FACILITATOR_URL", facilitator.url)
        monkeypatch.setenv("BASE_RPC_URL", facilitator.rpc_url)
        yield Stage(
            facilitator,
            clock=FakeClock(int(time.time() * 1000) - EARLIER_MS),
            ports={
                "contracts": ContractsTable(client, contracts),
                "executions": ExecutionsTable(client, work, due),
                "due_times": DueTable(client, due),
            },
        )


NAMES = ("Contracts", "Work", "Due")
EARLIER_MS = 3 * 3_600_000  # the worker's clock begins so long ago: what is unresolved took its time


def unresolved(stage, word="500"):
    """A contract whose settlement nobody could tell anything about; by now the node answers."""
    stage.stub.say("settle", word)
    contract = stage.contract()
    payment = stage.pay(contract)
    stage.stub.say("rpc", "500")
    stage.post(contract, BODY, payment)
    stage.clock.move(stage.terms(contract).max_timeout_seconds + 2_400)
    stage.sweep()
    assert stage.standing(contract).settlement.status == "unresolved"
    stage.stub.say("rpc", "ok")
    stage.clock.now_ms = int(time.time() * 1000)
    return contract, payment["PAYMENT-SIGNATURE"][0]


def resolve(contract, *words):
    return main(["payment", "resolve", contract.contract_id, *words])


def told(capsys):
    return json.loads(capsys.readouterr().out)


def test_payments_are_listed_oldest_first_and_by_status(stage, capsys):
    paid = stage.contract()
    assert stage.post(paid, BODY, stage.pay(paid)).status == 200
    stage.clock.move(60)
    open_one, _ = unresolved(stage)

    assert main(["payment", "list"]) == 0
    both = told(capsys)
    assert main(["payment", "list", "--status", "unresolved"]) == 0
    one = told(capsys)

    assert [entry["contract_id"] for entry in both] == [paid.contract_id, open_one.contract_id]
    assert [entry["payment"] for entry in both] == ["settled", "unresolved"]
    assert one == both[1:]


def test_a_payment_is_shown_without_what_could_be_spent(stage, capsys):
    contract, payment = unresolved(stage)

    assert main(["payment", "show", contract.contract_id]) == 0

    out = capsys.readouterr().out
    shown, standing = json.loads(out), stage.standing(contract)
    assert (shown["price"], shown["atomic"], shown["pay_to"]) == ("5 USDC on base", 5_000_000, WORKER_WALLET)
    assert shown["payer"] == standing.payment.payer and standing.payment.claim_key.endswith(shown["nonce"])
    assert json.loads(standing.payment.document)["payload"]["signature"] not in out and payment not in out


def test_an_operator_says_paid_where_the_chain_shows_it_and_the_result_is_released(stage, capsys):
    contract, _ = unresolved(stage, "lost-cut")
    settles = stage.settles()
    (transaction,) = stage.stub.ledger.transactions

    assert resolve(contract, "--paid", transaction) == 0

    shown = told(capsys)
    answer = stage.post(contract)
    assert (shown["state"], shown["payment"], shown["claim"]) == ("COMPLETED", "settled", "spent")
    assert answer.status == 200 and answer.receipt["transaction"] == transaction
    assert stage.settles() == settles
    [fee] = stage.executions.ledger(time.strftime("%Y-%m", time.gmtime()))
    assert (fee.kind, fee.atomic, fee.transaction) == ("platform_fee_due", 50_000, transaction)
    assert (shown["chain"]["nonce"], shown["chain"]["paid_by"]) == ("spent", transaction)
    assert shown["resolved"]["by"] == "evidence"


def test_an_operator_says_not_paid_where_the_chain_proves_it_and_the_seeker_may_sign_anew(stage, capsys):
    contract, _ = unresolved(stage)
    stage.stub.say("settle", "ok")

    assert resolve(contract, "--not-paid") == 0

    shown = told(capsys)
    assert shown["claim"] == "released" and stage.state(contract) is State.UNPAID
    assert (shown["chain"]["nonce"], shown["chain"]["why"]) == ("unspent", "authorization_expired_unused")
    assert stage.post(contract).status == 402
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200
    assert (stage.charges(), len(stage.runs)) == (1, 1)


def test_a_node_whose_url_is_a_secret_is_asked_with_the_operators_own_credentials(stage, capsys, monkeypatch):
    contract, _ = unresolved(stage, "lost-cut")
    (transaction,) = stage.stub.ledger.transactions
    monkeypatch.delenv("BASE_RPC_URL")
    settings = {"BASE_RPC_URL_SECRET_ARN": "arn:of-the-node", "PUBLIC_BASE_URL": "https://hire.example"}
    monkeypatch.setattr("piecework_cli.target.variables_of", lambda stack, function: settings)
    monkeypatch.setattr("piecework_cli.target.secret_of", {"arn:of-the-node": stage.stub.rpc_url}.__getitem__)

    assert main(["--stack", "s", "payment", "resolve", contract.contract_id, "--paid", transaction]) == 0

    shown = told(capsys)
    assert (shown["chain"]["paid_by"], shown["resolved"]["by"]) == (transaction, "evidence")


# How the payment went, how the node stands, and what an operator says that the chain does not show.
NOT_SHOWN = [
    ("500", "ok", ("--paid", TRANSACTION)),
    ("lost-cut", "ok", ("--paid", TRANSACTION)),
    ("lost-cut", "ok", ("--not-paid",)),
    ("500", "behind:300", ("--not-paid",)),
    ("lost-cut", "500", ("--paid", TRANSACTION)),
]


@pytest.mark.parametrize(("word", "node", "said"), NOT_SHOWN)
def test_what_the_chain_does_not_show_is_not_taken_from_an_operator(stage, capsys, word, node, said):
    contract, _ = unresolved(stage, word)
    stage.stub.say("rpc", node)

    assert resolve(contract, *said) == 1
    out, err = capsys.readouterr()
    assert resolve(contract, *said, "--override", "ctr_another") == 1

    assert f"--override {contract.contract_id}" in err and "nonce" in json.loads(out)["chain"]
    assert stage.standing(contract).settlement.status == "unresolved"


@pytest.mark.parametrize(("word", "node", "said"), NOT_SHOWN[:2])
def test_an_override_names_the_contract_and_is_recorded(stage, capsys, word, node, said):
    contract, _ = unresolved(stage, word)

    assert resolve(contract, *said, "--override", contract.contract_id) == 0
    shown = told(capsys)
    assert main(["payment", "show", contract.contract_id]) == 0

    assert shown["resolved"]["by"] == "override" and shown["resolved"]["paid"] == TRANSACTION
    assert told(capsys)["resolved"] == shown["resolved"] and shown["state"] == "COMPLETED"


def test_only_an_unresolved_payment_can_be_resolved_and_only_once(stage, capsys):
    paid = stage.contract()
    stage.post(paid, BODY, stage.pay(paid))
    contract, _ = unresolved(stage)

    assert resolve(paid, "--not-paid") == 1
    assert "the payment is settled" in capsys.readouterr().err
    assert resolve(contract, "--not-paid") == 0
    assert resolve(contract, "--paid", TRANSACTION) == 1
    assert stage.state(contract) is State.UNPAID and stage.state(paid) is State.COMPLETED


@pytest.mark.parametrize("transaction", ["", "0x12", "ab" * 32, "0x" + "g" * 64, TRANSACTION + "\n"])
def test_what_is_no_transaction_pays_nothing(stage, capsys, transaction):
    contract = stage.contract()

    assert main(["payment", "resolve", contract.contract_id, "--paid", transaction]) == 1
    assert "--paid" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ctr_unknown", "no id"])
def test_a_contract_without_a_task_has_no_payment(stage, capsys, name):
    assert main(["payment", "show", name]) == 1
    assert capsys.readouterr().err.startswith("piecework: ")


def owed_back(stage):
    """A contract whose work failed after it was paid, the name of what that owes, and a transfer back."""

    def fail(task, run):
        raise Refused("nobody can do this")

    stage.do = fail
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(600)
    stage.clock.move(60)
    execution = stage.standing(contract)
    sent = stage.stub.ledger.send(contract.network.usdc, "0x" + "77" * 20, execution.payment.payer, contract.atomic)
    stage.stub.ledger.clock = time.time
    return contract, owed_by(execution).name, sent.hash


def test_an_operator_says_that_what_is_owed_was_paid_back_and_the_export_shows_both(stage, capsys):
    contract, debt, transaction = owed_back(stage)
    words = ["payment", "refunded", contract.contract_id, "--debt", debt, "--reason", "sent on Monday"]
    assert main([*words, "--transaction", "0x" + "ab" * 32]) == 1
    assert "no block that the node knows" in capsys.readouterr().err
    assert stage.standing(contract).owes_refund

    assert main([*words, "--transaction", transaction]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["chain"]["verdict"], told["refund"]["by"]) == ("shown", "evidence")
    assert not stage.standing(contract).owes_refund
    assert main([*words, "--transaction", transaction]) == 1
    assert "paid back already; an operator said so at" in capsys.readouterr().err
    month = time.strftime("%Y-%m", time.gmtime(stage.clock() / 1000))
    assert main(["ledger", "export", "--from", month]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["kind"], row["debt"]) for row in rows} >= {("refund_due", debt), ("refunded", debt)}


def test_without_a_node_no_refund_of_real_money_is_said_even_with_an_override(stage, capsys, monkeypatch):
    contract, debt, transaction = owed_back(stage)
    monkeypatch.setattr("piecework_cli.payments.node_of", lambda url, arn: lambda network: None)
    words = ["payment", "refunded", contract.contract_id, "--debt", debt, "--reason", "sent on Monday"]

    for override in ([], ["--override", contract.contract_id]):
        assert main([*words, "--transaction", transaction, *override]) == 1
        assert "set BaseRpcUrl or BaseRpcUrlSecretArn" in capsys.readouterr().err
    assert stage.standing(contract).owes_refund


@pytest.mark.parametrize(
    ("changed", "said"),
    [(["--transaction", "0x12"], "64 hex digits"), (["--override", "ctr_other"], "--override must be")],
)
def test_a_refund_that_makes_no_sense_is_refused(stage, capsys, changed, said):
    words = ["payment", "refunded", "ctr_1", "--debt", "1-1-x", "--transaction", TRANSACTION, "--reason", "sent"]
    assert main([*words, *changed]) == 1
    assert said in capsys.readouterr().err


def a_row(stage, month, kind="platform_fee_due"):
    at_ms = int(time.mktime(time.strptime(f"{month}-15", "%Y-%m-%d"))) * 1000
    row = LedgerRow(kind, f"ctr_{month}", "task_" + "0" * 26, 1, 50_000, "eip155:8453", "0x" + "fe" * 20, at_ms)
    item = {
        "pk": f"LEDGER#{month}",
        "sk": f"{at_ms:015d}#{row.contract_id}#1#{kind}",
        "row": canonical({name: getattr(row, name) for name in row.__dataclass_fields__}).decode(),
    }
    stage.executions._table.put(item)


def test_the_ledger_is_exported_month_by_month_in_both_forms(stage, capsys, tmp_path):
    for month, kind in (("2025-11", "platform_fee_due"), ("2025-12", "refund_due"), ("2026-02", "refund_due")):
        a_row(stage, month, kind)

    assert main(["ledger", "export", "--from", "2025-12", "--to", "2026-02"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    file = tmp_path / "ledger.jsonl"
    assert main(["ledger", "export", "--from", "2025-11", "--to", "2025-11", "--format", "jsonl", str(file)]) == 0

    assert [row["contract_id"] for row in rows] == ["ctr_2025-12", "ctr_2026-02"]
    assert (rows[0]["kind"], rows[0]["usdc"], rows[0]["atomic"]) == ("refund_due", "0.050000", "50000")
    [line] = file.read_text().splitlines()
    assert json.loads(line)["at"].startswith("2025-11-15T")


def test_an_empty_ledger_has_its_names_only(stage, capsys):
    assert main(["ledger", "export"]) == 0
    assert capsys.readouterr().out.startswith("at,kind,contract_id,") and "\n" not in capsys.readouterr().out.strip()


@pytest.mark.parametrize("months", [("2026-13", "2026-13"), ("2026-02", "2026-01"), ("26-1", "26-1")])
def test_months_that_make_no_sense_are_refused(stage, capsys, months):
    assert main(["ledger", "export", "--from", months[0], "--to", months[1]]) == 1
    assert "YYYY-MM" in capsys.readouterr().err
