"""One truth about money: what the ledger, every body and the webhook say of a payment whose work failed after it."""

import time
from dataclasses import asdict

import pytest

from piecework.extend.executors import Outcome, Refused, Retryable
from piecework.worker.record.states import State
from piecework.worker.record.values import Failure
from tests.support.worker.records import changed
from tests.support.worker.stage import BODY, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


OWED = "the payment is owed back"


def rows(stage):
    return [(row.kind, row.atomic, bool(row.transaction)) for row in stage.executions.rows]


def paid_before(stage, do, **changes):
    contract = stage.contract("upfront", **changes)
    stage.do = do
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)
    return contract


def fails(error):
    def run(task, run):
        raise error

    return run


def half(task, run):
    return Outcome({"score": 7}, is_partial=True)


FEE, REFUND = ("platform_fee_due", 50_000, True), ("refund_due", 5_000_000, True)
# What the work did after its payment, how it ended, and the whole ledger of it.
ENDS = [
    (score, {}, State.COMPLETED, [FEE]),
    (half, {"terms__accept_partial": True}, State.PARTIAL_FINAL, [FEE]),
    (half, {}, State.FAILED_PERMANENT, [REFUND]),
    (fails(Refused("no")), {}, State.FAILED_PERMANENT, [REFUND]),
    (fails(Retryable("busy")), {"sla__retry_policy": "1 attempt"}, State.EXHAUSTED, [REFUND]),
    (fails(Retryable("busy")), {}, State.FAILED_TRANSIENT, []),
]


@pytest.mark.parametrize(("do", "changes", "end", "ledger"), ENDS)
def test_work_that_is_paid_before_owes_a_share_or_a_refund_and_never_both(stage, do, changes, end, ledger):
    contract = paid_before(stage, do, **changes)

    assert stage.state(contract) is end and rows(stage) == ledger and stage.charges() == 1


@pytest.mark.parametrize(("do", "changes", "end", "ledger"), ENDS)
def test_every_body_says_what_the_ledger_says(stage, do, changes, end, ledger):
    contract = paid_before(stage, do, callbacks__webhook_url="https://seeker.example/hooks", **changes)
    task_id = stage.standing(contract).task_id

    bodies = [stage.get(contract, task_id).body]
    bodies += [stage.post(contract).body] if end in {State.COMPLETED, State.FAILED_PERMANENT} else []
    bodies += [body for _, body in stage.announced]

    for body in bodies:
        assert body["payment"]["status"] == "settled" and body["payment"]["transaction"]
        assert body["payment"].get("refund_due") == ("5000000" if ledger == [REFUND] else None)
        assert ("error" in body and OWED in body["error"]["message"]) is (ledger == [REFUND])


def test_a_task_that_times_out_after_its_payment_says_once_that_it_is_owed_back(stage):
    contract = paid_before(stage, fails(Retryable("busy")))
    stage.settle_down(86_400 + 60)

    body = stage.get(contract, stage.standing(contract).task_id).body

    assert stage.state(contract) is State.TIMED_OUT and rows(stage) == [REFUND]
    assert body["error"]["message"].count(OWED) == 1 and body["payment"]["refund_due"] == "5000000"


def test_a_long_reason_leaves_room_for_what_is_owed(stage):
    contract = paid_before(stage, fails(Refused("because " * 100)))

    message = stage.get(contract, stage.standing(contract).task_id).body["error"]["message"]

    assert message.endswith(OWED) and len(message) <= 500


def test_a_contract_that_ended_by_refused_payments_before_ends_like_one_now(stage):
    """As records say it that were written when the last refusal was a 402 without an offer."""
    contract = stage.contract()
    stage.stub.say("settle", "fail:insufficient_funds")
    for _ in range(5):
        stage.post(contract, BODY, stage.pay(contract))
    standing = stage.standing(contract)
    text = "the work is done, but the payment was not taken; sign a new one to get the result"
    old = Failure("PAYMENT_FAILED", text, {"reason": "insufficient_funds"})
    stage.executions.items[contract.contract_id] = changed(standing, failure=asdict(old))

    answer = stage.post(contract)

    assert answer.status == 409 and "sign a new one" not in answer.text
    assert answer.body["error"]["code"] == "RETRIES_EXHAUSTED" and "PAYMENT-REQUIRED" not in answer.headers


def test_a_payment_before_the_work_that_is_not_taken_is_not_said_to_be_for_work_that_is_done(stage):
    contract = stage.contract("upfront")
    stage.stub.say("settle", "fail:insufficient_funds", "ok")
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)
    asked, polled = stage.post(contract), stage.get(contract, stage.standing(contract).task_id)
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)

    said = "the payment was not taken, so the work has not begun; sign a new one to have it done"
    assert asked.status == 402 and asked.body["error"].startswith(said) and "work is done" not in asked.text
    assert polled.body["error"]["message"] == said and polled.body["error"]["retryable"] is True
    assert (stage.state(contract), len(stage.runs)) == (State.COMPLETED, 1)


def test_a_fee_belongs_to_the_month_of_its_delivery(stage):
    paid_before(stage, score)
    month = time.strftime("%Y-%m", time.gmtime(stage.clock() / 1000))

    assert [row.kind for row in stage.executions.ledger(month)] == ["platform_fee_due"]
