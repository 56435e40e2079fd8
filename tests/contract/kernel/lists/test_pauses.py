"""Pausing an agent: one contract for the fakes and for DynamoDB, what it does to work, and what it costs."""

import pytest

from piecework.kernel.errors import AgentPaused
from piecework.kernel.model.state import Pause, Status
from tests.support.counted import Counted
from tests.support.fakes import START_MS
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

AGENT = "triage"


@pytest.fixture
def stage(store, clock):
    return KernelStage(store=store, clock=clock)


def test_a_pause_is_kept_with_its_reason_and_goes_on_when_it_is_begun_again(store, clock):
    first = Pause(START_MS, "mia", "it refunds twice")

    assert store.agents.pause(AGENT, first) == first
    assert store.agents.pause(AGENT, Pause(START_MS + 9, "ada", "me too")) == first
    assert store.agents.pause_of(AGENT) == store.agents.board(AGENT).pause == first
    assert store.agents.agent_queue(AGENT).pause == store.connections.board(AGENT, 1).pause == first
    assert store.agents.board(AGENT).is_paused


def test_who_resumed_it_is_kept_and_the_next_pause_is_a_new_one(store, clock):
    first, second = Pause(START_MS, "mia", "it refunds twice"), Pause(START_MS + 20, "mia", "again")
    store.agents.pause(AGENT, first)

    ended = store.agents.resume(AGENT, START_MS + 5, "ada", "mended")

    assert ended == Pause(START_MS, "mia", "it refunds twice", START_MS + 5, "ada", "mended")
    assert store.agents.resume(AGENT, START_MS + 9, "eve", "late") == ended
    assert store.agents.board(AGENT).pause == ended and not store.agents.board(AGENT).is_paused
    assert store.agents.pause(AGENT, second) == second
    assert store.agents.board(AGENT).is_paused


def test_an_agent_that_was_never_paused_has_no_pause_and_nothing_to_resume(store, clock):
    store.agents.connect(AGENT, "one", clock() + 12_000)

    assert store.agents.resume(AGENT, START_MS, "mia", "why not") is None
    assert store.agents.pause_of(AGENT) is None and store.agents.board(AGENT).pause is None


def test_a_pause_is_no_consumer(store, clock):
    store.agents.pause(AGENT, Pause(START_MS, "mia", "x"))
    consumer, _ = store.agents.connect(AGENT, "one", clock() + 1)

    assert store.agents.consumers(AGENT) == store.agents.agent_queue(AGENT).consumers == (consumer,)
    assert store.connections.board(AGENT, 1).consumers == (consumer,)
    assert store.agents.find(AGENT, "") is None
    assert store.agents.forget(consumer)
    assert store.agents.board(AGENT).consumers == ()
    assert store.agents.board(AGENT).is_paused


def test_an_agent_that_never_connected_is_listed_by_its_pause(store):
    store.agents.pause("unseen", Pause(START_MS, "mia", "x"))

    assert [owner.id for owner in store.connections.agents("", 9, ()).page] == ["unseen"]


def test_a_create_for_a_paused_agent_is_refused_and_stores_nothing(stage, store):
    stage.agent(AGENT)
    stage.kernel.pause(AGENT, "it refunds twice", "mia")

    with pytest.raises(AgentPaused) as refused:
        stage.create(agent_id=AGENT)
    assert (refused.value.status, dict(refused.value.headers)) == (503, {"Retry-After": "30"})
    assert store.connections.waiting(AGENT, 9) == 0
    assert stage.create(agent_id="another")

    stage.kernel.resume(AGENT, "mended", "mia")
    assert stage.status(stage.create(agent_id=AGENT)) is Status.RUNNING


def test_what_waits_goes_on_waiting_for_a_paused_agent_that_connects_and_is_given_out_when_it_is_resumed(stage):
    waiting = stage.create(agent_id=AGENT)
    stage.kernel.pause(AGENT, "it refunds twice")
    line = stage.agent(AGENT)

    stage.pass_time(30, every=5)
    assert stage.status(waiting) is Status.PENDING
    stage.kernel.resume(AGENT, "mended")

    assert stage.status(waiting) is Status.RUNNING
    assert line.take("execution.assigned")["execution_id"] == waiting


def test_what_runs_ends_while_its_agent_is_paused(stage):
    line = stage.agent(AGENT)
    execution = stage.create(agent_id=AGENT)
    session = line.take("execution.assigned")
    stage.kernel.pause(AGENT, "no more")

    step = stage.invoke(session, "notes.find")
    stage.report(session, step, {"found": 1})
    stage.intend(session, "complete", output=1, has_output=True)

    assert stage.status(execution) is Status.COMPLETED


