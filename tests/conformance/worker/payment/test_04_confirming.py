"""Worker specification 2.8, as amended: a facilitator's success counts once the chain shows its transaction."""

import secrets

import pytest

from piecework.worker.record.states import State
from tests.support.worker.stage import BODY, Stage

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


def hired(stage, word="ok", **changes):
    stage.stub.say("settle", word)
    contract = stage.contract(**changes)
    return contract, stage.post(contract, BODY, stage.pay(contract))


def test_a_success_with_a_hash_on_no_chain_releases_nothing(stage):
    contract, answer = hired(stage, "unknown-hash")
    assert answer.status == 202 and answer.body["payment"]["status"] == "settling"
    assert "output" not in answer.text and stage.settles() == 1

    stage.settle_down(stage.terms(contract).max_timeout_seconds + 300)

    assert stage.state(contract) is State.UNPAID and stage.charges() == 0 and stage.settles() == 1
    assert stage.counted["SettlementAlarm"] == 1
    assert stage.post(contract).status == 402


def test_a_success_that_a_lagging_node_does_not_know_yet_is_found_later(stage):
    stage.stub.say("rpc", "behind:20")
    contract, answer = hired(stage)
    assert answer.status == 202 and stage.charges() == 1

    stage.settle_down(60)

    done = stage.post(contract)
    assert done.status == 200 and done.receipt["success"] is True
    assert stage.settles() == 1 and stage.charges() == 1


def test_a_success_beside_a_node_that_does_not_answer_is_neither_repeated_nor_failed(stage):
    stage.stub.say("rpc", "500")
    contract, answer = hired(stage)
    assert answer.status == 202

    stage.settle_down(900)
    assert stage.post(contract).status == 202 and stage.settles() == 1
    stage.stub.say("rpc", "ok")
    stage.settle_down(700)

    assert stage.post(contract).status == 200 and stage.settles() == 1 and stage.charges() == 1


def test_a_success_that_names_somebody_elses_transaction_releases_nothing(stage, stub):
    other = stage.contract()
    stage.post(other, BODY, stage.pay(other))
    (paid,) = stub.ledger.transactions
    stage.worker.charging.__dict__["facilitator"] = Names(stage.worker.facilitator, paid)
    contract, answer = hired(stage)

    assert answer.status == 202
    stage.settle_down(120)
    assert stage.state(contract) is State.UNKNOWN and stage.charges() == 1
    assert ("settlement_alarm", "success_without_payment") in [
        (name, facts.get("alarm")) for name, facts in stage.log.lines
    ]
    assert stage.counted["SettlementAlarm"] == 1


class Names:
    """A facilitator client whose facilitator names another transaction and moves nothing."""

    def __init__(self, real, transaction):
        self.real, self.transaction = real, transaction

    def __getattr__(self, name):
        return getattr(self.real, name)

    def settle(self, payment, terms, seconds):
        from piecework.worker.chain.exchange import Answer

        payer = payment.authorization.from_
        success = {"success": True, "transaction": self.transaction, "network": "eip155:8453", "payer": payer}
        return Answer(200, success)


def test_work_that_is_paid_before_begins_only_when_the_chain_shows_the_payment(stage):
    stage.stub.say("settle", "unknown-hash")
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(120)

    assert stage.runs == [] and stage.state(contract) is State.UNKNOWN and stage.settles() == 1


def test_on_a_testnet_without_a_node_a_success_is_believed(stub):
    stage = Stage(stub, with_chain=False)
    contract, answer = hired(stage, "unknown-hash")

    assert answer.status == 200 and stage.state(contract) is State.COMPLETED


class Clock:
    """A clock that moves by pauses, and by the time that a silent node is waited for."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds


class Chain:
    """Knows a transaction only after so many looks; a look takes as long as it is allowed to, or not."""

    def __init__(self, clock, looks, waits=False):
        self.clock, self.looks, self.waits, self.asked = clock, looks, waits, 0

    def receipt(self, transaction, seconds):
        self.asked += 1
        assert 0 < seconds <= 2
        self.clock.now += seconds if self.waits else 0
        return self.looks < self.asked or None


@pytest.mark.parametrize(
    ("looks", "waits", "budget", "found", "seconds"),
    [
        (0, False, 10, True, 0.0),
        (2, False, 10, True, 0.6),
        (9, False, 10, False, 1.4),
        (9, True, 10, False, 2.0),
        (9, True, 0.5, False, 0.5),
        (9, False, 0, False, 0.0),
    ],
)
def test_a_transaction_is_looked_for_within_the_budget_and_two_seconds_at_most(looks, waits, budget, found, seconds):
    from piecework.worker.payment.confirming import Confirming

    clock = Clock()
    looking = Confirming(clock, clock.pause)

    seen = looking.receipt_of(secrets.token_hex(32), Chain(clock, looks, waits), budget)

    assert bool(seen) is found and clock.now == pytest.approx(seconds)
