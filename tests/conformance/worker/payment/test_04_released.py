"""Worker specification 2.9: a payment that was released is never settled by us, and is missed when others spend it."""

import pytest

from local.facilitator.ledger import Transfer
from piecework.errors import Unprocessable
from piecework.extend.executors import Refused, Retryable
from piecework.worker.chain.rpc import ChainUnavailable, RpcChain
from piecework.worker.contract.contracts import KEPT_MS
from piecework.worker.payment.terms import LONGEST_SECONDS
from piecework.worker.record.execution import KEPT_DAYS, RELEASED_DUE
from piecework.worker.record.states import State
from tests.support.worker.payments import header
from tests.support.worker.stage import BODY, Stage, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


DAY = 86_400


def failing(error):
    def run(task, run):
        raise error

    return run


def transfer_of(payload, contract):
    signed = payload["payload"]["authorization"]
    asset = contract.network.usdc.lower()
    to, value = signed["to"].lower(), int(signed["value"])
    return Transfer(asset, signed["from"].lower(), to, value, signed["nonce"].lower())


def released_by(stage, how):
    """A contract whose first payment is released, and that payment."""
    contract = stage.contract()
    payload = stage.payload(contract)
    payment = {"PAYMENT-SIGNATURE": [header(payload)]}
    if how == "a refused input":
        stage.do = failing(Unprocessable("brief: too short"))
        stage.post(contract, BODY, payment)
        stage.do = score
        stage.post(contract, {"brief": "another"}, stage.pay(contract))
    elif how == "a payment that was not taken":
        stage.stub.say("settle", "fail:insufficient_funds", "ok")
        stage.post(contract, BODY, payment)
        stage.post(contract, BODY, stage.pay(contract))
    elif how == "an authorization that lapsed":
        stage.do = failing(Retryable("the model is busy"))
        stage.post(contract, BODY, payment)
        stage.clock.move(stage.terms(contract).max_timeout_seconds - 30)
        stage.do = score
        stage.post(contract, BODY, stage.pay(contract))
    else:
        stage.do = failing(Refused("no"))
        stage.post(contract, BODY, payment)
    return contract, payload


WAYS = ("a refused input", "a payment that was not taken", "an authorization that lapsed", "a task that failed")


def refunds(stage):
    return [row for row in stage.executions.rows if row.kind == "refund_due"]


def alarms(stage):
    return [facts for name, facts in stage.log.lines if name == "released_payment_used"]


def watched(stage):
    return [due for due in stage.due.rows if due.kind == RELEASED_DUE]


@pytest.mark.parametrize("how", WAYS)
def test_money_that_moved_on_a_released_payment_is_owed_back_and_alarmed(stage, how):
    contract, payload = released_by(stage, how)
    spent = stage.stub.ledger.charge(transfer_of(payload, contract))
    assert spent.kind == "used"

    stage.settle_down(LONGEST_SECONDS + 120)
    stage.settle_down(DAY)

    (row,) = refunds(stage)
    assert (row.contract_id, row.generation, row.atomic) == (contract.contract_id, 1, 5_000_000)
    assert (row.wallet.lower(), row.transaction) == (contract.seeker_wallet.lower(), spent.hash)
    assert row.network == "eip155:8453" and row.task_id == stage.standing(contract).task_id
    assert alarms(stage) == [{"contract_id": contract.contract_id, "transaction": spent.hash}]
    assert stage.counted["SettlementAlarm"] == 1
    assert watched(stage) == []


@pytest.mark.parametrize("how", WAYS)
def test_a_released_payment_that_nobody_used_leaves_nothing_behind(stage, how):
    _, payload = released_by(stage, how)
    assert len(watched(stage)) == 1

    stage.settle_down(LONGEST_SECONDS + 120)

    assert refunds(stage) == [] and alarms(stage) == [] and watched(stage) == []
    assert stage.stub.count("settle", payload["payload"]["authorization"]["nonce"]) <= 1


def test_a_released_payment_that_was_cancelled_is_owed_nothing(stage):
    contract, payload = released_by(stage, "a task that failed")
    stage.stub.ledger.add("cancelled", transfer_of(payload, contract))

    stage.settle_down(LONGEST_SECONDS + 120)

    assert refunds(stage) == [] and watched(stage) == []


def test_a_payment_that_is_settled_is_not_watched(stage):
    contract = stage.contract()

    stage.post(contract, BODY, stage.pay(contract))

    assert stage.state(contract) is State.COMPLETED and watched(stage) == []


def test_a_released_payment_that_lives_long_is_looked_for_daily(stage):
    contract = stage.contract()
    payload = stage.payload(contract, validBefore=str(stage.clock() // 1000 + 3 * DAY))
    stage.do = failing(Refused("no"))
    stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(payload)]})

    stage.settle_down(DAY + 120)
    (first,) = watched(stage)
    spent = stage.stub.ledger.charge(transfer_of(payload, contract))
    stage.settle_down(DAY + 120)

    assert first.at_ms > stage.clock() - 2 * DAY * 1000 and spent.kind == "used"
    assert [row.transaction for row in refunds(stage)] == [spent.hash] and watched(stage) == []


