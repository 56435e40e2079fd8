"""What the worker writes is what the operator's door reads: indexes, moves of money, webhooks, the ledger.

The same holds for the worker's stores and the door's rows in DynamoDB, and for those in memory.
"""

from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.ops.listing import DAY_MS, SHARDS
from piecework.ops.store.worker_rows import WorkerRowsTable
from piecework.ops.tasks import DeliveryHead
from piecework.webhooks.deliveries import KEPT_SECONDS, Delivery, DeliveryState
from piecework.webhooks.store import work_deliveries
from piecework.worker.contract.contracts import KEPT_MS
from piecework.worker.record.executions import LedgerRow, Moved
from piecework.worker.record.states import State
from piecework.worker.record.values import Lease
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions, ListedContracts, a_task

RECEIPT = {"success": True, "transaction": "0xabc", "network": "base", "payer": "0xfrom"}
DAY = START_MS // DAY_MS
CLAIM = "8453/0xasset/0xfrom/0xgiven_up"


class Place:
    """Stores of the worker, and the rows that the door reads."""

    def __init__(self, clock, executions, contracts, deliveries, rows):
        self.clock, self.executions, self.contracts = clock, executions, contracts
        self.deliveries, self.rows = deliveries, rows

    def listed(self, rows, day=DAY):
        return [row["pk"] for shard in SHARDS for row in rows.rows(day, shard, "", 8)]

    def sweep(self, now_s):
        """Remove what has outlived its time."""
        self.rows.sweep(now_s)


class InDynamoDB(Place):
    def __init__(self, aws):
        self.client, clock = aws.client("dynamodb"), FakeClock()
        self.work, contracts = aws.new_table("WorkTable"), aws.new_table("ContractsTable")
        super().__init__(
            clock,
            ExecutionsTable(self.client, self.work, aws.new_table("DueTable"), clock),
            ContractsTable(self.client, contracts, clock),
            work_deliveries(self.client, self.work, clock),
            WorkerRowsTable(self.client, self.work, contracts, clock=clock),
        )

    def sweep(self, now_s):
        """As DynamoDB does by itself."""
        for row in self.client.scan(TableName=self.work)["Items"]:
            if "expires_at" in row and int(row["expires_at"]["N"]) < now_s:
                self.client.delete_item(TableName=self.work, Key={name: row[name] for name in ("pk", "sk")})


def in_memory():
    rows, clock = FakeWorkerRows(), FakeClock()
    return Place(clock, KeptExecutions(rows, clock), ListedContracts(rows, clock), rows.hooks, rows)


@pytest.fixture(params=["fake", "dynamodb"])
def place(request):
    return in_memory() if request.param == "fake" else InDynamoDB(request.getfixturevalue("embedded_aws"))


def settled(place, contract_id="ctr_1"):
    """A task that is bound, done and paid, a second apart."""
    bound = a_task(contract_id)
    place.executions.claim(None, bound)
    settling = replace(bound, state=State.RESULT_READY).settling(Lease("l", START_MS), START_MS, START_MS + 9)
    place.clock.move(1)
    place.executions.move(bound, settling)
    place.clock.move(1)
    paid = replace(settling, outcome=replace(settling.outcome, result=bound.input)).paid(RECEIPT, START_MS)
    place.executions.move(settling, paid)
    return paid


def test_a_task_is_listed_under_its_day_once_however_often_it_moves(place):
    paid = settled(place)

    assert place.listed(place.rows.tasks) == ["EXEC#ctr_1"]
    assert place.listed(place.rows.tasks, DAY + 1) == []
    assert place.rows.executions(["ctr_1", "ctr_2"]) == {"ctr_1": paid}


def test_every_move_of_its_money_is_kept_with_its_time_the_newest_first(place):
    settled(place)

    moves = place.rows.moves("ctr_1", 9)
    assert [(move.payment, move.at_ms - START_MS) for move in moves] == [
        ("settled", 2_000),
        ("settling", 1_000),
        ("authorized", 0),
    ]
    assert place.rows.moves("ctr_1", 2) == moves[:2]
    assert place.rows.moves("ctr_2", 9) == []


