"""One live run of an attempt: what a request that has no more time does with the run it waits for (4.1, 4.2)."""

import threading

import pytest

from piecework.durable.pieces import LEASE_MS
from piecework.extend.executors import Outcome
from piecework.worker.record.executions import Moved
from piecework.worker.record.states import State
from piecework.worker.task.bounding import in_thread
from tests.support.machine import wait_until
from tests.support.worker.stage import BODY, Stage, score, stub_facilitator

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


@pytest.fixture(scope="module")
def running():
    with stub_facilitator() as stub:
        yield stub


@pytest.fixture
def stub(running):
    running.reset()
    running.ledger.transactions.clear()
    return running


def patient_for(seconds: float):
    """How the door bounds work, with less patience than a request has."""
    return lambda work, most: in_thread(work, min(seconds, most))


class Stepped:
    """Steps that count how often each began; the request's time is up while `slow` is under way."""

    def __init__(self, slow: int, steps: int = 4) -> None:
        self.begun: list[int] = []
        self.slow, self.steps = slow, steps
        self.release, self.ended = threading.Event(), threading.Event()
        self.told: list[str] = []

    def __call__(self, task, run):
        try:
            for number in range(self.steps):
                run.step(f"s{number}", lambda number=number: self.act(number))
                run.progress(number, f"after {number}")
            return Outcome({"score": len(self.begun)})
        finally:
            self.ended.set()

    def act(self, number: int) -> int:
        self.begun.append(number)
        if number == self.slow and self.begun.count(number) == 1:
            assert self.release.wait(20)
        return number


def leave_in_a_step(stage: Stage, stepped: Stepped, contract):
    """A request that must answer while a step is under way."""
    stage.do = stepped
    answer = stage.post(contract, BODY, stage.pay(contract))
    assert answer.status == 202
    return answer


def test_a_run_that_was_left_in_a_step_hands_over_before_the_next_one(stub):
    stage = Stage(stub, ports={"bounded": patient_for(0.2)})
    contract, stepped = stage.contract(), Stepped(slow=1)

    leave_in_a_step(stage, stepped, contract)
    stage.settle_down()  # whoever looks meanwhile lets the run alone
    stepped.release.set()
    wait_until(lambda: stage.queue)
    stage.settle_down()

    assert stepped.begun == [0, 1, 2, 3]
    assert stage.state(contract) is State.COMPLETED and stage.settles() == 1
    assert stage.standing(contract).attempt.crashes == 0


def test_a_run_without_steps_that_was_left_ends_by_itself_and_is_settled_by_the_queue(stub):
    stage = Stage(stub, ports={"bounded": patient_for(0.2)})
    contract, release = stage.contract(), threading.Event()

    def slow(task, run):
        assert release.wait(20)
        return score(task, run)

    stage.do = slow
    answer = stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()
    release.set()
    wait_until(lambda: stage.queue)
    stage.settle_down()

    assert answer.status == 202 and len(stage.runs) == 1
    assert stage.state(contract) is State.COMPLETED and stage.settles() == 1


def test_a_run_that_was_frozen_in_a_step_is_taken_over_and_goes_on_with_nothing(stub):
    stage = Stage(stub, ports={"bounded": patient_for(0.2)})
    contract, stepped = stage.contract(), Stepped(slow=1)

    leave_in_a_step(stage, stepped, contract)
    stage.settle_down(2 * LEASE_MS / 1000)  # its process is frozen: nothing renews the lease
    assert stage.state(contract) is State.COMPLETED
    stepped.ended.clear()
    stepped.release.set()
    assert stepped.ended.wait(20)

    assert sorted(stepped.begun) == [0, 1, 1, 2, 3]  # the step that was under way when the process seemed dead
    assert stage.settles() == 1 and stage.charges() == 1


