"""Debts and refunds in the worker's table and in memory: written once, with all that says so, or not at all."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest

from piecework.aws.attributes import plain
from piecework.clock import DAY_MS
from piecework.edge.http import Request
from piecework.errors import PieceworkError
from piecework.jsons import loads
from piecework.ops.door import Asked
from piecework.ops.money.wiring import OpsMoneyDoor
from piecework.ops.store.worker_rows import WorkerRowsTable
from piecework.worker.record.debts import Debt, DebtKey, owed_by
from piecework.worker.record.executions import LedgerRow, Moved
from piecework.worker.record.states import State
from piecework.worker.store.debts_table import DebtsTable
from piecework.worker.store.executions_table import ExecutionsTable, _ledger_item, from_item, to_item
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.debts import FakeDebts
from tests.support.ops.requests import OPERATOR, an_event
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions, a_task
from tests.support.worker.records import moved

STORED = json.loads((Path(__file__).parents[2] / "support/stored/worker_7a1e751.json").read_text())
PAID, BACK, OTHER = ("0x" + two * 32 for two in ("aa", "bb", "cc"))
DAY = START_MS // DAY_MS
FAR = tuple(f"{'9' * digits}-1-0123456789abcdef" for digits in (14, 15, 16))  # with 15, a year that no month has
OWED = LedgerRow("refund_due", "ctr_1", "task_1", 1, 1500, "eip155:8453", "0xfrom", START_MS, PAID)
RECEIPT = {"success": True, "transaction": PAID, "network": "base", "payer": "0xfrom"}


class Place:
    def __init__(self, executions, debts, rows):
        self.executions, self.debts, self.rows = executions, debts, rows

    def write_as_before(self, row):
        """The row of a debt as code wrote it that knew no refunds: whatever stands there."""
        if isinstance(self.executions, ExecutionsTable):
            self.executions._table.put(_ledger_item(row))
        else:
            self.rows.ledger.update({at: row for at, one in self.rows.ledger.items() if one == row})


def in_memory():
    rows, clock = FakeWorkerRows(), FakeClock()
    executions = KeptExecutions(rows, clock)
    return Place(executions, FakeDebts(rows, executions), rows)


def in_dynamodb(aws):
    client, work = aws.client("dynamodb"), aws.new_table("WorkTable")
    executions = ExecutionsTable(client, work, aws.new_table("DueTable"), FakeClock())
    return Place(executions, DebtsTable(client, work), WorkerRowsTable(client, work, aws.new_table("ContractsTable")))


@pytest.fixture(params=["fake", "dynamodb"])
def place(request):
    return in_memory() if request.param == "fake" else in_dynamodb(request.getfixturevalue("embedded_aws"))


def refund_of(debt, transaction=BACK, at_ms=START_MS + DAY_MS, operator="ann"):
    return debt.paid(transaction, by="evidence", operator=operator, reason="sent on Monday", at_ms=at_ms)


def failed(place):
    """A task whose work failed after it was paid, and the row of what that owes."""
    bound = a_task()
    place.executions.claim(None, bound)
    ended = moved(
        bound, State.FAILED_PERMANENT, payment_status="settled", receipt=RECEIPT, finished_at_ms=START_MS, payment=""
    )
    place.executions.move(bound, ended, ledger=[OWED])
    return ended


def owed_again(place, **changes):
    row = replace(OWED, **changes)
    place.executions.add_debt(row, f"8453/0xasset/0xfrom/{Debt(row).key}")
    [debt] = place.rows.debts([Debt(row).key])
    return debt


def test_a_debt_is_found_by_its_name_and_no_other(place):
    others = [
        owed_again(place, transaction=OTHER),
        owed_again(place, generation=2),
        owed_again(place, at_ms=START_MS + 1),
    ]
    others.append(owed_again(place, contract_id="ctr_2"))
    debt = owed_again(place)

    assert place.debts.debt("ctr_1", debt.key.name) == debt == Debt(OWED)
    assert [place.debts.debt("ctr_1", one.key.name) for one in others[:3]] == others[:3]
    assert len({one.key.name for one in [debt, *others[:3]]}) == 4
    for unknown in (f"{START_MS}-1-{'0' * 16}", f"{START_MS}-9-{debt.key.name[-16:]}", "", "ctr_1", "1-1-x", *FAR):
        assert place.debts.debt("ctr_1", unknown) is None
    assert place.debts.debt("ctr_3", debt.key.name) is None


def test_a_debt_that_a_record_owes_is_the_row_of_the_ledger(place):
    ended = failed(place)

    assert owed_by(ended) == Debt(OWED).key and ended.owes_refund
    assert place.rows.debts([owed_by(ended)]) == [Debt(OWED)]
    assert owed_by(a_task()) is None


def test_what_was_paid_back_stands_with_the_debt_the_day_the_money_and_the_record(place):
    ended = failed(place)
    debt = place.debts.debt("ctr_1", owed_by(ended).name)
    refund = refund_of(debt)
    place.debts.refund(refund, debt, ended)

    after = place.executions.read("ctr_1")
    assert (after.state, after.version, after.owes_refund) == (ended.state, ended.version + 1, False)
    assert after.settlement.refund == refund.word and owed_by(after) == owed_by(ended)
    assert place.debts.debt("ctr_1", debt.key.name) == Debt(OWED, refund)
    assert place.debts.counted("eip155:8453", BACK) == refund
    assert place.debts.counted("eip155:84532", BACK) is None
    assert place.rows.owed(DAY, 9) == [Debt(OWED, refund)] and place.rows.owed(DAY + 1, 9) == []
    assert place.rows.refunds(DAY + 1, 9) == [refund] and place.rows.refunds(DAY, 9) == []
    move = place.rows.moves("ctr_1", 9)[0]
    assert (move.payment, move.transaction, move.atomic, move.payer) == ("refunded", BACK, 1500, "0xfrom")
    assert move.resolution == {**refund.word, "debt": debt.key.name}
    assert [one.payment for one in place.rows.received(DAY, 9)] == ["settled"]  # no money came by it


@pytest.mark.parametrize("case", ["same debt", "same transaction", "record moved", "no debt"])
def test_a_refund_that_does_not_fit_any_more_writes_nothing(place, case):
    ended, second = failed(place), owed_again(place, transaction=OTHER)
    debt, before = place.debts.debt("ctr_1", owed_by(ended).name), ended
    if case in ("same debt", "same transaction"):
        place.debts.refund(refund_of(debt, operator="bob"), debt, ended)
    wanted, transaction = (second, BACK) if case == "same transaction" else (debt, OTHER)
    before = None if case == "same transaction" else before
    if case == "record moved":
        before = replace(ended, version=ended.version - 1)
    if case == "no debt":
        wanted, before = Debt(replace(OWED, generation=7)), None
    moves, standing = place.rows.moves("ctr_1", 9), place.executions.read("ctr_1")

    with pytest.raises(Moved):
        place.debts.refund(refund_of(wanted, transaction), wanted, before)

    assert place.rows.moves("ctr_1", 9) == moves and place.executions.read("ctr_1") == standing
    assert len(place.rows.refunds(DAY + 1, 9)) == (case in ("same debt", "same transaction"))
    assert place.debts.counted("eip155:8453", OTHER) is None


def test_a_debt_that_is_written_again_keeps_its_refund(place):
    debt = owed_again(place)
    place.debts.refund(refund_of(debt), debt, None)

    assert owed_again(place).refund == refund_of(debt)


def test_a_debt_that_old_code_writes_anew_without_its_refund_stays_paid_back(place):
    debt, other = owed_again(place), owed_again(place, transaction=OTHER)
    place.debts.refund(refund_of(debt), debt, None)
    place.write_as_before(OWED)

    paid = Debt(OWED, refund_of(debt))
    assert place.debts.debt("ctr_1", debt.key.name) == paid
    assert place.rows.debts([debt.key, other.key]) == [paid, other]
    assert place.rows.owed(DAY, 9) == [paid, other]
    for seen in (debt, paid):  # whatever was read before
        with pytest.raises(Moved):
            place.debts.refund(refund_of(debt, OTHER, operator="bob"), seen, None)
    assert place.rows.refunds(DAY + 1, 9) == [refund_of(debt)] and place.debts.counted("eip155:8453", OTHER) is None


def test_a_debt_whose_task_is_not_kept_any_more_can_be_paid_back(place):
    debt = owed_again(place)
    place.debts.refund(refund_of(debt), debt, None)

    assert place.executions.read("ctr_1") is None
    assert place.rows.refunds(DAY + 1, 9) == [refund_of(debt)]


def test_refunds_of_a_day_come_in_the_order_of_their_time_and_so_many(place):
    begins = (DAY + 1) * DAY_MS
    for number, at_ms in enumerate((begins - 1, begins + 20, begins, begins + DAY_MS - 1, begins + DAY_MS)):
        debt = owed_again(place, generation=number + 1)
        place.debts.refund(refund_of(debt, f"0x{number:064x}", at_ms), debt, None)

    assert [one.at_ms - begins for one in place.rows.refunds(DAY + 1, 9)] == [0, 20, DAY_MS - 1]
    assert [one.at_ms - begins for one in place.rows.refunds(DAY + 1, 2)] == [0, 20]


def test_the_ledger_of_a_month_has_refunds_as_rows_in_the_order_of_time(embedded_aws):
    place = in_dynamodb(embedded_aws)
    debt = owed_again(place)
    place.debts.refund(refund_of(debt, at_ms=START_MS + 5), debt, None)
    owed_again(place, at_ms=START_MS + 9)

    rows = place.executions.ledger("2027-01")
    assert [(row.kind, row.transaction) for row in rows] == [
        ("refund_due", PAID),
        ("refunded", BACK),
        ("refund_due", PAID),
    ]


def asked_of(client, **env):
    """What the door says of a refund, and of a payment in doubt, of a contract that nobody knows."""
    door = OpsMoneyDoor({"AWS_ENDPOINT_URL": "http://127.0.0.1:8792", "PIECEWORK_TABLE": "records", **env})
    door.__dict__["_clients"] = SimpleNamespace(dynamodb=client)
    told = {"debt": f"1-1-{'0' * 16}", "transaction": BACK}
    for verb, body in ((door.refund_evidence, told), (door.payment_evidence, {})):
        event = an_event(
            "/ops/tasks", method="POST", headers={"Content-Type": "application/json"}, body=json.dumps(body)
        )
        request = Request.from_event(event, lambda: 9_000)
        with pytest.raises(PieceworkError) as refusal:
            verb(Asked(request, OPERATOR, {"contract_id": "ctr_1"}))
        yield refusal.value.code, refusal.value.message


TABLES = {f"PIECEWORK_{name.upper()}_TABLE": f"{name}Table" for name in ("Work", "Due", "Contracts")}


def test_a_refund_needs_no_facilitator_and_a_payment_in_doubt_says_that_it_does(embedded_aws):
    made = {name: embedded_aws.new_table(table) for name, table in TABLES.items()}
    refund, payment = asked_of(embedded_aws.client("dynamodb"), **made, FACILITATOR_URL="")

    assert refund == ("not_found", "the ledger has no such debt of this contract")
    assert payment[0] == "conflict" and "set FacilitatorUrl" in payment[1]


@pytest.mark.parametrize("lacking", TABLES)
def test_a_stack_that_lacks_a_table_has_no_worker_door(lacking):
    told = asked_of(None, **{**TABLES, lacking: ""}, FACILITATOR_URL="https://f.example")

    assert list(told) == [("not_found", "this stack has no worker door")] * 2


def test_of_many_who_say_it_at_once_one_does(place):
    debts = [owed_again(place, generation=number + 1) for number in range(2)]
    place_at, done = Barrier(6), []

    def say(number):
        debt = debts[number % 2]
        place_at.wait()
        try:
            place.debts.refund(refund_of(debt, operator=f"op-{number}"), debt, None)
            done.append(number)
        except Moved:
            pass

    threads = [Thread(target=say, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == 1  # one transaction, one debt, one word
    [refund] = place.rows.refunds(DAY + 1, 9)
    assert refund.operator == f"op-{done[0]}"


def test_a_record_without_a_refund_is_written_as_before_and_one_with_is_read():
    task = a_task()
    assert "refund" not in json.loads(to_item(task, "w")["record"])
    told = task.paid_back({"transaction": BACK})
    assert from_item(to_item(told, "w")) == told


def test_the_name_of_a_debt_is_plain_whatever_its_transaction_holds():
    name = DebtKey("ctr_1", START_MS, 1, "<img src=x>/\ud800 ").name
    assert name.replace("-", "").isalnum() and len(name) < 64


def test_what_the_first_release_owed_is_paid_back(embedded_aws):
    place = in_dynamodb(embedded_aws)
    rows = [plain(row) for row in STORED["ledger"].values()]
    [owed] = [row for row in rows if "#refund_due#" in row["sk"]]
    record = plain(STORED["executions"]["failed after its payment"])
    for row in (*rows, record):
        place.executions._table.put(row)
    execution = place.executions.read(loads(owed["row"])["contract_id"])

    debt = place.debts.debt(execution.contract_id, owed_by(execution).name)
    place.debts.refund(refund_of(debt), debt, execution)

    assert debt.row.atomic == 5_000_000 and not place.executions.read(execution.contract_id).owes_refund
