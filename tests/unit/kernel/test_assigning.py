"""Giving executions to consumers and jobs to connections, whoever else does so at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from piecework.kernel.errors import ServiceUnavailable
from piecework.kernel.model.ports.agents import AgentQueue, Board, Consumer, Waiting
from piecework.kernel.model.state import Connection, Status
from piecework.kernel.service.assigning import MOST_AT_ONCE, RoundRobin
from tests.support.crash import Tap
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.house import FOR_EVER
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.world import tapped_ports


@pytest.fixture
def stage():
    return KernelStage()


@dataclass
class Agents:
    """An agent's board, on which others may mark what waits between a look and a claim."""

    board_now: AgentQueue
    stolen: set[str] = field(default_factory=set)  # executions that another copy is about to claim
    claimed: dict[str, int] = field(default_factory=dict)
    looks: int = 0

    def board(self, agent_id: str) -> Board:
        return Board(self.board_now.consumers)

    def waiting(self, agent_id: str) -> list[Waiting]:
        self.looks += 1
        return [Waiting(name, 0, self.claimed.get(name, 0)) for name in self.board_now.waiting[:100]]

    def next_turn(self, agent_id: str) -> int:
        turn = self.board_now.turn
        self.board_now = replace(self.board_now, turn=turn + 1)
        return turn

    def claim(self, agent_id: str, waiting: Waiting, until_ms: int) -> bool:
        is_mine = waiting.execution_id not in self.stolen
        self.claimed[waiting.execution_id] = until_ms
        return is_mine


@dataclass
class Kernel:
    """Notes who is given what."""

    given: list[tuple[str, str]] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def assign(self, execution_id: str, consumer_id: str, agent_id: str) -> bool:
        if execution_id in self.busy:
            raise ServiceUnavailable("busy")
        self.given.append((execution_id, consumer_id))
        return True


def a_board(*waiting: str, consumers: str = "ab", until_ms: int = 10, is_open: bool = True) -> AgentQueue:
    made = tuple(Consumer("agent", name, 1, until_ms, is_open) for name in consumers)
    return AgentQueue(made, 0, waiting)


def offered(agents: Any, kernel: Any) -> int:
    return RoundRobin(agents, lambda: 5, kernel.assign).offer("agent")


def test_executions_go_round_oldest_first():
    kernel = Kernel()

    assert offered(Agents(a_board("1", "2", "3")), kernel) == 3
    assert kernel.given == [("1", "a"), ("2", "b"), ("3", "a")]


def test_what_another_copy_gives_out_costs_no_turn():
    kernel, agents = Kernel(), Agents(a_board("1", "2"), stolen={"1"})

    assert offered(agents, kernel) == 1
    assert kernel.given == [("2", "a")]
    assert agents.board_now.turn == 1


def test_a_copy_that_meets_others_at_every_step_leaves_the_rest_to_them():
    names = [str(number) for number in range(20)]
    agents = Agents(a_board(*names), stolen=set(names))

    assert offered(agents, Kernel()) == 0
    assert agents.looks == len(agents.claimed) + 1 == 4


def test_an_execution_that_cannot_be_given_now_does_not_hold_up_the_next_nor_use_a_turn_up():
    kernel = Kernel(busy={"1"})

    assert offered(Agents(a_board("1", "2", "3")), kernel) == 2
    assert kernel.given == [("2", "a"), ("3", "b")]


@dataclass
class Meeting:
    """The agents of a store, where others create executions just when somebody has taken a turn."""

    agents: Any
    others: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agents, name)

    def take_turn(self, *given: Any) -> Any:
        return self._met(self.agents.take_turn(*given))

    def next_turn(self, *given: Any) -> Any:
        return self._met(self.agents.next_turn(*given))

    def _met(self, answer: Any) -> Any:
        others, self.others = self.others, None
        if others:
            others()
        return answer


