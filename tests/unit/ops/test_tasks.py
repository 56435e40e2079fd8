"""What operators see of contracts, tasks and money, and what they never see."""

from dataclasses import replace

import pytest

from piecework.errors import BadRequest, Forbidden, NotFound
from piecework.ops.tasks import MOST_LEDGER_ROWS, MOST_MOVES, ContractHead, TaskViews
from piecework.webhooks.deliveries import Delivery, DeliveryState, Made
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.moves import MoneyMove
from piecework.worker.record.states import State
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.requests import NOBODY, VIEWER
from tests.support.ops.tasks import FakeWorkerRows, a_task

TRIES = [{"attempt": 9, "status": None, "at_ms": 5}]
BASE = "eip155:8453"
NO_SUMS = dict.fromkeys(("received", "platform_fee_due", "refund_due", "refunded", "still_owed_back"), "0")
GIVEN_UP = DeliveryState.GIVEN_UP
MOVE = replace(MoneyMove.between(None, a_task(), START_MS), payment="settled", transaction="0xabc")


class Bench:
    def __init__(self):
        self.rows, self.clock = FakeWorkerRows(), FakeClock()
        self.views = TaskViews(self.rows, self.clock)

    def ask(self, what, **query):
        return getattr(self.views, what)(VIEWER, {name: [value] for name, value in query.items()})


@pytest.fixture
def bench():
    return Bench()


def of_versions(many):
    return [replace(MOVE, version=version) for version in range(1, many + 1)]


def ids(page):
    return [item["contract_id"] for item in page["items"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["ctr_3", "ctr_2", "ctr_1"]),
        ({"state": "UNKNOWN"}, ["ctr_2"]),
        ({"payment": "unresolved"}, ["ctr_2"]),
        ({"payment": "authorized", "state": "EXECUTING"}, ["ctr_3", "ctr_1"]),
        ({"since_ms": str(START_MS - 1_500)}, ["ctr_3", "ctr_2"]),
        ({"until_ms": str(START_MS - 1_500)}, ["ctr_1"]),
        ({"limit": "1"}, ["ctr_3"]),
    ],
)
def test_tasks_are_listed_by_time_and_state(bench, query, found):
    doubtful = {"state": State.UNKNOWN, "payment_status": "unresolved", "due_ms": 0}
    for number, members in enumerate(({}, doubtful, {}), start=1):
        bench.rows.add(a_task(f"ctr_{number}", created_at_ms=START_MS - (3 - number) * 1_000, **members))

    assert ids(bench.ask("tasks", **query)) == found


def test_a_task_in_doubt_says_so_and_when_it_is_looked_at_next(bench):
    bench.rows.add(a_task(state=State.UNKNOWN, looks=4))

    [item] = bench.ask("tasks")["items"]
    assert (item["is_in_doubt"], item["next_look_at_ms"], item["looks"]) == (True, START_MS + 60_000, 4)


def test_a_task_says_what_its_payment_authorizes_on_which_network_where_that_is_known(bench):
    bench.rows.add(a_task("ctr_1", state=State.UNKNOWN))
    bench.rows.add(a_task("ctr_2", payment="", claim_key="nowhere"))
    bench.rows.add(a_task("ctr_3", state=State.COMPLETED, payment="", atomic=2_500))

    shown = {item["contract_id"]: (item["network"], item["atomic"]) for item in bench.ask("tasks")["items"]}
    assert shown == {"ctr_1": (BASE, "1500"), "ctr_2": ("", None), "ctr_3": (BASE, "2500")}
    assert bench.views.task(VIEWER, "ctr_1")["atomic"] == "1500"


