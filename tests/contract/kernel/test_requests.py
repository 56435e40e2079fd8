"""What a command costs the kernel table in requests, and what becomes of a request whose answer is lost."""

import json
from collections import Counter
from typing import Any

import pytest

from piecework.aws.clients import Clients
from piecework.aws.steps_table import hosted_steps
from piecework.aws.transport.failures import ServiceRefused
from piecework.durable.due import Due
from piecework.edge.roles import Caller, Role
from piecework.errors import PieceworkError, Unavailable
from piecework.extend.executors import Outcome, SilentLog
from piecework.jsons.stored import record_of
from piecework.kernel.hosted.runs import Hosted
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.due_times import EXECUTION_DUE
from piecework.kernel.model.ports.executions import Filter, VersionConflict
from piecework.kernel.store import items, table, values
from piecework.kernel.store.hints import KernelHints
from piecework.kernel.store.hosted import HostedLeases
from piecework.kernel.streams.hints import Mark, Named, runner_key
from tests.contract.kernel.test_executions import Stored
from tests.support.fakes import START_MS, FakeClock, no_renewal
from tests.support.kernel.hosted_stage import an_executor
from tests.support.kernel.stage import GATED, KernelStage
from tests.support.kernel.tables import KernelTables, new_tables


class Counting:
    """A client that counts its requests, and sends one of them twice or loses its answer."""

    def __init__(self, client: Any) -> None:
        self._client, self.sent = client, Counter[str]()
        self.twice: str = ""
        self.refusal: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.sent[name] += 1
            if name == "transact_write_items" and self.refusal is not None:
                raise ServiceRefused("TransactionCanceledException", answer=self.refusal)
            if name == self.twice:
                getattr(self._client, name)(**given)
                given |= {"ClientRequestToken": "another"} if name.startswith("transact") else {}
            return getattr(self._client, name)(**given)

        return call


@pytest.fixture(scope="module")
def client(embedded_aws):
    return Counting(embedded_aws.client("dynamodb"))


@pytest.fixture(scope="module")
def tables(embedded_aws, client) -> KernelTables:
    return new_tables(embedded_aws, FakeClock(START_MS), client=client)


@pytest.fixture
def sent(client):
    """Requests since the test began, or since it was cleared."""
    client.sent.clear()
    yield client.sent
    client.twice, client.refusal = "", None


def test_a_repeated_transaction_recognises_its_own_first_try(tables, client, sent):
    story = Stored(tables).assigned()
    client.twice = "transact_write_items"

    story.act(Intent("complete"))

    assert story.kept().execution == story.state
    assert [event.type for event in tables.executions.events(story.id, 0, 10)] == story.types


def test_a_repeated_connect_is_no_second_connection_and_keeps_the_job_in_hand(tables, client, sent):
    story = Stored(tables).assigned()
    linked = story.runner()
    step_id = story.remote(linked)
    tables.runners.end(linked, START_MS)
    client.twice = "put_item"

    again, replaced = tables.runners.connect(linked.connection, ["geo.lookup"], START_MS)

    assert (again.job_id, replaced.generation) == (story.job_id(step_id), linked.generation)
    assert tables.runners.find(linked.connection) == again


def test_the_same_change_sent_anew_is_another_command_and_refused(tables, sent):
    story = Stored(tables).assigned()

    with pytest.raises(VersionConflict):
        tables.executions.commit(story.changes[-1])


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_transaction_that_met_others_is_decided_again(tables, client, sent, reason):
    story = Stored(tables).assigned()
    client.refusal = {"CancellationReasons": [{"Code": "None"}, {"Code": reason}]}

    with pytest.raises(VersionConflict):
        story.act(Intent("complete"))
    client.refusal = None
    story.act(Intent("complete"))


def test_a_transaction_refused_for_another_reason_is_no_conflict(tables, client, sent):
    client.refusal = {"CancellationReasons": [{"Code": "ValidationError"}]}

    with pytest.raises(PieceworkError) as refused:
        Stored(tables).create()
    assert not refused.value.retryable


