"""Races on one execution: a command that has read meets one or two others before it is stored (specification 1.9)."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations, permutations, product
from typing import Any

import pytest

from piecework.kernel.errors import Conflict, KernelError
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.events import TERMINAL
from piecework.kernel.model.evolve import fold
from piecework.kernel.model.state import Status
from piecework.kernel.service.dispatching import dispatch
from tests.support.kernel.house import House

Deed = Callable[["Busy"], object]


class Busy(House):
    """A running execution with a local step, a job in hand and a job in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.link()
        self.id = self.running()
        self.own = self.session(self.id)
        self.local = self.invoke(self.id)
        self.held, self.waiting = self.remote(self.id), self.remote(self.id)
        self.held_job, self.queued = self.job(self.id, self.held).id, self.store.jobs[0]

    def report(self, **members: Any) -> None:
        self.result(self.id, self.held, self.held_job, **members)


def timeout(house: Busy) -> None:
    house.now += 300_000
    house.kernel.run_due_timers(house.id)


DEEDS: dict[str, Deed] = {
    "cancel": lambda house: house.kernel.cancel(house.id),
    "step_result": lambda house: house.kernel.step_result(house.id, house.own, house.local, True, None, ""),
    "job_result": lambda house: house.report(),
    "job_failure": lambda house: house.report(success=False, error="busy", retryable=True),
    "started": lambda house: house.kernel.started(house.held, house.id, "geo-1"),
    "signal": lambda house: house.kernel.signal(house.id, "go", 1),
    "wait": lambda house: house.act(house.id, Intent("wait", signal_type="go"), house.own),
    "invoke": lambda house: house.act(house.id, Intent("invoke_tool", "x", idempotency_key="k"), house.own),
    "agent_lost": lambda house: house.kernel.agent_lost(house.id, house.own),
    "requeue": lambda house: house.kernel.requeue(house.id, house.held, house.held_job),
    "hand_out": lambda house: dispatch(house.door.commits, house.queued, house.link("geo-2")),
    "timeout": timeout,
}


def attempt(house: Any, deed: Deed) -> None:
    with suppress(KernelError):
        deed(house)


def meet(house: Any, first: Deed, *others: Deed) -> None:
    """The first deed's command is about to be stored when the others, one within the other, come in between."""
    rest = list(others)

    def between(change: Change, applied: bool) -> None:
        if not applied and rest:
            attempt(house, rest.pop(0))

    house.store.on_commit = between
    attempt(house, first)
    house.store.on_commit = lambda change, applied: None


def wrong(house: Any, execution_id: str) -> Iterator[str]:
    """What a race has broken."""
    found, log = house.state(execution_id), house.store.kept[execution_id].log
    told = fold(log)
    if [event.sequence for event in log] != list(range(1, len(log) + 1)):
        yield "a gap"
    if any(event.type in TERMINAL for event in log[:-1]):
        yield "something after the end"
    if (told.status, list(told.steps), told.sequence) != (found.status, list(found.steps), found.sequence):
        yield "GET and the log differ"
    ends = Counter(event.step_id for event in log if event.type in ("step.completed", "step.cancelled"))
    if any(count > 1 for count in ends.values()):
        yield "a step ended twice"
    held = [step.job for step in found.steps.values() if step.job and step.job.held_by]
    if any(house.store.links[job.held_by].job_id != job.id for job in held):
        yield "a job in the hand of a connection that has another"
    queued = {job.job_id for job in house.store.jobs}
    if queued != {step.job.id for step in found.steps.values() if step.job and not step.job.held_by}:
        yield "the queue and the steps differ"


@pytest.mark.parametrize(("first", "second"), list(product(DEEDS, repeat=2)))
def test_whichever_command_comes_in_between_the_log_stays_whole(first, second):
    house = Busy()

    meet(house, DEEDS[first], DEEDS[second])

    assert list(wrong(house, house.id)) == []


@pytest.mark.parametrize("first", DEEDS)
def test_two_commands_in_between_break_nothing_either(first):
    for second, third in combinations(DEEDS, 2):
        house = Busy()
        meet(house, DEEDS[first], DEEDS[second], DEEDS[third])

        assert (second, third, list(wrong(house, house.id))) == (second, third, [])


@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_a_cancel_and_a_completion_have_one_winner(order):
    house = House()
    execution_id = house.running()
    lost: list[int] = []

    def doing(number: int, deed: Callable[[], object]) -> Deed:
        def tried(_: House) -> None:
            try:
                deed()
            except Conflict:
                lost.append(number)

        return tried

    session_id = house.session(execution_id)
    deeds = [
        doing(0, lambda: house.kernel.cancel(execution_id)),
        doing(1, lambda: house.act(execution_id, Intent("complete"), session_id)),
    ]
    meet(house, *(deeds[number] for number in order))

    assert lost == [order[0]]  # the one that came in between was stored first
    assert len([name for name in house.types(execution_id) if name in TERMINAL]) == 1
    assert list(wrong(house, execution_id)) == []


def test_two_consumers_that_connect_at_once_share_one_assignment():
    house = House()
    execution_id = house.kernel.create("triage", None, {}).execution.id

    def connect(name: str) -> Deed:
        def deed(_: House) -> None:
            house.join(name)
            house.assigner.offer("triage")

        return deed

    meet(house, connect("c1"), connect("c2"))

    assert house.types(execution_id).count("execution.started") == 1


def test_two_identical_signals_resume_one_wait_and_the_second_is_stored():
    house = House()
    execution_id = house.running()
    house.act(execution_id, Intent("wait", signal_type="go"))

    def signal(_: House) -> None:
        house.kernel.signal(execution_id, "go", None)

    meet(house, signal, signal)

    assert house.types(execution_id).count("execution.resumed") == 1
    assert [stored.type for stored in house.state(execution_id).signals] == ["go"]


@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_a_signal_and_a_wait_end_running_in_either_order(order):
    house = House()
    execution_id = house.running()
    deeds: list[Deed] = [
        lambda _: house.kernel.signal(execution_id, "go", None),
        lambda _: house.act(execution_id, Intent("wait", signal_type="go")),
    ]

    meet(house, *(deeds[number] for number in order))

    assert house.state(execution_id).status is Status.RUNNING
    assert "execution.resumed" in house.types(execution_id)


def test_two_sweeps_end_an_execution_once():
    house = Busy()

    meet(house, timeout, timeout)

    assert house.types(house.id).count("execution.failed") == 1


def test_two_jobs_never_take_one_connection():
    house = House()
    link = house.link()
    execution_id = house.running()

    meet(house, lambda _: house.remote(execution_id), lambda _: house.remote(execution_id))

    jobs = [step.job for step in house.state(execution_id).steps.values()]
    assert len([job for job in jobs if job and job.held_by == link.connection]) == 1
    assert len(house.store.jobs) == 1
