"""A paused worker: no payment is asked for or bound, and what was bound is worked, settled and delivered."""

import pytest

from piecework.errors import Retryable
from piecework.worker.contract.choosing import Offer
from piecework.worker.contract.registration import Registration
from piecework.worker.door import error_response
from piecework.worker.errors import ContractInvalid
from piecework.worker.record.states import State
from tests.support.fakes import FakeClock
from tests.support.ops.pauses import Switch
from tests.support.worker.contracts import EXAMPLE, EXAMPLE_NOW_MS, IDENTITY, SECRET
from tests.support.worker.fakes import FakeContracts
from tests.support.worker.stage import BODY, Stage, stub_facilitator

OFFER = Offer(("echo", "completion"), default="echo")
SCOPES = ("door:worker", "executor:probe")


@pytest.fixture
def stub():
    with stub_facilitator() as running:
        yield running


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def stage(stub, switch):
    return Stage(stub, ports={"_admission": switch.admission})


def is_refused(told):
    assert (told.status, told.headers["Retry-After"]) == (503, "30")
    error = told.body["error"]
    assert (error["code"], error["retryable"]) == ("EXECUTION_TRANSIENT", True)
    assert "paused" in error["message"]
    return True


@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_worker_neither_asks_for_money_nor_takes_it(stage, stub, switch, scope):
    contract = stage.contract()
    switch.pause(scope)

    assert is_refused(stage.post(contract))
    assert is_refused(stage.post(contract, BODY, stage.pay(contract)))
    assert stage.is_free(contract) and stage.charges() == 0 and stub.count("verify") == 0
    switch.resume(scope)

    assert stage.post(contract).status == 402
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200
    assert stage.charges() == 1


def test_another_executor_works_while_one_is_paused(stage, switch):
    switch.pause("executor:slow")
    contract = stage.contract()

    assert stage.post(contract, BODY, stage.pay(contract)).status == 200


def test_a_wrong_request_is_refused_for_its_own_reason_while_the_door_is_paused(stage, switch):
    switch.pause("door:worker")

    assert stage.post("ctr_nobody", BODY).status == 404
    assert stage.post(stage.contract(), {}).status == 422


@pytest.mark.parametrize("scope", ["door:worker", "executor:slow"])
def test_a_task_that_waits_in_the_queue_is_worked_settled_and_told_while_its_worker_is_paused(stage, switch, scope):
    contract = stage.contract("slow")
    begun = stage.post(contract, BODY, stage.pay(contract))
    switch.pause(scope)

    assert begun.status == 202 and stage.post(contract).status == 202
    stage.settle_down()

    assert stage.state(contract) is State.COMPLETED and stage.charges() == 1
    assert stage.post(contract).status == stage.get(contract, begun.body["task_id"]).status == 200


def test_an_attempt_under_a_payment_that_is_bound_is_made_while_the_door_is_paused(stage, switch):
    contract, work = stage.contract(), stage.do

    def out_of_reach(task, run):
        raise Retryable("out of reach")

    stage.do = out_of_reach
    assert stage.post(contract, BODY, stage.pay(contract)).status == 503
    switch.pause("door:worker")
    stage.do = work

    assert stage.post(contract).status == 200
    assert stage.charges() == 1


def test_an_attempt_that_needs_a_new_payment_waits_for_the_end_of_the_pause(stage, switch):
    contract, work = stage.contract(), stage.do

    def out_of_reach(task, run):
        raise Retryable("out of reach")

    stage.do = out_of_reach
    stage.post(contract, BODY, stage.pay(contract))
    valid_before = stage.standing(contract).payment.valid_before
    stage.clock.now_ms = valid_before * 1000 - 1_000
    stage.do = work
    switch.pause("executor:probe")

    assert is_refused(stage.post(contract))
    assert is_refused(stage.post(contract, BODY, stage.pay(contract)))
    switch.resume("executor:probe")
    assert stage.post(contract).status == 402
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200


def test_a_result_that_nobody_paid_for_is_sold_while_its_executor_is_paused_and_kept_while_the_door_is(
    stage, stub, switch
):
    contract = stage.contract()
    stub.say("settle", "fail:insufficient_funds", "ok")
    assert stage.post(contract, BODY, stage.pay(contract)).status == 402
    assert stage.state(contract) is State.UNPAID
    switch.pause("executor:probe")
    assert stage.post(contract).status == 402
    switch.pause("door:worker")

    assert is_refused(stage.post(contract))
    assert is_refused(stage.post(contract, BODY, stage.pay(contract)))
    assert stage.charges() == 0
    switch.resume("door:worker")
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200
    stage.ran(1)


def a_registration(switch):
    contracts, url, clock = (
        FakeContracts(FakeClock(EXAMPLE_NOW_MS)),
        "https://w.example/hire",
        FakeClock(EXAMPLE_NOW_MS),
    )

    def admit(executor):
        switch.admission.check("worker", executor)

    return Registration(contracts, IDENTITY, OFFER, url, clock, lambda contract_id: None, admit)


@pytest.mark.parametrize("scope", ["door:worker", "executor:echo"])
def test_a_new_contract_is_refused_while_its_worker_is_paused_and_one_that_is_here_is_not(switch, scope):
    registration, body = a_registration(switch), {"contract": EXAMPLE, "webhook_secret": SECRET}
    switch.pause(scope)

    with pytest.raises(Exception) as refused:
        registration.register(body)
    answer = error_response(refused.value)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    with pytest.raises(ContractInvalid):
        registration.register({"contract": {**EXAMPLE, "hash": "0x00"}, "webhook_secret": SECRET})
    switch.resume(scope)
    assert registration.register(body)[0] == "new"
    switch.pause(scope)

    assert registration.register(body)[0] == "same"