@pytest.fixture
def stage(tables):
    made = KernelStage(store=tables, clock=FakeClock(START_MS))
    yield made
    for line in list(made.lines):
        line.close()


@pytest.mark.parametrize(
    ("is_named", "requests"),
    [(True, {"batch_get_item": 1, "update_item": 1}), (False, {"query": 1, "get_item": 1, "update_item": 1})],
)
def test_an_assignment_that_a_hint_names_takes_its_stream_a_read_and_a_mark(stage, sent, is_named, requests):
    agent_id = f"named-{is_named}"
    agent = stage.agent(agent_id, "one")
    execution = stage.create(agent_id=agent_id)
    [message] = stage.store.outbox.messages("agent", agent_id, "one", 10)

    agent.stream.told(Named(message.key, execution) if is_named else None)
    sent.clear()
    [frame] = agent.stream.step().frames

    assert execution.encode() in frame
    assert sent == Counter({"batch_get_item": 1} | requests)


def test_a_job_rings_for_its_runner_in_the_transaction_that_gives_it(stage, tables, sent):
    hints, key = KernelHints(tables.client, tables.table), runner_key("rung", "one")
    stage.runner("rung", "one", "rung.lookup")
    agent = stage.agent("rings", "one")
    stage.create(agent_id="rings")
    session = agent.take("execution.assigned")
    assert hints.marks([key]) == {}

    sent.clear()
    stage.invoke(session, "rung.lookup", remote=True)

    assert sent == {"batch_get_item": 2, "query": 1, "transact_write_items": 1}
    assert hints.marks([key]) == {key: Mark(1)}
    assert not any(rung[0] == "runner" for rung in stage.door.hints.kept)


def test_a_command_reads_once_and_writes_one_transaction(stage, sent):
    agent = stage.agent("costs", "one")
    execution = stage.create(agent_id="costs")
    session = agent.take("execution.assigned")
    costs = {}

    def cost(name: str, command: Any) -> Any:
        sent.clear()
        answer = command()
        costs[name] = dict(sent)
        return answer

    step = cost("invoke", lambda: stage.invoke(session, "notes.find"))
    cost("report", lambda: stage.report(session, step, {"found": 1}))
    cost("wait", lambda: stage.intend(session, "wait", signal_type="go"))
    cost("signal", lambda: stage.kernel.signal(execution, "go", None))
    cost("complete", lambda: stage.intend(session, "complete"))

    assert costs == {name: {"batch_get_item": 1, "transact_write_items": 1} for name in costs}


def test_a_name_is_one_write_of_a_new_consumer_and_one_read_of_an_answer_by_an_agents_token(stage, sent):
    costs = {}

    def connect(name: str, agent_id: str, by: str) -> Any:
        sent.clear()
        line = stage.agent(agent_id, "one", by)
        costs[name] = sent["put_item"]
        return line

    connect("without tokens", "nameless", "")
    connect("first", "named", "desk")
    agent = connect("again", "named", "desk")
    execution = stage.create(agent_id="named")
    session = agent.take("execution.assigned")

    def answer(name: str, caller: Caller) -> None:
        step_id = stage.invoke(session, GATED)
        sent.clear()
        stage.kernel.signal(execution, "step.approve", {"step_id": step_id, "approved": True}, caller)
        costs[name] = sent["get_item"]
        stage.report(session, step_id)

    answer("by an approver", Caller("ada", frozenset({Role.APPROVER}), is_limited=True))
    answer("by an agent", Caller("twin", frozenset({Role.APPROVER, Role.AGENT}), is_limited=True))
    answer("without roles", Caller("desk"))

    own = {"without tokens": 3, "first": 4, "again": 2}  # new ones are noted for the lists, too
    assert costs == {**own, "by an approver": 1, "by an agent": 2, "without roles": 1}


