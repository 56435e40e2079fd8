"""Worker conformance, cases 37 to 46: what becomes of the money, whatever the facilitator says and whoever dies."""

import threading

import pytest

from piecework.errors import PieceworkError, Unprocessable
from piecework.worker.record.states import State
from tests.support.crash import Crashed
from tests.support.machine import wait_until
from tests.support.worker.payments import header
from tests.support.worker.stage import BODY, Stage, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


@pytest.fixture(params=["with a node", "without a node"])
def either(request, stub):
    return Stage(stub, with_chain=request.param == "with a node")


def hired(stage, *words):
    """A contract whose first settlement gets these answers; and the answer to its seeker."""
    stage.stub.say("settle", *words)
    contract = stage.contract()
    return contract, stage.post(contract, BODY, stage.pay(contract))


def never_402(stage, contract):
    for headers in ({}, stage.pay(contract)):
        assert stage.post(contract, BODY, headers).status != 402


def test_settle_definite_failure(stage):
    contract, answer = hired(stage, "fail:insufficient_funds", "ok")

    assert answer.status == 402 and answer.body["code"] == "PAYMENT_FAILED"
    assert answer.receipt["success"] is False and answer.receipt["errorReason"] == "insufficient_funds"
    assert "PAYMENT-REQUIRED" in answer.headers and "files.example" not in answer.text
    assert answer.body["payment"]["status"] == "failed" and answer.body["task_id"]
    assert stage.post(contract).status == 402
    assert stage.get(contract, answer.body["task_id"]).body["status"] == "failed"
    assert stage.standing(contract).payment.document == ""

    done = stage.post(contract, BODY, stage.pay(contract))
    assert done.status == 200 and len(stage.runs) == 1 and stage.charges() == 1
    assert done.body["task_id"] == answer.body["task_id"]


def test_the_payment_that_was_not_taken_is_never_settled_again(stage):
    contract = stage.contract()
    payment = {"PAYMENT-SIGNATURE": [header(stage.payload(contract))]}
    stage.stub.say("settle", "fail:insufficient_funds", "ok")
    stage.post(contract, BODY, payment)

    again = stage.post(contract, BODY, payment)

    assert again.status == 402 and again.body["code"] == "PAYMENT_FAILED" and stage.settles() == 1


def test_the_contracts_own_payment_is_refused_for_the_facilitators_reason(stage):
    contract = stage.contract()
    payment = {"PAYMENT-SIGNATURE": [header(stage.payload(contract))]}
    stage.stub.say("settle", "fail:insufficient_funds")
    stage.post(contract, BODY, payment)
    stage.stub.say("verify", "invalid:insufficient_funds")

    again = stage.post(contract, BODY, payment)

    assert again.status == 402 and again.body["details"]["reason"] == "insufficient_funds"


def test_five_payments_that_were_not_taken_end_the_contract(stage):
    contract, answer = hired(stage, "fail:insufficient_funds")
    for _ in range(4):
        assert answer.status == 402 and "PAYMENT-REQUIRED" in answer.headers  # no 402 without an offer
        answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 409 and stage.state(contract) is State.FAILED_PERMANENT
    error = answer.body["error"]
    assert (error["code"], error["retryable"]) == ("RETRIES_EXHAUSTED", False)
    assert error["details"] == {"reason": "insufficient_funds"} and "sign a new one" not in error["message"]
    assert stage.post(contract, BODY, stage.pay(contract)).status == stage.post(contract).status == 409
    assert stage.get(contract, answer.body["task_id"]).body["error"] == error
    assert stage.settles() == 5 and stage.charges() == 0


def test_settle_pending_500(either):
    stage = either
    contract, answer = hired(stage, "pending500", "ok")

    assert answer.status == 202 and answer.body["payment"]["status"] == "settling"
    never_402(stage, contract)
    stage.settle_down(180)
    assert stage.post(contract).status == 200 and stage.charges() == 1
    assert len({call["nonce"] for call in stage.stub.calls if call["call"] == "settle"}) == 1


def test_settle_timeout_after_charge(stub):
    stage = Stage(stub)
    stage.worker.charging.__dict__["facilitator"] = Impatient(stage.worker.facilitator, stub.ledger)
    contract, answer = hired(stage, "lost")

    assert answer.status == 202 and stage.charges() == 1
    never_402(stage, contract)
    stage.settle_down(180)
    done = stage.post(contract)
    assert done.status == 200 and done.receipt["success"] is True and stage.charges() == 1
    assert stage.settles() == 1


class Impatient:
    """A facilitator client that does not wait long for a settlement, but until the money has moved."""

    def __init__(self, real, ledger):
        self.real, self.ledger = real, ledger

    def __getattr__(self, name):
        return getattr(self.real, name)

    def settle(self, payment, terms, seconds):
        settled = self.real.settle(payment, terms, 1.5)
        wait_until(self.ledger.charges)
        return settled


