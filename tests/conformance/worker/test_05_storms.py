"""Worker specification 5, concurrency: of many requests at once, whatever a contract waits for, one goes on."""

import threading

import pytest

from piecework.errors import Unprocessable
from piecework.extend.executors import Retryable
from tests.support.worker.stage import BODY, Stage, score, stub_facilitator

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


CALLERS = 16
OTHER = {"brief": "another"}


@pytest.fixture
def stage():
    with stub_facilitator() as stub:
        yield Stage(stub)


def storm(stage, contract, body, *, pays):
    """Many requests at once, each with a payment of its own or none; the answers, when all is done."""
    answers = []
    headers = [stage.pay(contract) if pays else {} for _ in range(CALLERS)]
    start = threading.Barrier(CALLERS)

    def ask(own):
        start.wait()
        answers.append(stage.post(contract, body, own))

    callers = [threading.Thread(target=ask, args=(own,)) for own in headers]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    stage.settle_down()
    assert len(answers) == CALLERS
    return answers


def fails_once(stage, contract, error):
    """The contract after a first attempt that failed."""

    def fail(task, run):
        raise error

    stage.do = fail
    stage.post(contract, BODY, stage.pay(contract))
    stage.do = score


def one_went_on(stage, answers):
    assert {answer.status for answer in answers} <= {200, 202}
    assert len({answer.body["task_id"] for answer in answers}) == 1
    assert stage.charges() == 1


def test_of_many_repeats_after_a_failure_one_starts_the_next_attempt(stage):
    contract = stage.contract()
    fails_once(stage, contract, Retryable("the model is busy"))

    answers = storm(stage, contract, BODY, pays=False)

    one_went_on(stage, answers)
    assert len(stage.runs) == 2 and stage.standing(contract).attempt.number == 2


def test_of_many_payments_for_a_lapsed_one_one_takes_its_place(stage):
    contract = stage.contract()
    fails_once(stage, contract, Retryable("the model is busy"))
    stage.clock.move(stage.terms(contract).max_timeout_seconds)

    answers = storm(stage, contract, BODY, pays=True)

    one_went_on(stage, answers)
    assert len(stage.runs) == 2 and stage.settles() == 1


def test_of_many_other_inputs_after_a_refusal_one_begins_the_next_generation(stage):
    contract = stage.contract()
    fails_once(stage, contract, Unprocessable("brief: too short"))

    answers = storm(stage, contract, OTHER, pays=True)

    one_went_on(stage, answers)
    assert stage.standing(contract).generation == 2 and stage.settles() == 1


def test_of_many_payments_for_a_finished_result_one_releases_it(stage):
    contract = stage.contract()
    stage.stub.say("settle", "fail:insufficient_funds", "ok")
    stage.post(contract, BODY, stage.pay(contract))

    answers = storm(stage, contract, BODY, pays=True)

    one_went_on(stage, answers)
    assert len(stage.runs) == 1 and stage.settles() == 2