def test_a_move_that_was_not_done_leaves_no_row(place):
    bound = a_task()
    place.executions.claim(None, bound)
    stale = replace(bound, version=7, state=State.RESULT_READY)

    with pytest.raises(Moved):
        place.executions.move(stale, stale.settling(Lease("l", START_MS), START_MS, START_MS + 9))
    assert [move.payment for move in place.rows.moves("ctr_1", 9)] == ["authorized"]


def test_money_that_came_is_found_by_its_day_and_what_is_owed_beside_it(place):
    for number in range(5):
        settled(place, f"ctr_{number}")
    row = LedgerRow("refund_due", "ctr_1", "task_1", 1, 10, "base", "0xw", DAY * DAY_MS)
    for at_ms in (row.at_ms - 1, row.at_ms, row.at_ms + DAY_MS - 1, row.at_ms + DAY_MS):
        place.executions.add_debt(replace(row, at_ms=at_ms), f"8453/0xasset/0xw/{at_ms}")

    came = [move for move in place.rows.received(DAY, 99) if move.payment == "settled"]
    assert [move.transaction for move in came] == ["0xabc"] * 5 and {move.atomic for move in came} == {1500}
    assert len(place.rows.received(DAY, 3)) == 3
    assert [move.payment for move in place.rows.received(DAY + 1, 99)] == ["released"]
    assert [owed.row.at_ms for owed in place.rows.owed(DAY, 9)] == [row.at_ms, row.at_ms + DAY_MS - 1]


def test_money_that_came_stays_in_the_ledger_when_its_task_is_gone_as_what_is_owed_does(place):
    paid = settled(place)
    place.executions.add_debt(LedgerRow("refund_due", "ctr_1", "task_1", 1, 10, "base", "0xw", START_MS), CLAIM)
    place.sweep(paid.expires_at + 1)

    assert place.rows.executions(["ctr_1"]) == {}
    assert [move.payment for move in place.rows.moves("ctr_1", 9)] == ["released", "settled"]
    assert len(place.rows.received(DAY, 9)) == 2 and len(place.rows.owed(DAY, 9)) == 1


def test_a_released_payment_that_was_taken_all_the_same_has_come_as_it_is_owed_back(place):
    place.executions.claim(None, a_task())
    owed = LedgerRow("refund_due", "ctr_1", "task_1", 1, 10, "eip155:8453", "0xfrom", START_MS, "0xtaken")
    for row in (owed, owed, replace(owed, generation=2, transaction="0xother")):
        place.executions.add_debt(row, f"{CLAIM}{row.generation}")

    came = place.rows.received(DAY, 9)
    assert {(move.transaction, move.generation) for move in came} == {("0xtaken", 1), ("0xother", 2)}
    assert {(move.payment, move.payer, move.atomic, move.network) for move in came} == {
        ("released", "0xfrom", 10, "eip155:8453")
    }
    assert len(place.rows.owed(DAY, 9)) == 2
    assert [move.payment for move in place.rows.moves("ctr_1", 9)] == ["released", "released", "authorized"]


def test_a_later_task_of_the_same_contract_id_leaves_the_money_of_an_earlier_one_in_the_ledger(place):
    paid = settled(place)
    place.sweep(paid.expires_at + 1)
    place.clock.move(100 * 86_400)
    again = replace(a_task("ctr_1"), payment=replace(a_task("ctr_1").payment, claim_key="8453/0xasset/0xfrom/0xother"))
    place.executions.claim(None, again)
    settling = replace(again, state=State.RESULT_READY).settling(Lease("l", START_MS), START_MS, START_MS + 9)
    place.executions.move(again, settling)
    done = replace(settling, outcome=replace(settling.outcome, result=again.input)).paid(RECEIPT, START_MS)
    place.executions.move(settling, done)

    assert len(place.rows.received(DAY, 9)) == len(place.rows.received(DAY + 100, 9)) == 1


