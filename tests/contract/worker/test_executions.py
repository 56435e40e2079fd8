"""One contract for executions and due times, held against the fakes and against DynamoDB on the embedded AWS."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from piecework.clock import DAY_MS
from piecework.durable.due import Due
from piecework.errors import LeaseLost
from piecework.worker.record.execution import RELEASED_DUE, TASK_DUE, WEBHOOK_DUE, Execution
from piecework.worker.record.executions import LedgerRow, Moved, NonceTaken
from piecework.worker.record.states import State
from tests.support.fakes import START_MS
from tests.support.lost_answers import LostAnswers
from tests.support.worker.door_fakes import FakeDueTimes, FakeExecutions
from tests.support.worker.records import a_record, changed, moved

LATER = START_MS + 60_000
TABLE = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def new_table(aws) -> str:
    name = f"two-keys-{uuid4().hex}"
    aws.client("dynamodb").create_table(TableName=name, **TABLE)
    return name


@pytest.fixture(scope="module", params=["fake", "dynamodb", "lost answers"])
def stores(request):
    """(executions, due times) of one kind."""
    if request.param == "fake":
        due = FakeDueTimes()
        return FakeExecutions(due), due
    from piecework.aws.due_table import DueTable
    from piecework.worker.store.executions_table import ExecutionsTable

    aws = request.getfixturevalue("embedded_aws")
    work, due_table = new_table(aws), new_table(aws)
    client = LostAnswers(aws.client("dynamodb")) if request.param == "lost answers" else aws.client("dynamodb")
    return ExecutionsTable(client, work, due_table), DueTable(client, due_table)


@pytest.fixture
def executions(stores):
    return stores[0]


@pytest.fixture
def due(stores):
    return stores[1]


def an_execution(nonce: str | None = None, **changes) -> Execution:
    name = uuid4().hex[:12]
    made = a_record(
        contract_id=f"ctr_{name}",
        task_id=f"task_{uuid4().hex}",
        state=State.EXECUTING,
        version=1,
        generation=1,
        attempt=1,
        attempts=3,
        body_digest="d" * 64,
        executor="echo",
        created_at_ms=START_MS,
        ends_at_ms=START_MS + DAY_MS,
        input={"text": '{"brief":"ü 1.0"}'},
        claim_key=nonce or f"8453/0xasset/0xfrom/0x{name}",
        payer="0xfrom",
        valid_before=START_MS // 1000 + 900,
        payment='{"x402Version":2}',
        lease="l1",
        lease_until_ms=START_MS + 15_000,
        due_ms=START_MS + 16_000,
    )
    return changed(made, **changes)


def ripe(due, execution: Execution, kind: str = TASK_DUE) -> list[int]:
    return [row.at_ms for row in due.ripe(kind, START_MS * 2) if row.id == execution.contract_id]


def watched(due, execution: Execution) -> list[Due]:
    """The released payments of a contract that are looked for."""
    return [row for row in due.ripe(RELEASED_DUE, START_MS * 2) if row.id.startswith(f"{execution.contract_id}/")]


class TestExecutions:
    def test_nothing_stands_before_a_claim(self, executions):
        assert executions.read("ctr_nobody") is None

    def test_a_claim_writes_the_record_and_its_due_time(self, executions, due):
        execution = an_execution()

        executions.claim(None, execution)

        assert executions.read(execution.contract_id) == execution
        assert ripe(due, execution) == [execution.due_ms]

    def test_a_payment_is_claimed_from_its_claim_on_and_stays_so_when_it_is_released(self, executions):
        first = an_execution()
        assert not executions.is_claimed(first.payment.claim_key)

        executions.claim(None, first)
        assert executions.is_claimed(first.payment.claim_key)

        executions.move(first, moved(first, State.FAILED_PERMANENT, claim_status="released"))
        assert executions.is_claimed(first.payment.claim_key)

    def test_every_member_comes_back_as_it_was_written(self, executions):
        execution = an_execution(
            result={"text": None, "pointer": "work/x"},
            failure={"code": "EXECUTION_FAILED", "message": "no", "details": {"path": "/a", "list": [1, 2.5]}},
            receipt={"success": True, "transaction": "0x" + "a" * 64},
            hashes=("0x1", "0x2"),
            payment="",
            payment_status="settled",
            settle_before=True,
            is_ambiguous=True,
            has_webhook=True,
            model="m",
        )
        executions.claim(None, execution)

        assert executions.read(execution.contract_id) == execution

    def test_a_second_claim_of_the_contract_is_refused_and_binds_nothing(self, executions, due):
        first = an_execution()
        second = replace(an_execution(), contract_id=first.contract_id)
        executions.claim(None, first)

        with pytest.raises(Moved):
            executions.claim(None, second)

        assert executions.read(first.contract_id) == first
        executions.claim(None, an_execution(nonce=second.payment.claim_key))  # its nonce is still free

    def test_one_nonce_pays_one_contract(self, executions, due):
        first = an_execution()
        second = an_execution(nonce=first.payment.claim_key)
        executions.claim(None, first)

        with pytest.raises(NonceTaken):
            executions.claim(None, second)

        assert executions.read(second.contract_id) is None and ripe(due, second) == []

    def test_of_a_record_and_a_nonce_that_both_stand_the_record_counts(self, executions):
        first = an_execution()
        executions.claim(None, first)

        with pytest.raises(Moved):
            executions.claim(None, first)

    def test_a_move_replaces_the_record_and_its_due_time(self, executions, due):
        first = an_execution()
        executions.claim(None, first)
        second = moved(first, State.SETTLING, result={"text": "{}"}, due_ms=LATER, lease="l2")

        executions.move(first, second)

        assert executions.read(first.contract_id) == second
        assert ripe(due, first) == [LATER]

    def test_a_move_from_an_old_version_is_refused_and_leaves_no_trace(self, executions, due):
        first = an_execution()
        executions.claim(None, first)
        second = moved(first, State.EXECUTING, lease="l2")
        executions.move(first, second)
        row = LedgerRow("platform_fee_due", first.contract_id, first.task_id, 1, 50_000, "eip155:8453", "0xfee", LATER)

        with pytest.raises(Moved):
            executions.move(first, moved(first, State.SETTLING, due_ms=LATER), ledger=[row], webhook_at_ms=LATER)

        assert executions.read(first.contract_id) == second
        assert ripe(due, first) == [first.due_ms] and ripe(due, first, WEBHOOK_DUE) == []
        assert not [row for row in executions.ledger("2027-01") if row.contract_id == first.contract_id]

    def test_the_end_takes_the_due_time_away_and_writes_ledger_and_webhook(self, executions, due):
        first = an_execution()
        executions.claim(None, first)
        settling = moved(first, State.SETTLING)
        executions.move(first, settling)
        done = moved(settling, State.COMPLETED, due_ms=0, payment="", claim_status="spent")
        row = LedgerRow("platform_fee_due", first.contract_id, first.task_id, 1, 50_000, "eip155:8453", "0xfee", LATER)

        executions.move(settling, done, ledger=[row], webhook_at_ms=LATER)

        assert executions.read(first.contract_id) == done
        assert ripe(due, first) == [] and ripe(due, first, WEBHOOK_DUE) == [LATER]
        assert [found for found in executions.ledger("2027-01") if found.contract_id == first.contract_id] == [row]

    def test_a_new_payment_takes_the_place_of_a_released_one_which_stays_bound(self, executions):
        first = an_execution()
        executions.claim(None, first)
        unpaid = moved(first, State.UNPAID, claim_status="released")
        executions.move(first, unpaid)
        again = moved(unpaid, State.RESULT_READY, claim_key=f"{first.payment.claim_key}ff", claim_status="active")

        executions.claim(unpaid, again)

        assert executions.read(first.contract_id) == again
        with pytest.raises(NonceTaken):
            executions.claim(None, an_execution(nonce=first.payment.claim_key))

    def test_a_superseded_claim_that_was_still_active_is_released_with_the_new_one(self, executions):
        first = an_execution(state=State.FAILED_TRANSIENT)
        executions.claim(None, first)
        again = moved(first, State.EXECUTING, claim_key=f"{first.payment.claim_key}ff")

        executions.claim(first, again)

        with pytest.raises(NonceTaken):
            executions.claim(again, moved(again, State.EXECUTING, claim_key=first.payment.claim_key))

    def test_a_live_lease_is_not_taken_over(self, executions):
        first = an_execution()
        executions.claim(None, first)

        with pytest.raises(Moved):
            executions.take_over(first, moved(first, State.EXECUTING, lease="l2"), first.lease.until_ms - 1)

        executions.take_over(first, moved(first, State.EXECUTING, lease="l2"), first.lease.until_ms)
        assert executions.read(first.contract_id).lease.token == "l2"

    def test_a_released_payment_is_watched_from_the_write_that_releases_it(self, executions, due):
        first = an_execution(state=State.FAILED_TRANSIENT)
        executions.claim(None, first)
        second = moved(first, State.EXECUTING, claim_key=f"{first.payment.claim_key}ff")
        assert watched(due, first) == []

        executions.claim(first, second)
        assert watched(due, first) == [first.released_due]

        executions.move(second, moved(second, State.EXECUTING))
        assert watched(due, first) == [first.released_due]

        executions.move(moved(second, State.EXECUTING), ended := changed(second, version=4, claim_status="released"))
        assert set(watched(due, first)) == {first.released_due, ended.released_due}

    def test_what_is_owed_is_written_once(self, executions):
        name = uuid4().hex
        row = LedgerRow("refund_due", f"ctr_{name}", "task_x", 1, 5, "eip155:8453", "0xfrom", START_MS, "0x1")
        other = replace(row, transaction="0x2")

        for owed, claim in ((row, "1"), (row, "1"), (replace(row, at_ms=START_MS + 1), "1"), (row, "2"), (other, "3")):
            executions.add_debt(owed, f"8453/0xasset/0xfrom/{name}{claim}")

        month = datetime.fromtimestamp(START_MS // 1000, UTC).strftime("%Y-%m")
        assert [one for one in executions.ledger(month) if one.contract_id == row.contract_id] == [row, other]

    def test_items_are_added_by_the_runner_that_holds_the_lease_and_go_with_its_next_move(self, executions):
        first = an_execution()
        executions.claim(None, first)
        items = ({"type": "file", "name": "ü.txt", "size": 3}, {"type": "json", "content": {"a": [1, 2.5]}})

        for item in items:
            executions.add_item(first.contract_id, "l1", item)
        with pytest.raises(LeaseLost):
            executions.add_item(first.contract_id, "l2", items[0])
        with pytest.raises(LeaseLost):
            executions.add_item("ctr_nobody", "l1", items[0])

        standing = executions.read(first.contract_id)
        assert standing == changed(first, items=items)
        ready = moved(standing, State.RESULT_READY, items=items[:1])
        executions.move(first, ready)
        assert executions.read(first.contract_id).attempt.items == items[:1]

    def test_a_lease_renewed_meanwhile_is_not_taken_over(self, executions):
        first = an_execution()
        executions.claim(None, first)
        executions.renew(first.contract_id, "l1", LATER)

        with pytest.raises(Moved):
            executions.take_over(first, moved(first, State.EXECUTING, lease="l2"), LATER - 1)
        assert executions.read(first.contract_id) == changed(first, lease_until_ms=LATER)

    def test_a_renewal_does_not_stop_its_holder(self, executions):
        first = an_execution()
        executions.claim(None, first)
        executions.renew(first.contract_id, "l1", LATER)

        executions.move(first, moved(first, State.RESULT_READY, lease="", lease_until_ms=0))

        assert executions.read(first.contract_id).state is State.RESULT_READY

    def test_a_lease_that_went_to_another_is_not_renewed(self, executions):
        first = an_execution()
        executions.claim(None, first)
        executions.take_over(first, moved(first, State.EXECUTING, lease="l2"), LATER)

        with pytest.raises(LeaseLost):
            executions.renew(first.contract_id, "l1", LATER * 2)
        with pytest.raises(Moved):
            executions.move(first, moved(first, State.RESULT_READY))

    def test_of_many_claims_of_one_contract_one_wins(self, executions):
        first = an_execution()

        outcomes = at_once(lambda: executions.claim(None, replace(an_execution(), contract_id=first.contract_id)))

        assert outcomes.count("won") == 1 and outcomes.count("Moved") == 15

    def test_of_many_contracts_with_one_payment_one_wins(self, executions):
        nonce = an_execution().payment.claim_key

        outcomes = at_once(lambda: executions.claim(None, an_execution(nonce=nonce)))

        assert outcomes.count("won") == 1 and outcomes.count("NonceTaken") == 15

    def test_of_many_moves_from_one_version_one_wins(self, executions):
        first = an_execution()
        executions.claim(None, first)
        seconds = iter([moved(first, State.EXECUTING, lease=f"x{n}", due_ms=LATER + n) for n in range(16)])

        outcomes = at_once(lambda: executions.move(first, next(seconds)))

        assert outcomes.count("won") == 1 and outcomes.count("Moved") == 15


class TestDueTimes:
    def test_what_has_come_is_ripe_until_it_is_removed(self, due):
        row = Due(START_MS, "probe", uuid4().hex)
        due.put(row)
        due.put(row)

        assert row not in list(due.ripe("probe", START_MS - 1))
        assert list(due.ripe("probe", START_MS)).count(row) == 1
        due.remove(row)
        due.remove(row)
        assert row not in list(due.ripe("probe", START_MS))

    def test_ids_may_hold_the_separator(self, due):
        row = Due(START_MS, "other", "a#b#c")
        due.put(row)

        assert row in list(due.ripe("other", START_MS))


def at_once(act, count: int = 16) -> list[str]:
    outcomes: list[str] = []

    def one() -> None:
        try:
            act()
            outcomes.append("won")
        except (Moved, NonceTaken) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_a_write_whose_answer_was_lost_is_recognised(embedded_aws):
    from piecework.errors import Unavailable
    from piecework.worker.store.executions_table import ExecutionsTable

    client = embedded_aws.client("dynamodb")

    class SendsTwice:
        """Every write is sent a second time, as a client does that lost the first answer."""

        def __getattr__(self, name):
            call = getattr(client, name)
            if name not in ("put_item", "transact_write_items"):
                return call
            return lambda **arguments: (call(**arguments), call(**arguments))[1]

    executions = ExecutionsTable(SendsTwice(), new_table(embedded_aws), new_table(embedded_aws))
    execution = an_execution()

    executions.claim(None, execution)
    executions.move(execution, moved(execution, State.RESULT_READY))

    assert executions.read(execution.contract_id).state is State.RESULT_READY
    with pytest.raises(Unavailable):
        ExecutionsTable(client, "nowhere", "nowhere").read("ctr_x")