def test_consumers_alternate_whoever_creates_while_an_execution_is_being_given_out():
    clock = FakeClock(START_MS)
    store = tapped_ports(new_store(clock), Tap())
    store.agents = meeting = Meeting(store.agents)
    stage = KernelStage(store=store, clock=clock)
    lines = [stage.agent(consumer_id=name) for name in ("one", "two")]
    meeting.others = lambda: [stage.create() for _ in range(3)]

    for _ in range(4):
        stage.create()

    for line in lines:
        line.look()
    assert [len(line.of("execution.assigned")) for line in lines] == [4, 3]


def test_who_creates_an_execution_gives_out_that_one_and_no_other(stage):
    waiting = [stage.create() for _ in range(20)]
    stage.store.agents.connect("triage", "one", FOR_EVER)

    created = stage.create()

    assert stage.status(created) is Status.RUNNING
    assert {stage.status(execution) for execution in waiting} == {Status.PENDING}


def test_a_stream_gives_out_what_waits_in_portions_and_writes_in_between(stage):
    waiting = []
    for _ in range(25):
        stage.clock.move(0.001)
        waiting.append(stage.create())
    agent = stage.agent()
    first = len(agent.of("execution.assigned"))

    stage.pass_time(1)

    assert first == 10
    assert [data["execution_id"] for data in agent.of("execution.assigned")] == waiting


def test_an_execution_that_took_long_to_store_is_taken_back_if_its_consumer_was_forgotten_meanwhile(stage):
    agent, other = stage.agent(consumer_id="one"), stage.store.agents

    def slow(change: Any, is_applied: bool) -> None:
        if change.before is None and not is_applied:
            agent.has_ended = True
            stage.lines.remove(agent)
            stage.clock.move(20)
            stage.sweep()
            stage.clock.move(20)
            stage.sweep()
            assert other.find("triage", "one") is None

    stage.store.on_commit = slow
    execution = stage.create()

    assert stage.status(execution) is Status.PENDING
    assert stage.agent(consumer_id="two").take("execution.assigned")["execution_id"] == execution


@pytest.mark.parametrize("lost", [{"until_ms": 5}, {"is_open": False}])
def test_a_consumer_that_is_not_there_is_given_nothing(lost):
    kernel = Kernel()

    assert offered(Agents(a_board("1", **lost)), kernel) == 0
    assert kernel.given == []


def test_an_offer_ends_however_many_wait():
    kernel, agents = Kernel(), Agents(a_board(*map(str, range(3 * MOST_AT_ONCE)), consumers="a"))

    assert offered(agents, kernel) == MOST_AT_ONCE
    assert agents.looks == 1


def test_an_execution_that_was_resumed_with_nobody_at_work_is_reset_and_given(stage):
    agent, execution = stage.agent(), stage.create()
    stage.intend(agent.take("execution.assigned"), "wait", signal_type="go")
    agent.close()
    stage.pass_time(5)
    stage.kernel.signal(execution, "go", {"n": 1})
    assert stage.status(execution) is Status.RUNNING

    again = stage.agent(consumer_id="two")
    session = again.take("execution.assigned")

    assert stage.types(execution)[-2:] == ["execution.reset", "execution.started"]
    assert stage.intend(session, "wait", signal_type="go") == {"accepted": True}
    stage.pass_time(1)
    assert again.take("signal.received")["payload"] == {"n": 1}


def test_jobs_go_round_the_idle_connections_of_their_tool(stage):
    agent = stage.agent()
    stage.create()
    session = agent.take("execution.assigned")
    lines = [stage.runner(consumer_id=name) for name in ("one", "two", "three")]
    stage.runner("other", tools="geo.lookup.v2")

    for _ in range(3):
        stage.invoke(session, remote=True)
    stage.pass_time(1)

    assert [len(line.of("job.assigned")) for line in lines] == [1, 1, 1]


def test_a_job_that_found_nobody_goes_to_the_first_connection_that_can(stage):
    agent = stage.agent()
    stage.create()
    session = agent.take("execution.assigned")
    first = stage.invoke(session, remote=True)
    stage.clock.move(0.01)
    second = stage.invoke(session, remote=True)

    runner = stage.runner()
    job = runner.take("job.assigned")
    stage.pass_time(2)
    assert [each["step_id"] for each in runner.of("job.assigned")] == [first]
    stage.finish(job)
    stage.pass_time(1)

    assert [each["step_id"] for each in runner.of("job.assigned")] == [first, second]