def test_settle_timeout_after_charge_without_a_node(stub):
    stage = Stage(stub, with_chain=False)
    stage.worker.charging.__dict__["facilitator"] = Impatient(stage.worker.facilitator, stub.ledger)
    contract, _ = hired(stage, "lost")
    stage.settle_down(180)

    done = stage.post(contract)
    assert done.status == 200 and done.body["payment"] == {"status": "settled_unconfirmed"}
    assert done.receipt is None and stage.charges() == 1
    assert ("settled_unconfirmed", {"contract_id": contract.contract_id}) in stage.log.lines
    assert stage.counted["SettlementAlarm"] == 1


def test_settle_refused_connection(stage, stub):
    contract = stage.contract()
    payment = stage.pay(contract)

    def goes_down(task, run):
        stub.go_down()
        return score(task, run)

    stage.do = goes_down
    answer = stage.post(contract, BODY, payment)
    assert answer.status == 202 and stage.state(contract) is State.RESULT_READY
    assert answer.body["payment"]["status"] == "authorized"
    stage.settle_down(60)
    assert stage.state(contract) is State.RESULT_READY

    stub.come_up()
    stage.settle_down(300)
    assert stage.post(contract).status == 200 and stage.charges() == 1 and len(stage.runs) == 1


def test_a_settlement_that_could_never_be_sent_ends_with_the_authorization(stage, stub):
    contract = stage.contract()
    payment = stage.pay(contract)

    def goes_down(task, run):
        stub.go_down()
        return score(task, run)

    stage.do = goes_down
    stage.post(contract, BODY, payment)
    stage.settle_down(stage.terms(contract).max_timeout_seconds + 400)

    stub.come_up()
    answer = stage.post(contract)
    assert answer.status == 402 and answer.body["details"]["reason"].endswith("_valid_before")
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200 and len(stage.runs) == 1


@pytest.mark.parametrize("word", ["nohash", "lost-garbage", "lost-cut"])
def test_an_unclear_answer_after_a_charge_is_reconciled(stage, word):
    contract, answer = hired(stage, word)

    assert answer.status == 202 and answer.body["payment"]["status"] == "settling"
    never_402(stage, contract)
    stage.settle_down(180)
    assert stage.post(contract).status == 200 and stage.charges() == 1


def test_settle_success_without_hash(stage):
    test_an_unclear_answer_after_a_charge_is_reconciled(stage, "nohash")

    assert stage.charges() == 1


def test_garbage_body(either):
    stage = either
    contract, answer = hired(stage, "garbage", "ok")

    assert answer.status == 202 and stage.charges() == 0
    stage.settle_down(300)
    assert stage.post(contract).status == 200 and stage.charges() == 1


def test_late_failure_is_not_proof(stub):
    stage = Stage(stub, with_chain=False)
    contract, answer = hired(stage, "500", "revert", "ok")
    assert answer.status == 202
    stage.settle_down(60)

    assert stage.state(contract) is State.UNKNOWN
    never_402(stage, contract)


def test_payer_drained_after_verify(stage, stub):
    contract = stage.contract()

    def drained(task, run):
        stub.ledger.funds[contract.seeker_wallet.lower()] = 0
        return score(task, run)

    stage.do = drained
    answer = stage.post(contract, BODY, stage.pay(contract))
    assert answer.status == 202 and stage.state(contract) is State.UNKNOWN

    stage.settle_down(400)
    last = stage.post(contract)
    assert last.status == 402 and last.body["code"] == "PAYMENT_FAILED" and stage.charges() == 0
    assert "output" not in last.body


def test_cancelled_authorization(stage):
    contract, answer = hired(stage, "cancelled")
    assert answer.status == 202

    stage.settle_down(180)

    assert stage.state(contract) is State.UNPAID and stage.post(contract).status == 402
    assert stage.charges() == 0


class Dies:
    """A facilitator client whose process is killed around `/settle`."""

    def __init__(self, real, when):
        self.real, self.when = real, when

    def __getattr__(self, name):
        return getattr(self.real, name)

    def settle(self, *arguments):
        if self.when == "before":
            self.when = ""
            raise Crashed
        answer = self.real.settle(*arguments)
        if self.when == "after":
            self.when = ""
            raise Crashed
        return answer


@pytest.mark.parametrize("when", ["before", "after"])
def test_crash_between_settle_and_record(either, when):
    stage = either
    stage.worker.charging.__dict__["facilitator"] = Dies(stage.worker.facilitator, when)
    contract = stage.contract()
    with pytest.raises(Crashed):
        stage.post(contract, BODY, stage.pay(contract))

    assert stage.state(contract) is State.SETTLING
    never_402(stage, contract)
    stage.settle_down(240)

    assert stage.state(contract) is State.COMPLETED and stage.charges() == 1 and stage.settles() <= 2


