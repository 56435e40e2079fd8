"""Giving executions to consumers and jobs to connections, whoever else does so at the same time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework.kernel.assigning import MOST_AT_ONCE, RoundRobin
from piecework.kernel.errors import ServiceUnavailable
from piecework.kernel.ports import Board, Consumer
from piecework.kernel.state import Connection, Status
from tests.support.kernel_stage import KernelStage


@pytest.fixture
def stage():
    return KernelStage()


@dataclass
class Agents:
    """An agent's board, which others may change between a look and a turn."""

    board_now: Board
    stolen: int = 0  # turns that another copy takes first
    looks: int = 0

    def board(self, agent_id: str) -> Board:
        self.looks += 1
        return self.board_now

    def take_turn(self, agent_id: str, turn: int) -> bool:
        is_mine = self.stolen == 0
        self.stolen -= not is_mine
        self.board_now = Board(self.board_now.consumers, turn + 1, self.board_now.waiting[0 if is_mine else 1 :])
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


def a_board(*waiting: str, consumers: str = "ab", until_ms: int = 10, is_open: bool = True) -> Board:
    made = tuple(Consumer("agent", name, 1, until_ms, is_open) for name in consumers)
    return Board(made, 0, waiting)


def offered(agents: Any, kernel: Any) -> int:
    return RoundRobin(agents, lambda: 5, kernel).offer("agent")


def test_executions_go_round_oldest_first():
    kernel = Kernel()

    assert offered(Agents(a_board("1", "2", "3")), kernel) == 3
    assert kernel.given == [("1", "a"), ("2", "b"), ("3", "a")]


def test_a_turn_that_another_copy_took_is_not_used_again():
    kernel, agents = Kernel(), Agents(a_board("1", "2"), stolen=1)

    assert offered(agents, kernel) == 1
    assert kernel.given == [("2", "b")]


def test_an_execution_that_cannot_be_given_now_does_not_hold_up_the_next():
    kernel = Kernel(busy={"1"})

    assert offered(Agents(a_board("1", "2")), kernel) == 1
    assert kernel.given == [("2", "b")]


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