@pytest.mark.parametrize("taken", [1, 2])
def test_a_job_whose_connection_another_was_faster_to_take_goes_to_an_idle_one_at_once(stage, taken):
    agent = stage.agent()
    stage.create()
    session = agent.take("execution.assigned")
    step = stage.invoke(session, remote=True)
    names = ["one", "two", "three"]
    for name in names:
        stage.store.runners.connect(Connection("geo-1", name), ["geo.lookup"], FOR_EVER)
    left = [taken]

    def take_it(change: Any, is_applied: bool) -> None:
        if change.job_push and not is_applied and left[0]:
            left[0] -= 1
            busy = stage.store.links[change.job_push.to]
            stage.store.links[change.job_push.to] = replace(busy, job_id="another", execution_id="another")

    stage.store.on_commit = take_it
    stage.dispatcher.pump_tool("geo.lookup")

    job = stage.state(session["execution_id"]).steps[step].job
    assert job is not None and job.held_by is not None
    assert [stage.store.links[Connection("geo-1", name)].job_id for name in names].count("another") == taken


def test_new_tools_of_a_runner_are_used_at_once(stage):
    agent, runner = stage.agent(), stage.runner(tools="web.get")
    stage.create()
    step = stage.invoke(agent.take("execution.assigned"), remote=True)
    runner.look()
    assert runner.of("job.assigned") == []

    stage.store.runners.set_tools("geo-1", ["geo.lookup"])
    stage.dispatcher.pump_runner("geo-1")

    assert runner.take("job.assigned")["step_id"] == step


def test_a_retried_job_waits_for_its_time(stage):
    agent, runner = stage.agent(), stage.runner()
    stage.create()
    stage.invoke(agent.take("execution.assigned"), remote=True)
    job, failed_at = runner.take("job.assigned"), stage.clock()
    stage.kernel.job_result(
        "geo-1", job["id"], job["execution_id"], job["step_id"], False, None, "again", retryable=True
    )

    stage.pass_time(10, until=lambda: len(runner.of("job.assigned")) == 2)

    assert 2_000 <= stage.clock() - failed_at <= 3_500
    assert runner.of("job.assigned")[1]["attempt"] == 2
    assert agent.of("tool.result") == []


def test_concurrent_calls_for_one_connection_give_it_one_job(stage):
    agent = stage.agent()
    stage.create()
    session = agent.take("execution.assigned")
    runner = stage.runner()
    copies = [stage.copy() for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        steps = list(threads.map(lambda copy: copy.invoke(session, remote=True), copies))
    done = []
    for _ in steps:
        stage.pass_time(2, until=lambda: len(runner.of("job.assigned")) == len(done) + 1)
        stage.finish(runner.of("job.assigned")[-1])
        done.append(runner.of("job.assigned")[-1]["step_id"])

    assert sorted(done) == sorted(steps)


def test_a_job_whose_execution_ended_before_it_was_written_leaves_its_connection_free(stage):
    agent = stage.agent()
    execution, other = stage.create(), stage.create()
    agent.look()
    assigned = {data["execution_id"]: data for data in agent.of("execution.assigned")}
    first, second = assigned[execution], assigned[other]
    runner = stage.runner()
    stage.invoke(first, remote=True)
    stage.kernel.cancel(execution)

    step = stage.invoke(second, remote=True)
    stage.pass_time(2)

    assert [job["step_id"] for job in runner.of("job.assigned")] == [step]
    assert stage.status(other) is Status.RUNNING


def test_a_connection_that_lapsed_keeps_its_place_only_for_a_moment(stage):
    runner = stage.runner()
    runner.close()

    stage.pass_time(0.75)
    assert stage.store.runners.find(Connection("geo-1", "one")) is not None
    stage.pass_time(10)
    assert stage.store.runners.find(Connection("geo-1", "one")) is None