def test_what_a_consumer_of_a_paused_agent_leaves_waits_though_another_is_there(stage):
    one = stage.agent(AGENT, "one")
    execution = stage.create(agent_id=AGENT)
    one.take("execution.assigned")
    two = stage.agent(AGENT, "two")
    stage.kernel.pause(AGENT, "no more")

    one.close()
    stage.pass_time(60, every=5)
    assert stage.status(execution) is Status.PENDING
    assert two.of("execution.assigned") == []
    stage.kernel.resume(AGENT, "go on")

    assert two.take("execution.assigned")["execution_id"] == execution


def test_what_was_answered_while_nobody_had_it_starts_anew_when_its_paused_agent_is_resumed(stage):
    one = stage.agent(AGENT, "one")
    execution = stage.create(agent_id=AGENT)
    stage.intend(one.take("execution.assigned"), "wait", signal_type="go")
    one.close()
    stage.pass_time(12, every=4)
    stage.kernel.pause(AGENT, "no more")
    two = stage.agent(AGENT, "two")

    stage.signal(execution, "go", None)
    assert stage.status(execution) is Status.RUNNING
    stage.pass_time(stage.settings.agent_timeout_ms / 1_000 + 2, every=2)
    assert (stage.status(execution), two.of("execution.assigned")) == (Status.PENDING, [])
    stage.kernel.resume(AGENT, "go on")

    assert two.take("execution.assigned")["execution_id"] == execution


def test_a_hosted_agent_is_paused_within_two_seconds(store, clock):
    parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: None}
    stage = KernelStage(store=store, clock=clock, **parts)
    stage.create(agent_id="desk")

    stage.kernel.pause("desk", "no more")
    clock.move(2)

    with pytest.raises(AgentPaused):
        stage.create(agent_id="desk")
    stage.kernel.resume("desk", "go on")
    clock.move(2)
    assert stage.status(stage.create(agent_id="desk")) is Status.RUNNING


class TestCosts:
    @pytest.fixture
    def counted(self, embedded_aws):
        return Counted(embedded_aws.client("dynamodb"))

    def test_a_pause_costs_commands_no_request(self, embedded_aws, clock, counted):
        stage, costs = KernelStage(store=new_tables(embedded_aws, clock, client=counted), clock=clock), []
        stage.agent(AGENT)
        for _ in range(2):
            counted.sent.clear()
            stage.create(agent_id=AGENT)
            costs.append(dict(counted.sent))
            stage.kernel.pause(AGENT, "a while")
            counted.sent.clear()
            with pytest.raises(AgentPaused):
                stage.create(agent_id=AGENT)
            assert counted.sent == {"query": 1}
            stage.kernel.resume(AGENT, "go on")

        assert costs == [{"query": 1, "transact_write_items": 1}] * 2

    def test_a_hosted_agent_is_looked_at_once_in_two_seconds(self, embedded_aws, clock, counted):
        parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: None}
        stage = KernelStage(store=new_tables(embedded_aws, clock, client=counted), clock=clock, **parts)
        costs = []
        for seconds in (0, 1.9, 0.1):
            clock.move(seconds)
            counted.sent.clear()
            stage.create(agent_id="desk")
            costs.append(counted.sent["get_item"])

        assert costs == [1, 0, 1]

    def test_earlier_code_reads_a_pause_as_a_consumer_that_has_lapsed(self, embedded_aws, clock):
        tables = new_tables(embedded_aws, clock)
        tables.agents.pause(AGENT, Pause(START_MS, "mia", "x"))
        key = {"pk": {"S": f"AGENT#{AGENT}"}, "sk": {"S": "C#"}}
        row = embedded_aws.client("dynamodb").get_item(TableName=tables.table, Key=key)["Item"]

        read = {name: row[name] for name in ("agent", "consumer", "generation", "lease_until", "is_open")}
        assert read == {
            "agent": {"S": AGENT},
            "consumer": {"S": ""},
            "generation": {"N": "0"},
            "lease_until": {"N": "0"},
            "is_open": {"BOOL": False},
        }
        tables.agents.resume(AGENT, START_MS, "mia", "y")
        row = embedded_aws.client("dynamodb").get_item(TableName=tables.table, Key=key)["Item"]
        assert int(row["expires_at"]["N"]) == START_MS // 1_000 + 30 * 86_400
