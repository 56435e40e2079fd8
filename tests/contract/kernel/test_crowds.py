"""Many at once for one agent, one tool, one runner: what each costs does not grow with their number."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from piecework.kernel.model.state import Status
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import KernelStage, Line
from tests.support.kernel.tables import KernelTables, new_tables

CREATE_AT_MOST = 5  # DynamoDB requests
LIFE_AT_MOST = 8  # from the create to the end
CALL_AT_MOST = 12  # a remote call: two looks for a connection, when all are busy
RESULT_AT_MOST = 13  # a result: with the hand-out of the next job
CROWD = 32


@pytest.fixture(scope="module")
def client(embedded_aws):
    return Counted(embedded_aws.client("dynamodb"))


@pytest.fixture(scope="module")
def tables(embedded_aws, client) -> KernelTables:
    return new_tables(embedded_aws, FakeClock(START_MS), client=client)


@pytest.fixture
def stage(tables):
    made = KernelStage(store=tables, clock=FakeClock(START_MS), sleep=time.sleep)
    yield made
    made.lines.clear()


def at_once(stage: KernelStage, count: int, each: Callable[[KernelStage, int], Any]) -> list[Any]:
    """The same from so many processes at the same time."""
    gate = threading.Barrier(count)

    def started(number: int) -> Any:
        copy = stage.copy()
        gate.wait()
        return each(copy, number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(started, range(count)))


def idle(stage: KernelStage, agent: str, consumers: int) -> list[Line]:
    return [stage.agent(agent, f"c{number}") for number in range(consumers)]


def sessions(lines: list[Line]) -> list[dict[str, Any]]:
    for line in lines:
        line.look()
    return [data for line in lines for data in line.of("execution.assigned")]


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("creators", [1, 8, CROWD])
def test_an_execution_costs_the_same_however_many_are_created_for_its_agent(stage, client, creators, consumers):
    agent = f"crowd-{uuid4().hex}"
    lines = idle(stage, agent, consumers)
    client.take()

    made = at_once(stage, creators, lambda copy, number: copy.kernel.create(agent, {"n": number}, {}))
    create = client.take() / creators
    given = sessions(lines)
    client.take()
    at_once(stage, creators, lambda copy, number: copy.intend(given[number], "complete"))
    complete = client.take() / creators

    assert create <= CREATE_AT_MOST, create
    assert create + complete <= LIFE_AT_MOST, (create, complete)
    assert [view.execution.status for view in made] == [Status.RUNNING] * creators
    assert {stage.status(view.execution.id) for view in made} == {Status.COMPLETED}


def test_the_shares_of_two_consumers_differ_by_one_at_most_however_many_are_created_at_once(stage):
    agent = f"even-{uuid4().hex}"
    lines = idle(stage, agent, 2)

    at_once(stage, 15, lambda copy, number: copy.kernel.create(agent, {"n": number}, {}))
    sessions(lines)

    shares = [len(line.of("execution.assigned")) for line in lines]
    assert sum(shares) == 15
    assert abs(shares[0] - shares[1]) == 1, shares


@pytest.mark.parametrize(("callers", "runners"), [(8, 1), (12, 4), pytest.param(CROWD, 16, marks=pytest.mark.slow)])
def test_a_call_and_a_result_cost_the_same_however_many_wait_for_one_tool(stage, client, callers, runners):
    agent, tool = f"crowd-{uuid4().hex}", f"tool.{uuid4().hex}"
    lines = idle(stage, agent, 1)
    at_once(stage, callers, lambda copy, number: copy.kernel.create(agent, {"n": number}, {}))
    given = sessions(lines)
    hands = [stage.runner(f"runner-{number}", "one", tool) for number in range(runners)]
    client.take()

    at_once(stage, callers, lambda copy, number: copy.invoke(given[number], tool, remote=True))
    calls = client.take() / callers
    costs = [finished(stage, client, hands) for _ in range(callers // runners)]

    assert calls <= CALL_AT_MOST, calls
    assert max(costs) <= RESULT_AT_MOST, costs
    assert all(not stage.state(one["execution_id"]).steps for one in given)


def finished(stage: KernelStage, client: Counted, hands: list[Line]) -> float:
    """All connections report the jobs in their hands at once; requests of each."""
    jobs = []
    for hand in hands:
        hand.look()
        jobs.append(hand.of("job.assigned")[-1])
    client.take()
    at_once(stage, len(jobs), lambda copy, number: copy.finish(jobs[number], 1, f"runner-{number}"))
    return client.take() / len(jobs)
