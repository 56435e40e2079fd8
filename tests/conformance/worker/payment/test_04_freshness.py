"""Worker specification 2.8, as amended: what was read of a chain counts only if it is fresh, whoever read it."""

import pytest

from piecework.worker.record.states import State
from tests.support.worker.stage import BODY, Stage, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


HOUR = 3_600


def hired(stage, *words, contract=None):
    stage.stub.say("settle", *words)
    contract = contract or stage.contract()
    return contract, stage.post(contract, BODY, stage.pay(contract))


def asks_each_minute(stage, contract, minutes):
    """A seeker that pays anew whenever it is told to; what it is answered in the end."""
    for _ in range(minutes):
        stage.settle_down(60)
        answer = stage.post(contract)
        if answer.status == 402:
            answer = stage.post(contract, BODY, stage.pay(contract))
        if answer.status == 200:
            return answer
    return answer


# What the facilitator does with the first settlements, and how the node behind the worker stands meanwhile.
LAGGING = [
    (("lost-cut", "ok"), "behind:300"),
    (("lost-cut", "ok"), "pool:300"),
    (("lost-cut", "ok"), "pool:150"),
    (("lost-cut", "ok"), "behind:40"),
    (("lost-garbage", "ok"), "pool:300"),
    (("nohash", "ok"), "pool:300"),
    (("cut", "lost-cut", "ok"), "pool:300"),
    (("500", "lost-cut", "ok"), "pool:100"),
    (("cut", "ok"), "pool:300"),
    (("cut", "ok"), "behind:300"),
    (("revert", "ok"), "pool:300"),
]


@pytest.mark.parametrize(
    ("words", "node"), LAGGING, ids=lambda case: "+".join(case) if isinstance(case, tuple) else case
)
def test_a_settlement_beside_a_node_that_stands_behind_charges_once(stage, words, node):
    stage.stub.say("rpc", node)
    contract, _ = hired(stage, *words)

    done = asks_each_minute(stage, contract, 10)
    stage.stub.say("rpc", "ok")
    done = done if done.status == 200 else asks_each_minute(stage, contract, 20)

    assert stage.charges() == 1
    assert done.status == 200 and done.receipt["success"] is True and len(stage.runs) == 1


def test_a_node_that_stays_behind_never_leads_to_a_second_call(stage):
    stage.stub.say("rpc", "behind:300")
    contract, _ = hired(stage, "cut", "ok")

    stage.settle_down(30 * 60)

    assert stage.settles() == 1 and stage.charges() == 0
    assert stage.post(contract).status == 202


def test_a_transaction_that_failed_counts_only_at_a_block_that_holds_it(stage):
    contract = stage.contract()

    def drained(task, run):
        stage.stub.ledger.funds[contract.seeker_wallet.lower()] = 0
        return score(task, run)

    stage.do = drained
    stage.stub.say("rpc", "pool:300")
    hired(stage, "ok", contract=contract)
    stage.settle_down(200)
    assert stage.state(contract) is State.UNKNOWN

    stage.stub.say("rpc", "ok")
    stage.settle_down(600)
    assert stage.state(contract) is State.UNPAID and stage.charges() == 0


def test_an_authorization_that_ended_unused_is_proven_only_by_a_fresh_block(stage):
    stage.stub.say("rpc", "behind:3000")
    contract, _ = hired(stage, "cut")
    stage.settle_down(stage.terms(contract).max_timeout_seconds + 300)
    assert stage.state(contract) is State.UNKNOWN

    stage.stub.say("rpc", "ok")
    stage.settle_down(700)
    assert stage.state(contract) is State.UNPAID and stage.charges() == 0


def test_funds_that_were_missing_before_the_last_call_do_not_prove_that_it_failed(stub):
    """On a testnet without a node: the payer fills up its wallet, and the call after that is paid without an answer."""
    stage = Stage(stub, with_chain=False)
    contract, _ = hired(stage, "500", "lost-cut")
    stub.say("verify", "invalid:invalid_exact_evm_insufficient_balance")
    stage.settle_down(300)
    stub.say("verify", "ok", "500")
    stage.settle_down(400)
    assert stage.settles() == 2 and stage.charges() == 1

    stub.say("verify", "invalid:invalid_exact_evm_payload_authorization_valid_before")
    stage.settle_down(stage.terms(contract).max_timeout_seconds + 1_200)
    answer = stage.post(contract)

    assert answer.status == 202 and answer.body["payment"]["status"] == "unresolved"


def test_a_call_to_a_facilitator_whose_word_is_as_old_as_the_last_one_is_not_repeated(stub):
    stage = Stage(stub, with_chain=False)
    contract, _ = hired(stage, "500", "ok")

    stage.settle_down(59)
    assert stage.settles() == 1
    stage.settle_down(120)

    assert stage.settles() == 2 and stage.post(contract).status == 200
