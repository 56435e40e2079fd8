"""One contract for the lists of agents and runners, held against the fakes and against DynamoDB; what a page costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from piecework.kernel.connected.lists import SHOWN, WAITING_COUNTED, WORK_SHOWN, Connected
from piecework.kernel.errors import Invalid
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.state import Connection
from tests.support.counted import Counted
from tests.support.fakes import START_MS
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

LEASE_MS = 12_000
DAY = 86_400
ODD = 'a b/ü#😀"' + "x" * 200
OLD_ROWS = Path(__file__).parents[3] / "support" / "stored" / "kernel_connections_7a1e751.json"


def names(owners) -> list[str]:
    return [owner.id for owner in owners.page]


def walked(read) -> list[str]:
    """The ids of all pages."""
    found, after = [], ""
    while True:
        owners = read(after)
        found += names(owners)
        if not (after := owners.then):
            return found


def connect(store, clock, agent_id: str, consumer_id: str = "one") -> Any:
    return store.agents.connect(agent_id, consumer_id, clock() + LEASE_MS)[0]


def link(store, clock, runner_id: str, consumer_id: str = "one") -> Any:
    return store.runners.connect(Connection(runner_id, consumer_id), ["geo.lookup"], clock() + LEASE_MS)[0]


class TestNames:
    def test_whoever_has_connected_is_listed_by_name_once_and_odd_names_come_last(self, store, clock):
        for name in ("b", ODD, "a", "c"):
            connect(store, clock, name)
            connect(store, clock, name, "two")
            link(store, clock, f"runs-{name}")

        assert names(store.connections.agents("", 10, ())) == ["a", "b", "c", ODD]
        assert names(store.connections.runners("", 10)) == ["runs-a", "runs-b", "runs-c", f"runs-{ODD}"]

    def test_pages_show_everybody_once_whatever_their_limit(self, store, clock):
        everybody = sorted(f"agent-{number:02d}" for number in range(23))
        for name in everybody:
            connect(store, clock, name)

        for limit in (1, 2, 7, 50):
            assert walked(lambda after, limit=limit: store.connections.agents(after, limit, ())) == everybody

    def test_hosted_agents_are_listed_in_their_places_without_a_connection(self, store, clock):
        for name in ("b", "d"):
            connect(store, clock, name)
        hosted = {"a", "c", "d", "e"}

        for limit in (1, 2, 9):
            shown = walked(lambda after, limit=limit: store.connections.agents(after, limit, hosted))
            assert shown == ["a", "b", "c", "d", "e"]

    def test_one_that_has_not_connected_for_thirty_days_leaves_the_list_and_comes_back(self, store, clock):
        connect(store, clock, "gone")
        link(store, clock, "gone")
        clock.move(29 * DAY)
        connect(store, clock, "here")
        link(store, clock, "here")
        clock.move(DAY + 1)
        assert names(store.connections.agents("", 9, ())) == ["here"]
        assert names(store.connections.runners("", 9)) == ["here"]

        connect(store, clock, "gone")

        assert names(store.connections.agents("", 9, ())) == ["gone", "here"]

    def test_those_who_have_left_hide_nobody_behind_them(self, store, clock):
        for number in range(40):
            connect(store, clock, f"gone-{number:02d}")
        clock.move(31 * DAY)
        connect(store, clock, "here")

        assert walked(lambda after: store.connections.agents(after, 1, {"a", "i"})) == ["a", "here", "i"]

    def test_one_that_connects_again_and_again_stays(self, store, clock):
        for _ in range(5):
            connect(store, clock, "steady")
            link(store, clock, "steady")
            clock.move(20 * DAY)

        assert names(store.connections.agents("", 9, ())) == names(store.connections.runners("", 9)) == ["steady"]

    def test_a_deleted_runner_is_not_listed_until_it_comes_back(self, store, clock):
        link(store, clock, "drawer")
        assert store.runners.delete("drawer")
        assert names(store.connections.runners("", 9)) == []

        link(store, clock, "drawer")

        assert names(store.connections.runners("", 9)) == ["drawer"]

    @pytest.mark.parametrize("key", ["a b", "~", "x" * 65, "~" + "f" * 39, "a\x00", "é", "x" * 5_000])
    def test_a_key_that_nobody_can_have_is_refused(self, store, key):
        with pytest.raises(Invalid):
            store.connections.agents(key, 1, ())
        with pytest.raises(Invalid):
            store.connections.runners(key, 1)


class TestConnections:
    def test_they_began_when_they_first_came_as_long_as_they_come_back_in_time(self, store, clock):
        connect(store, clock, "triage")
        link(store, clock, "geo-1")
        clock.move(11.9)

        again, linked = connect(store, clock, "triage"), link(store, clock, "geo-1")

        assert (again.since_ms, linked.since_ms) == (START_MS, START_MS)
        assert [one.since_ms for one in store.connections.board("triage", 9).consumers] == [START_MS]
        assert [one.since_ms for one in store.connections.links("geo-1", 9)] == [START_MS]
        clock.move(12)
        assert connect(store, clock, "triage").since_ms == clock()
        assert link(store, clock, "geo-1").since_ms == clock()

    def test_no_more_of_them_are_read_than_asked_for(self, store, clock):
        for number in range(4):
            connect(store, clock, "triage", f"c{number}")
            link(store, clock, "geo-1", f"c{number}")

        assert [one.consumer_id for one in store.connections.board("triage", 3).consumers] == ["c0", "c1", "c2"]
        assert [one.connection.consumer_id for one in store.connections.links("geo-1", 3)] == ["c0", "c1", "c2"]
        assert len(store.connections.board("triage", 9).consumers) == len(store.connections.links("geo-1", 9)) == 4
        assert (store.connections.board("nobody", 9).consumers, store.connections.links("nobody", 9)) == ((), [])

    def test_what_waits_is_counted_and_what_is_worked_on_is_named_up_to_a_number(self, store, clock):
        stage = KernelStage(store=store, clock=clock)
        waiting = [stage.create(agent_id="idle") for _ in range(3)]
        stage.agent("busy")
        held = [stage.create(agent_id="busy") for _ in range(3)]

        assert store.connections.waiting("idle", 9) == len(waiting)
        assert store.connections.waiting("idle", 2) == 2
        assert store.connections.waiting("busy", 9) == 0
        assert store.connections.sessions("busy", "one", 9) == sorted(held)
        assert store.connections.sessions("busy", "one", 2) == sorted(held)[:2]

    def test_the_steps_of_executions_are_read_together(self, store, clock):
        stage = KernelStage(store=store, clock=clock)
        agent = stage.agent()
        execution = stage.create()
        step_id = stage.invoke(agent.take("execution.assigned"), "notes.find")

        steps = store.connections.steps([execution, "0197b0c4-0000-7000-8000-00000000000a"])

        assert {name: [step.id for step in of_one] for name, of_one in steps.items()} == {execution: [step_id]}


class TestCosts:
    """Requests of a page, however much is stored."""

    @pytest.fixture
    def counted(self, embedded_aws):
        return Counted(embedded_aws.client("dynamodb"))

    @pytest.fixture
    def tables(self, embedded_aws, clock, counted):
        return new_tables(embedded_aws, clock, client=counted)

    def test_a_page_of_agents_reads_no_more_than_stated_whatever_is_stored(self, tables, clock, counted):
        put_many(tables, "AGENT#crowd", "C#c{:04d}", 300, a_consumer("crowd"))
        put_many(tables, "AGENT#crowd", "W#001750000000000#e{:04d}", 300, {})
        for number in range(30):
            connect(tables, clock, f"agent-{number:02d}")
        connect(tables, clock, "crowd")
        connected = Connected(tables.connections, clock, {"zz-hosted"})
        counted.sent.clear()

        page, cursor = connected.agents("", 20)

        assert [len(page), bool(cursor)] == [20, True]
        assert counted.sent == {"query": 16 + 3 * 20}
        counted.sent.clear()
        rest, cursor = connected.agents(cursor, 20)
        assert [shown.id for shown in rest][-1] == "agent-29"  # a page ends before one that would fill it
        assert counted.sent["query"] <= 16 + 3 * 20
        counted.sent.clear()
        [crowd], cursor = connected.agents(cursor, 20)
        assert (len(crowd.consumers), crowd.more_consumers) == (SHOWN, True)
        assert (crowd.waiting, crowd.more_waiting) == (WAITING_COUNTED, True)
        assert counted.sent == {"query": 16 + 1 + 1 + 1 + SHOWN}
        [last], cursor = connected.agents(cursor, 20)
        assert (last.id, last.hosted, cursor) == ("zz-hosted", last.hosted, "") and last.hosted is not None

    def test_a_page_of_runners_looks_all_jobs_up_at_once(self, tables, clock, counted):
        stage = KernelStage(store=tables, clock=clock)
        runners = [stage.runner(f"geo-{number:02d}", "one", f"tool.{number}") for number in range(12)]
        agent = stage.agent()
        executions = [stage.create() for _ in runners]
        agent.look()
        for number, session in enumerate(agent.of("execution.assigned")):
            stage.invoke(session, f"tool.{number}", remote=True)
        counted.sent.clear()

        page, cursor = Connected(tables.connections, clock, ()).runners("", 20)

        assert cursor == ""
        assert counted.sent == {"query": 16 + 12, "batch_get_item": 1}
        links = [shown for runner in page for shown in runner.links]
        assert sorted(shown.linked.execution_id for shown in links) == sorted(executions)
        assert {shown.step.tool_id for shown in links if shown.step} == {f"tool.{number}" for number in range(12)}

    def test_one_consumer_with_much_work_shows_the_first_of_it(self, tables, clock, counted):
        connect(tables, clock, "triage")
        stage = KernelStage(store=tables, clock=clock)
        for _ in range(WORK_SHOWN + 1):
            stage.create()

        [triage], _ = Connected(tables.connections, clock, ()).agents("", 20)

        [consumer] = triage.consumers
        assert (len(consumer.work.shown), consumer.work.more) == (WORK_SHOWN, True)

    def test_a_connection_that_comes_back_within_the_hour_writes_no_name(self, tables, clock, counted):
        for _ in range(2):
            counted.sent.clear()
            connect(tables, clock, "triage")
            clock.move(45)
        assert counted.sent == {"get_item": 1, "put_item": 2}  # its due time, itself

        clock.move(3_600)
        counted.sent.clear()
        connect(tables, clock, "triage")

        assert counted.sent == {"get_item": 1, "put_item": 3}

    def test_rows_of_earlier_code_are_shown_when_their_owner_connects_again_and_their_begin_is_unknown(
        self, tables, clock, embedded_aws
    ):
        for row in json.loads(OLD_ROWS.read_text()):
            embedded_aws.client("dynamodb").put_item(TableName=tables.table, Item=row)
        connected = Connected(tables.connections, clock, ())
        assert connected.agents("", 9) == connected.runners("", 9) == ([], "")

        connect(tables, clock, "triage", "three")
        link(tables, clock, "geo-1", "two")

        [triage], _ = connected.agents("", 9)
        [geo], _ = connected.runners("", 9)
        consumers = {shown.consumer.consumer_id: shown.consumer.since_ms for shown in triage.consumers}
        assert consumers == {"one": 0, "two": 0, "three": START_MS}
        assert triage.waiting == 1
        links = {shown.linked.connection.consumer_id: shown.linked.since_ms for shown in geo.links}
        assert links == {"one": 0, "two": START_MS}
        assert connect(tables, clock, "triage", "one").since_ms == START_MS


def a_consumer(agent_id: str) -> dict[str, Any]:
    return {
        "agent": {"S": agent_id},
        "consumer": {"S": "x"},
        "generation": {"N": "1"},
        "lease_until": {"N": str(START_MS)},
        "is_open": {"BOOL": True},
    }


def put_many(tables, pk: str, sk: str, count: int, more: dict[str, Any]) -> None:
    rows = [{"pk": {"S": pk}, "sk": {"S": sk.format(number)}, **more} for number in range(count)]
    for start in range(0, count, 25):
        puts = [{"PutRequest": {"Item": row}} for row in rows[start : start + 25]]
        tables.client.batch_write_item(RequestItems={tables.table: puts})


def test_a_hosted_agent_shows_what_its_executor_works_on(clock):
    stage = KernelStage(clock=clock, can_wake=True, hosted_names={"desk"}, wake=lambda execution_id, delay_ms: None)
    execution = stage.create(agent_id="desk")

    [desk], cursor = stage.door.connected.agents("", 20)

    assert (desk.id, desk.consumers, desk.hosted.shown, cursor) == ("desk", (), (execution,), "")
    assert stage.state(execution).session.consumer_id == HOSTED