def test_a_hosted_execution_with_one_tool_call_costs_the_requests_that_its_page_states(tables, client, sent):
    wakes, costs, said = [], {}, an_executor("desk", lambda task, run: Outcome(run.tool("hosted.lookup", {"n": 1})))
    parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: wakes.append(delay_ms)}
    stage = KernelStage(store=tables, clock=FakeClock(START_MS), **parts)
    leases, steps = HostedLeases(client, tables.table), hosted_steps(client, tables.table, stage.clock)
    ports = (tables.executions, stage.kernel, leases, steps, lambda _: said, parts["wake"], SilentLog())
    hosted = Hosted(*ports, clock=stage.clock, renewal=no_renewal)
    runner = stage.runner("hosted", "one", "hosted.lookup")

    def cost(name: str, command: Any) -> Any:
        sent.clear()
        answer = command()
        costs[name] = sent.total() + len(wakes), sent["transact_write_items"]
        wakes.clear()
        return answer

    execution = cost("create", lambda: stage.create(agent_id="desk"))
    assert cost("ask", lambda: hosted.run_turn(execution, START_MS + 900_000)) == "suspended"
    job = runner.take("job.assigned")
    cost("result", lambda: stage.finish(job, {"city": "Zürich"}, "hosted"))
    assert cost("end", lambda: hosted.run_turn(execution, START_MS + 900_000)) == "completed"

    assert costs == {"create": (3, 1), "ask": (9, 1), "result": (5, 1), "end": (11, 1)}


def test_what_a_hosted_run_reports_travels_in_the_transaction_that_its_next_command_writes(tables, client, sent):
    def reporting(task, run):
        if reports:
            run.progress(50, "half")
            run.note(input_tokens=120, output_tokens=30)
        return Outcome(run.step("think", lambda: {"n": 1}))

    costs, types = [], []
    for reports in (False, True):
        said = an_executor(f"desk-{reports}", reporting)
        parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: None}
        stage = KernelStage(store=tables, clock=FakeClock(START_MS), **parts)
        leases, steps = HostedLeases(client, tables.table), hosted_steps(client, tables.table, stage.clock)
        ports = (tables.executions, stage.kernel, leases, steps, lambda _, said=said: said, parts["wake"], SilentLog())
        hosted = Hosted(*ports, clock=stage.clock, renewal=no_renewal)
        execution = stage.create(agent_id="desk")
        sent.clear()
        assert hosted.run_turn(execution, START_MS + 900_000) == "completed"
        costs.append(dict(sent))
        types.append([kind for kind in stage.types(execution) if kind.startswith("run.")])

    assert costs[0] == costs[1] and costs[0]["transact_write_items"] == 1
    assert types == [["run.step"], ["run.step", "run.progress", "run.tokens"]]


def test_a_creation_without_a_connected_agent_reads_no_execution(stage, sent):
    execution = stage.create(agent_id="absent")

    assert sent["batch_get_item"] == 0
    assert stage.types(execution) == ["execution.created"]


def test_a_whole_life_over_the_tables_ends_as_it_should(stage):
    agent, runner = stage.agent("whole", "one"), stage.runner("geo-w", "one", "geo.whole")
    execution = stage.create({"n": 1}, agent_id="whole")
    session = agent.take("execution.assigned")
    stage.invoke(session, "geo.whole", remote=True)
    job = runner.take("job.assigned")
    stage.finish(job, {"city": "Zürich"}, "geo-w")
    result = agent.take("tool.result")
    agent.close()
    stage.pass_time(12, every=2)
    second = stage.agent("whole", "two")
    again = second.take("execution.assigned")
    stage.intend(again, "complete", output=result["result"], has_output=True)

    assert stage.types(execution)[-4:] == [
        "execution.reset",
        "execution.started",
        "intent.accepted",
        "execution.completed",
    ]
    assert again["history"][0]["result"] == {"city": "Zürich"}
    assert stage.kernel.get(execution).output == {"city": "Zürich"}
    stage.pass_time(1)
    stage.clock.move(stage.settings.retention_ms / 1000)
    stage.sweep()
    assert stage.store.executions.read(execution).execution is None