def test_a_look_that_is_repeated_owes_once(stage):
    contract, payload = released_by(stage, "a task that failed")
    stage.stub.ledger.charge(transfer_of(payload, contract))
    (due,) = watched(stage)
    stage.clock.now_ms = due.at_ms

    for _ in range(2):
        stage.worker.resume.fire(due, stage.clock())

    assert len(refunds(stage)) == 1


class Silent:
    """A node that does not answer."""

    def latest(self):
        raise ChainUnavailable("no answer")


def a_silent_node(stub):
    """A released payment that came, at its due time; a node that answers stands behind one that does not."""
    nodes = [Silent(), RpcChain(stub.rpc_url)]
    stage = Stage(stub, ports={"chain_of": lambda network: nodes[0]})
    contract, payload = released_by(stage, "a task that failed")
    stub.ledger.charge(transfer_of(payload, contract))
    (due,) = watched(stage)
    stage.clock.now_ms = due.at_ms
    return stage, nodes, due


@pytest.mark.parametrize("seconds", [0, 1])
def test_two_looks_of_one_message_owe_once_however_long_the_node_was_silent_between_them(stub, seconds):
    stage, nodes, due = a_silent_node(stub)

    for _ in range(2):  # the sweep sends a message for as long as the due time stands
        stage.worker.resume.fire(due, stage.clock())
        stage.clock.move(seconds)
    assert len(watched(stage)) == 1
    stage.due.put(watched(stage)[0]._replace(at_ms=stage.clock()))  # one that was left behind
    nodes.pop(0)
    stage.settle_down(DAY)

    assert len(refunds(stage)) == 1 and watched(stage) == []


def test_money_that_moved_is_owed_back_although_the_record_is_gone_by_then(stage):
    contract, payload = released_by(stage, "a task that failed")
    spent = stage.stub.ledger.charge(transfer_of(payload, contract))
    del stage.executions.items[contract.contract_id]  # kept for 91 days; an authorization may live longer

    stage.settle_down(LONGEST_SECONDS + 120)

    assert [(row.transaction, row.atomic) for row in refunds(stage)] == [(spent.hash, 5_000_000)]
    assert watched(stage) == []


def test_a_released_payment_is_looked_for_as_long_as_its_contract_is_kept(stage):
    contract = stage.contract()
    payload = stage.payload(contract, validBefore=str(stage.clock() // 1000 + 999 * DAY))
    stage.do = failing(Refused("no"))
    stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(payload)]})
    kept_until_ms = contract.deadline_ms + KEPT_MS

    stage.clock.now_ms = kept_until_ms - 1
    stage.sweep()
    assert len(watched(stage)) == 1
    stage.clock.move(DAY)
    stage.sweep()

    assert watched(stage) == [] and refunds(stage) == []


def test_a_node_that_does_not_answer_is_asked_again(stub):
    stage, nodes, due = a_silent_node(stub)

    stage.sweep()
    (again,) = watched(stage)
    nodes.pop(0)
    stage.settle_down(LONGEST_SECONDS + 120)

    assert due.at_ms < again.at_ms <= due.at_ms + 600_000
    assert len(refunds(stage)) == 1 and watched(stage) == []


def test_a_spent_payment_whose_log_no_node_has_is_given_up_in_the_end(stub):
    class Forgetful(RpcChain):
        def nonce_logs(self, *_):
            return []

    chain = Forgetful(stub.rpc_url)
    stage = Stage(stub, ports={"chain_of": lambda network: chain})
    contract, payload = released_by(stage, "a task that failed")
    stub.ledger.charge(transfer_of(payload, contract))

    stage.settle_down(LONGEST_SECONDS + 120)
    (waits,) = watched(stage)
    stage.clock.move(KEPT_DAYS * DAY)
    stage.settle_down(DAY)

    assert waits.at_ms < stage.clock() and watched(stage) == [] and refunds(stage) == []


def test_on_a_testnet_without_a_node_nobody_can_be_asked(stub):
    stage = Stage(stub, with_chain=False)
    released_by(stage, "a task that failed")

    stage.settle_down(LONGEST_SECONDS + 120)

    assert watched(stage) == [] and refunds(stage) == []


def test_real_money_is_looked_for_again_once_there_is_a_node(stub):
    chain = RpcChain(stub.rpc_url)
    nodes = [chain, None, chain]
    stage = Stage(stub, ports={"chain_of": lambda network: nodes[0]})
    contract, payload = released_by(stage, "a task that failed")
    stub.ledger.charge(transfer_of(payload, contract))
    nodes.pop(0)
    stage.settle_down(LONGEST_SECONDS + 120)
    assert len(watched(stage)) == 1 and refunds(stage) == []

    nodes.pop(0)
    stage.settle_down(DAY)

    assert watched(stage) == [] and len(refunds(stage)) == 1


def test_a_node_that_stands_behind_ends_no_watch(stage, stub):
    contract, payload = released_by(stage, "a task that failed")
    (due,) = watched(stage)
    stub.say("rpc", "behind:70")
    stage.clock.now_ms = due.at_ms + 20_000
    stage.sweep()
    spent = stub.ledger.charge(transfer_of(payload, contract))
    stub.say("rpc", "ok")

    stage.settle_down(DAY + 120)

    assert [row.transaction for row in refunds(stage)] == [spent.hash] and watched(stage) == []