def test_a_repeated_request_brings_a_lost_settlement_to_its_end_sooner(stage):
    stage.worker.charging.__dict__["facilitator"] = Dies(stage.worker.facilitator, "after")
    contract = stage.contract()
    with pytest.raises(Crashed):
        stage.post(contract, BODY, stage.pay(contract))
    stage.clock.move(31)

    assert stage.post(contract).status == 202
    (due, delay), *_ = stage.nudges
    assert delay == 0
    stage.worker.resume.fire(due, stage.clock() + 900_000)

    assert stage.post(contract).status == 200 and stage.charges() == 1


def test_crash_while_executing(stage):
    contract = stage.contract()

    def dies(task, run):
        raise Crashed

    stage.do = dies
    with pytest.raises(Crashed):
        stage.post(contract, BODY, stage.pay(contract))
    stage.do = score
    stage.sweep()
    assert stage.state(contract) is State.EXECUTING and len(stage.runs) == 1

    stage.settle_down(60)

    done = stage.post(contract)
    assert done.status == 200 and done.body["metadata"]["attempt"] == 1 and len(stage.runs) == 2
    assert stage.charges() == 1


def test_a_runner_that_keeps_dying_fails_the_attempt(stage):
    contract = stage.contract("slow")
    stage.post(contract, BODY, stage.pay(contract))

    def dies(task, run):
        raise Crashed

    stage.do = dies
    for _ in range(3):
        with pytest.raises(Crashed):
            stage.worker.resume.drive(contract.contract_id, stage.clock() + 900_000)
        stage.clock.move(16)
    stage.worker.resume.drive(contract.contract_id, stage.clock() + 900_000)

    assert stage.state(contract) is State.FAILED_TRANSIENT and len(stage.runs) == 3
    assert stage.standing(contract).outcome.failure.code == "EXECUTION_TRANSIENT"


def test_a_task_nobody_started_is_driven_by_its_due_time(stage):
    contract = stage.contract("slow")
    stage.post(contract, BODY, stage.pay(contract))
    stage.queue.clear()

    stage.settle_down(120)

    assert stage.state(contract) is State.COMPLETED


def test_a_queue_out_of_reach_does_not_lose_a_task(stub):
    def refuses(execution):
        raise PieceworkError("no")

    stage = Stage(stub, ports={"enqueue": refuses})
    contract = stage.contract("slow")

    assert stage.post(contract, BODY, stage.pay(contract)).status == 202
    stage.settle_down(120)
    assert stage.state(contract) is State.COMPLETED


def test_unresolved_in_the_end_waits_for_an_operator(stub):
    stage = Stage(stub, with_chain=False)
    contract, _ = hired(stage, "500")
    stub.say("verify", "500")

    stage.settle_down(stage.terms(contract).max_timeout_seconds + 2_400)
    answer = stage.post(contract)
    assert answer.status == 202 and answer.body["payment"]["status"] == "unresolved"
    assert ("settlement_unresolved", {"contract_id": contract.contract_id}) in stage.log.lines

    stage.worker.charging.resolve(stage.case(contract), "0x" + "ab" * 32, override=True)
    assert stage.post(contract).receipt["transaction"] == "0x" + "ab" * 32


def test_two_lookers_at_one_unknown_settlement_settle_once_more_at_most(stage):
    contract, _ = hired(stage, "500", "ok")
    stage.clock.move(60)
    before = stage.settles()
    threads = [
        threading.Thread(target=lambda: stage.worker.resume.drive(contract.contract_id, stage.clock() + 900_000))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert stage.settles() == before + 1 and stage.charges() == 1 and stage.state(contract) is State.COMPLETED


def test_an_end_is_announced_once_and_again_by_its_due_time_when_that_fails(stub):
    calls = []

    def announce(execution, contract):
        calls.append(execution.state)
        if len(calls) == 1:
            raise PieceworkError("no")

    stage = Stage(stub, ports={"announce": announce})
    contract = stage.contract(callbacks__webhook_url="https://seeker.example/hooks")
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200

    stage.settle_down(60)

    assert calls == [State.COMPLETED] * 2 and not stage.due.rows


def test_an_end_that_was_not_announced_yet_is_announced_before_another_input_takes_its_place(stub):
    told = []

    def announce(execution, contract):
        told.append((execution.generation, execution.state))
        if len(told) == 1:
            raise PieceworkError("no")

    stage = Stage(stub, ports={"announce": announce})
    contract = stage.contract(callbacks__webhook_url="https://seeker.example/hooks")

    def refuse(task, run):
        raise Unprocessable("too short")

    stage.do = refuse
    assert stage.post(contract, BODY, stage.pay(contract)).status == 422
    stage.do = score
    assert stage.post(contract, {"brief": "another"}, stage.pay(contract)).status == 200

    stage.settle_down(60)

    assert told == [(1, State.FAILED_PERMANENT)] * 2 + [(2, State.COMPLETED)]
    assert {due.kind for due in stage.due.rows} == {"released"}
