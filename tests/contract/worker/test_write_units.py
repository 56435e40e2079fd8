"""What a paid task and a fresh piece cost in requests and write units; the figures of docs/cost.md are these."""

import re

import pytest

from local.gateway.lambdas.variables import ROOT
from piecework.aws.due_table import DueTable
from piecework.aws.pieces_table import PiecesTable
from piecework.durable.pieces import Origin, Pieces, Result, piece_key
from piecework.worker.payment.owing import ledger_row
from piecework.worker.record.debts import Debt
from piecework.worker.record.states import State
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.debts_table import DebtsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.clients.metered import Metered, size_of
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, no_renewal
from tests.support.ops.tasks import a_task
from tests.support.worker.contracts import a_record
from tests.support.worker.records import moved
from tests.support.worker.stage import BODY, Stage, stub_facilitator

WORKER = ("ContractsTable", "WorkTable", "DueTable")
BY_DAY = "/ByDay"
REFUND_UNITS = 14
UNIT_DOLLARS = 0.625  # for a million
COST = (ROOT / "docs/cost.md").read_text("utf-8")


@pytest.fixture
def metered(embedded_aws):
    def made(*names):
        tables = {embedded_aws.new_table(name): name for name in names}
        return Metered(embedded_aws.client("dynamodb"), embedded_aws.template, tables), *tables

    return made


@pytest.fixture
def paid(metered):
    """Requests and units of each part of a short task: its contract, the unpaid request, the paid one."""
    client, contracts, work, due = metered(*WORKER)
    clock = FakeClock(START_MS)
    ports = {
        "contracts": ContractsTable(client, contracts, clock),
        "executions": ExecutionsTable(client, work, due, clock),
        "due_times": DueTable(client, due),
    }
    with stub_facilitator() as stub:
        stage = Stage(stub, clock=clock, ports=ports)
        contract = stage.contract()
        parts = [client.take()]
        assert stage.post(contract).status == 402
        parts.append(client.take())
        assert stage.post(contract, BODY, stage.pay(contract)).status == 200
        return [*parts, client.take()]


def test_a_paid_task_writes_so_many_units_in_so_many_requests(paid):
    """A row or an index more shows here; say it in docs/cost.md, too."""
    contract, unpaid, hired = paid

    assert contract == ({"put_item": 1}, {"ContractsTable": 2, f"ContractsTable{BY_DAY}": 1})
    assert unpaid == ({"get_item": 2}, {})
    # claim: record 4, nonce 2, money 2; result: record 6, money 2; end: record 6, nonce 2, ledger 2, money 2
    assert hired == (
        {"get_item": 2, "transact_write_items": 3},
        {"WorkTable": 28, f"WorkTable{BY_DAY}": 2, "DueTable": 8},
    )


def test_a_refund_writes_so_many_units_in_one_transaction(metered):
    """What it costs to say that a payment was paid back: twice what its six rows weigh."""
    client, work, due = metered("WorkTable", "DueTable")
    executions, debts = ExecutionsTable(client, work, due, FakeClock()), DebtsTable(client, work)
    bound = a_task()
    receipt = {"success": True, "transaction": "0x" + "aa" * 32, "network": "base", "payer": bound.payment.payer}
    ended = moved(bound, State.FAILED_PERMANENT, payment_status="settled", receipt=receipt, payment="")
    row = ledger_row("refund_due", ended, a_record(START_MS), 1500, ended.payment.payer, 0, receipt["transaction"])
    executions.claim(None, bound)
    executions.move(bound, ended, ledger=[row])
    client.take()

    debt = debts.debt(bound.contract_id, Debt(row).key.name)
    refund = debt.paid("0x" + "bb" * 32, by="evidence", operator="ann", reason="paid back on Monday", at_ms=START_MS)
    debts.refund(refund, debt, ended)

    # the debt 2, that it is paid 2, its transaction 2, its day 2, the move 2, the record 4
    assert client.take() == ({"query": 1, "get_item": 1, "transact_write_items": 1}, {"WorkTable": REFUND_UNITS})
    assert f"A refund writes {REFUND_UNITS} units" in COST


def test_the_page_of_costs_says_the_units_of_a_paid_task(paid):
    units = sum(sum(part[1].values()) for part in paid)

    [row] = re.findall(r"^\| DynamoDB writes \| ([0-9.]+) \((\d+) units\)", COST, re.MULTILINE)
    assert (float(row[0]), int(row[1])) == (pytest.approx(units * UNIT_DOLLARS, abs=0.006), units)


def test_a_fresh_piece_writes_three_units_in_two_requests_and_a_replay_one(metered):
    client, table = metered("ResultsTable")
    pieces = Pieces(PiecesTable(client, table), FakeOverflow(), clock=FakeClock(), renewal=no_renewal)
    origin = Origin("kernel", "echo", ("task-1", "execution-1", "attempt-1"))
    key = piece_key("runtime", "kernel", "1")

    pieces.record(pieces.claim(key, "print", origin), Result(b'{"candidate_output":{"answer":"hello"}}'))
    fresh = client.take()
    pieces.claim(key, "print", origin)

    assert fresh == ({"put_item": 1, "update_item": 1}, {"ResultsTable": 2, f"ResultsTable{BY_DAY}": 1})
    assert client.take() == ({"put_item": 1}, {"ResultsTable": 1})
    assert "(2 writes of 1 unit, and 1 unit of the index)" in COST and "(1 refused write)" in COST


def test_a_unit_is_a_begun_kilobyte_of_the_larger_item_twice_in_a_transaction_and_once_in_each_index(metered):
    client, table = metered("ResultsTable")
    key, listed = {"pk": {"S": "a"}}, {"in_day": {"S": "1#0"}, "at_id": {"S": "1"}}

    client.put_item(TableName=table, Item={**key, "text": {"S": "x" * 3_000}})
    client.put_item(TableName=table, Item={**key, **listed})
    client.transact_write_items(
        TransactItems=[{"Put": {"TableName": table, "Item": {**key, **listed, "n": {"N": "1"}}}}]
    )
    client.put_item(TableName=table, Item={**key, **listed, "at_id": {"S": "2"}})
    client.delete_item(TableName=table, Key=key)

    assert client.take()[1] == {"ResultsTable": 3 + 3 + 2 + 1 + 1, f"ResultsTable{BY_DAY}": 1 + 2 + 1}


def test_the_size_of_an_item_is_that_of_its_names_and_values():
    assert size_of({"pk": {"S": "é"}, "n": {"N": "-12345"}, "flag": {"BOOL": True}}) == (2 + 2) + (1 + 5) + (4 + 1)
    assert size_of({"l": {"L": [{"S": "ab"}]}, "m": {"M": {"k": {"NULL": True}}}}) == (1 + 3 + 1 + 2) + (
        1 + 3 + 1 + 1 + 1
    )
    assert size_of({"b": {"B": b"abc"}, "s": {"SS": ["ab", "c"]}}) == (1 + 3) + (1 + 3)
