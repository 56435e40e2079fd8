"""Cases found by using the kernel door: late readers, runners that come back, consumers that show themselves late."""

import pytest

from piecework.errors import Unavailable
from piecework.kernel.model.due_times import AGENT_DUE
from piecework.kernel.model.state import Connection
from tests.support.kernel.fakes import FakeAgents, FakeRunners
from tests.support.kernel.house import House
from tests.support.kernel.stage import KernelStage


@pytest.fixture
def stage():
    return KernelStage()


def test_a_monitor_beyond_the_end_closes_when_the_execution_ends_before_it(stage):
    agent = stage.agent()
    execution_id = stage.create()
    reader = stage.monitor(execution_id, after=500)
    stage.pass_time(6)
    assert not reader.has_ended

    stage.intend(agent.take("execution.assigned"), "complete")
    stage.pass_time(6)

    assert reader.has_ended
    assert reader.seen == []


def test_a_runner_that_comes_back_before_its_job_was_written_never_has_two(stage):
    agent, lost = stage.agent(), stage.runner()
    stage.lines.remove(lost)  # its process was killed: nobody sees that it has gone
    stage.create()
    session = agent.take("execution.assigned")
    first, second = (stage.invoke(session, remote=True) for _ in range(2))

    back = stage.runner()
    stage.pass_time(6)

    [job] = back.of("job.assigned")
    stage.finish(job)
    back.look()
    assert {one["step_id"] for one in back.of("job.assigned")} == {first, second}


def test_a_runner_that_comes_back_gets_the_job_that_was_not_written(stage):
    agent, lost = stage.agent(), stage.runner()
    stage.lines.remove(lost)
    stage.create()
    step_id = stage.invoke(agent.take("execution.assigned"), remote=True)

    back = stage.runner()
    stage.pass_time(1)

    assert [job["step_id"] for job in back.of("job.assigned")] == [step_id]
    assert stage.store.links[Connection("geo-1", "one")].job_id == back.of("job.assigned")[0]["id"]


def test_a_consumer_that_shows_itself_while_it_is_given_up_is_kept_and_looked_at_again(stage, monkeypatch):
    consumer, _ = stage.store.agents.connect("triage", "one", stage.clock() + 12_000)
    stage.clock.move(20)
    forget = FakeAgents.forget

    def late(agents, lapsed):
        agents.refresh(consumer, stage.clock() + 12_000)
        return forget(agents, lapsed)

    monkeypatch.setattr(FakeAgents, "forget", late)
    stage.sweep()
    stage.clock.move(3)
    stage.sweep()

    assert stage.store.agents.find("triage", "one") is not None
    [due] = stage.store.due_times.ripe(AGENT_DUE, stage.clock() + 12_000)
    assert due.at_ms == stage.clock() + 12_000


def test_a_refused_result_whose_connection_cannot_be_freed_is_to_be_reported_again(monkeypatch):
    house = House()
    house.link()
    execution_id = house.running()
    step_id = house.remote(execution_id)
    job_id = house.job(execution_id, step_id).id
    house.kernel.cancel(execution_id)

    def fails(runners, connection, job):
        raise Unavailable("the kernel table")

    monkeypatch.setattr(FakeRunners, "free", fails)
    with pytest.raises(Unavailable):
        house.result(execution_id, step_id, job_id)