def test_to_forget_an_execution_costs_six_requests_and_a_message_that_comes_twice_two(stage, sent):
    agent = stage.agent("forgotten", "one")
    execution = stage.create({"n": 1}, agent_id="forgotten")
    session = agent.take("execution.assigned")
    for _ in range(2):
        stage.report(session, stage.invoke(session, "notes.find"), {"found": 1})
    stage.intend(session, "complete")
    agent.close()
    stage.clock.move(stage.settings.retention_ms / 1000)
    [due] = [due for due in stage.store.due_times.ripe(EXECUTION_DUE, stage.clock()) if due.id == execution]
    sent.clear()

    stage.liveness.check(due)
    first = sent.total()
    stage.liveness.check(due)

    assert first <= 6, sent
    assert sent.total() - first <= 2
    assert stage.store.executions.read(execution).execution is None
    assert [each for each in stage.store.due_times.ripe(EXECUTION_DUE, 10**14) if each.id == execution] == []


def test_a_table_that_is_out_of_reach_says_so(embedded_aws):
    nowhere = Clients({**embedded_aws.variables, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}).dynamodb
    tables = new_tables(embedded_aws, FakeClock(START_MS), client=nowhere)

    with pytest.raises(Unavailable):
        tables.executions.read("any")


def test_a_due_time_of_former_rules_is_removed_by_who_meets_it(stage):
    execution = stage.create(agent_id="former")
    former = Due(stage.clock() - 1, EXECUTION_DUE, execution)
    stage.store.due_times.put(former)

    stage.sweep()

    dues = [due.at_ms for due in stage.store.due_times.ripe(EXECUTION_DUE, 10**14) if due.id == execution]
    assert dues == [stage.clock() + stage.settings.execution_timeout_ms]


class Coding:
    """Stands for `json` in a module of the store, and counts what is written and read."""

    def __init__(self, coded: Counter[str]) -> None:
        self._coded = coded

    def encode(self, value: Any) -> str:
        self._coded["written"] += 1
        return json.JSONEncoder(separators=(",", ":"), default=record_of).encode(value)

    def loads(self, text: str) -> Any:
        self._coded["read"] += 1
        return json.loads(text)


def test_a_command_writes_and_reads_each_stored_value_once_and_copies_none(stage, sent, monkeypatch):
    coded = Counter[str]()
    coding, costs = Coding(coded), {}
    monkeypatch.setattr(values, "_AS_TEXT", coding)
    for module in (values, items, table):
        monkeypatch.setattr(module, "json", coding)
    monkeypatch.setattr("dataclasses._asdict_inner", lambda *given: pytest.fail("a copy"))
    agent = stage.agent("coded", "one")
    stage.create(agent_id="coded")
    session = agent.take("execution.assigned")

    def cost(name: str, command: Any) -> Any:
        coded.clear()
        answer = command()
        costs[name] = dict(coded)
        return answer

    step = cost("invoke", lambda: stage.invoke(session, "notes.find", key="once"))
    cost("report", lambda: stage.report(session, step, {"found": 1}))

    assert costs == {
        "invoke": {"read": 2, "written": 5},  # record, labels; record, labels, events, arguments, answer
        "report": {"read": 3, "written": 6},  # and arguments; record, labels, events, outcome, history, message
    }


def test_to_count_open_executions_costs_a_query_a_shard_and_status_and_to_cancel_each_a_command(stage, sent):
    label = {"batch": "counted"}
    ids = [stage.kernel.create(f"away-{number}", None, label).execution.id for number in range(3)]
    which = Filter(labels=label)

    sent.clear()
    counted = stage.kernel.cancel_all(which, "", None)
    asked = dict(sent)
    sent.clear()
    done = stage.kernel.cancel_all(which, counted["cursor"], counted["count"])

    assert (counted["count"], done["cancelled"], done["remaining"]) == (3, 3, 0)
    assert asked == {"query": 12}
    assert sent == {"query": 12, "batch_get_item": 3, "transact_write_items": 3}
    assert {stage.status(execution) for execution in ids} == {"cancelled"}
