"""What alarms read: each settlement is counted by what became of it, and a count that fails changes nothing."""

import pytest

from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.facilitator import HttpFacilitator, Verdict
from piecework.worker.record.states import State
from tests.support.worker.stage import BODY, Stage

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


def hired(stage, *words):
    """A contract whose first settlements get these answers; and the answer to its seeker."""
    if words:
        stage.stub.say("settle", *words)
    contract = stage.contract()
    return contract, stage.post(contract, BODY, stage.pay(contract))


def test_a_payment_that_was_taken_is_a_call_and_settled(stage):
    hired(stage)

    assert stage.counted == {"SettleCalls": 1, "Settled": 1}


def test_a_payment_that_was_not_taken_is_a_call_and_unpaid(stage):
    hired(stage, "fail:insufficient_funds")

    assert stage.counted == {"SettleCalls": 1, "SettlementUnpaid": 1}


def test_an_uncertain_settlement_is_counted_at_each_look_once_it_is_about_ten_minutes_old(stub):
    stage = Stage(stub, with_chain=False)
    hired(stage, "500")
    stub.say("verify", "500")
    assert stage.counted == {"SettleCalls": 1}

    for seconds, counted in ((360, 0), (300, 1), (600, 2)):  # looks after 30 s, 1, 2, 5, 10 min, and on whole minutes
        stage.settle_down(seconds)
        assert stage.counted["SettlementUnknownLong"] == counted


def test_a_settlement_that_is_asked_for_again_and_again_is_as_uncertain_as_one_that_waits(stage):
    hired(stage, *["500"] * 20)

    stage.settle_down(1_200)

    assert stage.settles() > 4 and stage.counted["SettleCalls"] == stage.settles()
    assert stage.counted["SettlementUnknownLong"] > 0 and stage.counted["Settled"] == 0


def test_a_settlement_that_a_witness_finds_unpaid_is_unpaid(stage):
    contract, _ = hired(stage, "500")
    stage.stub.say("settle", *["500"] * 100)

    stage.settle_down(stage.terms(contract).max_timeout_seconds + 2_400)

    assert stage.state(contract) is State.UNPAID and stage.counted["SettlementUnpaid"] == 1


def test_a_settlement_that_stays_uncertain_is_unresolved_once(stub):
    stage = Stage(stub, with_chain=False)
    contract, _ = hired(stage, "500")
    stub.say("verify", "500")

    stage.settle_down(stage.terms(contract).max_timeout_seconds + 2_400)

    assert stage.counted["SettlementUnresolved"] == 1


def test_a_facilitator_that_reads_another_payer_is_strange(stub):
    class Misreads(HttpFacilitator):
        def verify(self, payment, terms):
            return Verdict(is_valid=False, reason="payer_mismatch", payer_differs=True)

    stage = Stage(stub, ports={"facilitator": Misreads(stub.url)})
    hired(stage)

    assert stage.counted == {"SettlementAlarm": 1}


@pytest.mark.parametrize("word", ["ok", "fail:insufficient_funds", "500"])
def test_a_count_that_fails_changes_no_outcome_and_is_logged(stub, word, caplog):
    def broken(metrics):
        raise RuntimeError(metrics)

    stages = Stage(stub), Stage(stub, ports={"counts": SettlementCounts(broken)})
    counted, uncounted = [hired(stage, word) for stage in stages]

    assert counted[1].status == uncounted[1].status
    assert stages[0].state(counted[0]) is stages[1].state(uncounted[0])
    assert "a settlement was not counted" in caplog.text