def test_a_run_that_was_taken_over_tells_nothing_more(stub):
    told: list[tuple[str, str]] = []

    class Ear:
        def progress(self, execution, pct, text):
            told.append((execution.lease.token, text))

        def item(self, execution, item):
            told.append((execution.lease.token, "item"))

        def delta(self, execution, index, text):
            told.append((execution.lease.token, text))

    stage = Stage(stub, ports={"bounded": patient_for(0.2), "listener": Ear()})
    contract, first, ended = stage.contract(), threading.Event(), threading.Event()

    def talks(task, run):
        if len(stage.runs) > 1:
            return score(task, run)
        try:
            assert first.wait(20)
            for tell in (run.progress, run.delta, run.item):
                try:
                    tell(*((1, "late") if tell == run.progress else ("late",)))
                except Exception:  # noqa: BLE001  # as careless executors do
                    told.append(("", "swallowed"))
            return score(task, run)
        finally:
            ended.set()

    stage.do = talks
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(2 * LEASE_MS / 1000)
    first.set()
    assert ended.wait(20)

    assert told == [] and stage.state(contract) is State.COMPLETED and stage.charges() == 1


def test_a_request_whose_own_time_for_work_is_over_hands_over_between_steps(stub):
    stage = Stage(stub)
    contract = stage.contract()
    begun: list[int] = []

    def stepped(task, run):
        for number in range(5):

            def act(number=number):
                begun.append(number)
                stage.clock.move(4)

            run.step(f"s{number}", act)
        return Outcome({"score": 1})

    stage.do = stepped
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 202 and begun == [0, 1, 2] and len(stage.queue) == 1
    assert stage.standing(contract).lease.token == ""
    stage.settle_down()
    assert begun == [0, 1, 2, 3, 4]
    assert stage.state(contract) is State.COMPLETED and stage.standing(contract).attempt.crashes == 0


def test_work_that_comes_to_its_end_while_the_request_has_time_is_answered_by_it(stub):
    stage = Stage(stub)
    contract = stage.contract()

    def takes_a_while(task, run):
        stage.clock.move(14)
        return score(task, run)

    stage.do = takes_a_while
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 200 and len(stage.runs) == 1 and stage.queue == []


def test_an_async_run_that_reaches_its_requests_end_goes_on_in_the_queue_within_its_attempt(stub):
    import asyncio

    stage = Stage(stub)
    contract = stage.contract(sla__max_latency_ms=5_700)
    begun: list[int] = []

    async def slow(task, run):
        begun.append(1)
        stage.clock.move(4.6)
        if len(begun) == 1:
            await asyncio.sleep(5)
        return score(task, run)

    stage.do = slow
    answer = stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)

    assert answer.status == 202
    assert stage.state(contract) is State.COMPLETED and stage.post(contract).body["metadata"]["attempt"] == 1


def test_no_step_begins_after_the_tasks_end(stub):
    stage = Stage(stub)
    contract = stage.contract("slow", sla__max_latency_ms=3_600_000)
    begun: list[int] = []

    def stepped(task, run):
        for number in range(3):

            def act(number=number):
                begun.append(number)
                stage.clock.move(13 * 3_600)

            run.step(f"s{number}", act)
        return Outcome({"score": 1})

    stage.do = stepped
    stage.post(contract, BODY, stage.pay(contract))
    stage.queue.clear()
    stage.worker.resume.drive(contract.contract_id, stage.clock() + 10**9)

    assert begun == [0, 1]
    stage.settle_down(60)
    assert stage.state(contract) is State.TIMED_OUT and stage.charges() == 0


def test_a_run_that_renewed_its_lease_since_it_was_read_is_not_taken_over(stub):
    stage = Stage(stub)
    contract = stage.contract("slow")
    stage.post(contract, BODY, stage.pay(contract))
    attempts = stage.worker.resume.attempts
    held = attempts.take(stage.case(contract)).execution
    stage.clock.now_ms += LEASE_MS + 1
    as_read = stage.case(contract)
    stage.executions.renew(contract.contract_id, held.lease.token, stage.clock() + LEASE_MS)

    with pytest.raises(Moved):
        attempts.take(as_read)

    assert stage.standing(contract).lease.token == held.lease.token