def test_contracts_have_the_state_of_their_task_or_none_yet(bench):
    for number in (1, 2):
        bench.rows.sign(ContractHead(f"ctr_{number}", START_MS - number, START_MS // 1000 + 9, "api", "0xh"))
    bench.rows.records["ctr_1"] = a_task("ctr_1")

    assert [(item["contract_id"], item["state"]) for item in bench.ask("contracts")["items"]] == [
        ("ctr_1", "EXECUTING"),
        ("ctr_2", "SIGNED"),
    ]
    assert ids(bench.ask("contracts", state="SIGNED")) == ["ctr_2"]


def test_a_contract_whose_task_may_have_been_kept_no_longer_is_not_said_to_be_unpaid(bench):
    kept_ms = 91 * 86_400_000
    for number, stored_at_ms in enumerate((START_MS - kept_ms, START_MS - kept_ms + 1), start=1):
        bench.rows.sign(ContractHead(f"ctr_{number}", stored_at_ms, START_MS // 1000 + 9, "api", "0xh"))
    bench.rows.sign(ContractHead("ctr_3", START_MS - kept_ms - 1, START_MS // 1000 + 9, "api", "0xh"))
    bench.rows.records["ctr_3"] = a_task("ctr_3")

    found, cursor = [], ""
    while cursor is not None:
        page = bench.ask("contracts", cursor=cursor)
        found, cursor = found + page["items"], page["next"]

    assert {item["contract_id"]: item["state"] for item in found} == {
        "ctr_1": "NOT_KEPT",
        "ctr_2": "SIGNED",
        "ctr_3": "EXECUTING",
    }


def test_one_task_shows_its_money_and_webhooks_and_neither_work_nor_what_opens_it(bench):
    bench.rows.add(a_task())
    bench.rows.keep(MOVE, replace(MOVE, version=2))
    bench.rows.hooks.put(
        Delivery("ctr_1", "evt_1", "https://seeker.example/s3cret", b"", None, GIVEN_UP, 9, (Made(9, None, 5),))
    )

    found = bench.views.task(VIEWER, "ctr_1")

    assert [move["version"] for move in found["moves"]] == [2, 1] and found["moves"][0]["atomic"] == "1500"
    assert found["webhooks"] == [
        {"event_id": "evt_1", "host": "seeker.example", "state": "given_up", "attempt": 9, "tries": TRIES}
    ]
    assert (found["payer"], found["claim"], found["nonce"]) == ("0xfrom", "active", "0xctr_1")
    for secret in ("task_secret", "private", "x402Version", "d" * 64):
        assert secret not in str(found) and secret not in str(bench.ask("tasks"))


def test_more_moves_than_are_shown_are_said(bench):
    bench.rows.add(a_task())
    bench.rows.keep(*of_versions(MOST_MOVES + 1))

    found = bench.views.task(VIEWER, "ctr_1")
    assert len(found["moves"]) == MOST_MOVES and found["has_more_moves"] is True


def test_the_ledger_of_a_day_sets_what_came_beside_what_is_owed(bench):
    bench.rows.keep(MOVE, replace(MOVE, at_ms=START_MS - 86_400_000))
    row = LedgerRow("platform_fee_due", "ctr_1", "task_secret", 1, 75, "eip155:8453", "0xw", START_MS)
    bench.rows.owe(row, replace(row, kind="refund_due", atomic=1500), replace(row, at_ms=START_MS - 86_400_000))

    found = bench.ask("ledger", day="2027-01-15")

    assert found == bench.ask("ledger")
    sums = {"received": "1500", "platform_fee_due": "75", "refund_due": "1500", "still_owed_back": "1500"}
    assert found["totals_atomic"] == {BASE: {**sums, "refunded": "0"}}
    assert (len(found["received"]), len(found["owed"]), found["is_complete"]) == (1, 2, None)
    assert "task_secret" not in str(found)


def test_the_ledger_adds_up_each_chain_alone_so_that_test_money_is_not_taken_for_money(bench):
    testnet, other = (replace(MOVE, network="eip155:84532", atomic=7, version=version) for version in (2, 3))
    bench.rows.keep(MOVE, testnet, other, replace(MOVE, network="", atomic=None, version=4))
    bench.rows.owe(LedgerRow("refund_due", "ctr_1", "task_1", 1, 3, "eip155:84532", "0xw", START_MS))

    found = bench.ask("ledger")

    assert found["totals_atomic"] == {
        "": NO_SUMS,
        BASE: {**NO_SUMS, "received": "1500"},
        "eip155:84532": {**NO_SUMS, "received": "14", "refund_due": "3", "still_owed_back": "3"},
    }
    assert {move["network"] for move in found["received"]} == {BASE, "eip155:84532", ""}


def test_a_day_without_money_has_no_totals(bench):
    assert bench.ask("ledger")["totals_atomic"] == {}


@pytest.mark.parametrize(
    ("since", "is_complete"), [("", None), ("1970-01-01", True), ("2027-01-15", True), ("2027-01-16", False)]
)
def test_the_ledger_says_from_which_day_it_is_complete_as_far_as_somebody_has_said_it(bench, since, is_complete):
    bench.views = TaskViews(bench.rows, bench.clock, since)

    found = bench.ask("ledger", day="2027-01-15")
    assert (found["is_complete"], found["complete_from"]) == (is_complete, since or None)
    bench.rows.keep(*of_versions(MOST_LEDGER_ROWS + 1))
    assert bench.ask("ledger", day="2027-01-15")["is_complete"] is False


def test_a_ledger_that_is_cut_says_that_its_totals_are_not_all(bench):
    bench.rows.keep(*of_versions(MOST_LEDGER_ROWS + 1))

    found = bench.ask("ledger")
    assert found["is_complete"] is False and len(found["received"]) == MOST_LEDGER_ROWS


@pytest.mark.parametrize(
    ("what", "query"),
    [("tasks", {"state": "LOST"}), ("tasks", {"payment": "gone"}), ("tasks", {"cursor": "x"}),
     ("contracts", {"state": "x"}), ("contracts", {"payment": "settled"}),
     ("ledger", {"day": "2027-1-15"}), ("ledger", {"day": "15.01.2027"}),
     ("ledger", {"day": "2027-02-30"}), ("ledger", {"day": "0001-01-01"}), ("ledger", {"month": "2027-01"}),
     ("ledger", {"day": "٢٠٢٧-01-15"})],
)  # fmt: skip
def test_a_parameter_without_meaning_is_refused(bench, what, query):
    with pytest.raises(BadRequest):
        bench.ask(what, **query)


def test_a_page_reads_a_bounded_number_of_records_whatever_is_stored(bench):
    for number in range(3_000):
        bench.rows.add(a_task(f"ctr_{number}", created_at_ms=START_MS - number))

    bench.ask("tasks", state="UNKNOWN", limit="50")

    assert bench.rows.read_records <= bench.rows.index.read_rows <= 512


def test_a_task_that_is_not_there_is_not_found(bench):
    with pytest.raises(NotFound):
        bench.views.task(VIEWER, "ctr_9")


@pytest.mark.parametrize("what", ["tasks", "contracts", "ledger", "task"])
def test_who_may_not_read_is_refused_by_the_domain(bench, what):
    with pytest.raises(Forbidden):
        getattr(bench.views, what)(NOBODY, {} if what != "task" else "ctr_1")