def test_webhooks_are_read_without_their_bodies_secrets_and_the_paths_of_their_addresses(place):
    deliveries = place.deliveries
    delivery = Delivery("ctr_1", "evt_1", "https://seeker.example/hook/secret", b"body", "whsec_x")
    deliveries.put(delivery)
    deliveries.note(delivery, replace(delivery, state=DeliveryState.GIVEN_UP, attempt=9))
    deliveries.stop("ctr_1")

    assert place.rows.deliveries("ctr_1", 9) == [DeliveryHead("evt_1", "seeker.example", "given_up", 9)]


def test_a_webhook_past_its_time_is_not_shown_although_the_table_still_has_it(embedded_aws):
    place = InDynamoDB(embedded_aws)
    place.deliveries.put(Delivery("ctr_1", "evt_1", "https://seeker.example/hook", b"body"))
    place.clock.move(KEPT_SECONDS - 1)
    assert [one.event_id for one in place.rows.deliveries("ctr_1", 9)] == ["evt_1"]
    place.clock.move(1)
    place.deliveries.put(Delivery("ctr_1", "evt_2", "https://seeker.example/hook", b"body"))

    assert [one.event_id for one in place.rows.deliveries("ctr_1", 1)] == ["evt_2"]


def test_a_contract_is_listed_from_its_registration_on(place):
    from piecework.worker.contract.contracts import record_of
    from tests.support.worker.contracts import a_contract

    document = a_contract(START_MS, contract_id=f"ctr_{uuid4().hex[:12]}")
    record = record_of(document, None, attempts=3, source="api", stored_at_ms=START_MS)
    assert (place.contracts.put(record), place.contracts.put(record)) == ("new", "same")

    assert place.listed(place.rows.contracts) == [record.contract_id] and place.listed(place.rows.tasks) == []
    [head] = place.rows.heads([record.contract_id, "ctr_9"]).values()
    assert (head.stored_at_ms, head.source, head.hash) == (START_MS, "api", record.hash)
    assert head.expires_at == (record.deadline_ms + KEPT_MS) // 1000


def test_only_the_move_by_which_money_came_counts_as_received(place):
    """A later change of a payment that was settled already is a move too, and brings no money."""
    paid = settled(place)
    place.clock.move(1)
    later = replace(paid, version=paid.version + 1, settlement=replace(paid.settlement, looks=9))
    place.executions.move(paid, later)

    assert [move.payment for move in place.rows.moves("ctr_1", 9)] == ["settled", "settled", "settling", "authorized"]
    assert [move.version for move in place.rows.received(DAY, 9)] == [paid.version]


def test_what_is_owed_is_in_the_order_of_its_time_and_so_many(place):
    row = LedgerRow("refund_due", "ctr_1", "task_1", 1, 10, "base", "0xw", DAY * DAY_MS)
    for at_ms in (30, 10, 20):
        place.executions.add_debt(replace(row, at_ms=row.at_ms + at_ms), f"{CLAIM}{at_ms}")

    assert [owed.row.at_ms - row.at_ms for owed in place.rows.owed(DAY, 2)] == [10, 20]
    assert [came.at_ms - row.at_ms for came in place.rows.received(DAY, 9)] == [10, 20, 30]


def test_webhooks_come_in_the_order_of_their_ids_and_so_many(place):
    for number in (3, 1, 2):
        place.deliveries.put(Delivery("ctr_1", f"evt_{number}", "https://seeker.example/hook", b""))
    place.deliveries.put(Delivery("ctr_2", "evt_0", "https://seeker.example/hook", b""))

    assert [head.event_id for head in place.rows.deliveries("ctr_1", 2)] == ["evt_1", "evt_2"]
