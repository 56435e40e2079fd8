"""One contract for agents' consumers and runners, held against the fakes and against DynamoDB."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from piecework.clock import DAY_MS
from piecework.kernel.model.due_times import AGENT_DUE, RUNNER_DUE, pair_id, pair_of
from piecework.kernel.model.ports.runners import ToolEntry
from piecework.kernel.model.state import Connection
from piecework.kernel.settings import NAME_KEPT_MS
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.tables import STORES, store_of

LATER = START_MS + 12_000
ODD = 'a b/ü#😀"' + "x" * 200


@pytest.fixture(scope="module")
def clock():
    return FakeClock(START_MS)


@pytest.fixture(scope="module", params=STORES)
def store(request, clock):
    return store_of(request, clock)


@pytest.fixture
def agents(store):
    return store.agents


@pytest.fixture
def runners(store):
    return store.runners


def an_agent() -> str:
    return f"agent-{uuid4().hex}"


def a_connection(runner_id: str = "", consumer_id: str = "one") -> Connection:
    return Connection(runner_id or f"runner-{uuid4().hex}", consumer_id)


def a_tool() -> str:
    return f"tool.{uuid4().hex}"


def an_entry(name: str, runner_id: str, at_ms: int = START_MS, schema: object = None) -> ToolEntry:
    return ToolEntry(name, f"does {name}", schema, runner_id, at_ms)


class TestAgents:
    def test_a_consumer_is_found_as_it_connected(self, agents):
        agent_id = an_agent()

        made, replaced = agents.connect(agent_id, ODD, LATER)

        assert replaced is None
        assert (made.agent_id, made.consumer_id, made.lease_until_ms, made.is_open) == (agent_id, ODD, LATER, True)
        assert agents.find(agent_id, ODD) == made
        assert agents.find(agent_id, "another") is None
        assert agents.find("x" * 5_000, "y" * 5_000) is None

    def test_a_second_connection_replaces_the_first_one(self, agents):
        agent_id = an_agent()
        first, _ = agents.connect(agent_id, "one", LATER)

        second, replaced = agents.connect(agent_id, "one", LATER + 1)

        assert replaced == first
        assert second.generation > first.generation
        assert not agents.refresh(first, LATER + 9)
        assert not agents.end(first, LATER + 9)
        assert not agents.forget(first)
        assert agents.find(agent_id, "one") == second

    def test_the_name_of_the_token_is_kept_for_the_agent_whatever_becomes_of_its_consumer(self, agents):
        agent_id, other = an_agent(), an_agent()
        made, _ = agents.connect(agent_id, ODD, LATER, "desk")
        again, _ = agents.connect(agent_id, ODD, LATER, "desk-2")

        assert agents.find(agent_id, ODD) == again
        assert (made.by, again.by) == ("desk", "desk-2")
        assert agents.end(again, START_MS - 1) and agents.forget(agents.find(agent_id, ODD))
        assert agents.has_served(agent_id, "desk") and agents.has_served(agent_id, "desk-2")
        assert not agents.has_served(agent_id, "ada")
        assert not agents.has_served(other, "desk")

    def test_an_agent_of_any_name_has_names_of_its_own(self, agents):
        odd = ODD + uuid4().hex
        agents.connect(odd, "one", LATER, "desk")

        assert agents.has_served(odd, "desk")
        assert not agents.has_served(f"{odd}2", "desk")
        assert not agents.has_served("x" * 5_000, "desk")

    def test_a_door_without_tokens_keeps_no_name(self, agents):
        agent_id = an_agent()
        made, _ = agents.connect(agent_id, "one", LATER)

        assert (made.by, made.named_until_ms) == ("", 0)
        assert not agents.has_served(agent_id, "")

    def test_a_name_counts_until_its_time_after_the_last_connection(self, agents, clock):
        agent_id, began = an_agent(), clock()
        first, _ = agents.connect(agent_id, "one", LATER, "desk")
        try:
            clock.move(NAME_KEPT_MS / 4 / 1000)
            same, _ = agents.connect(agent_id, "one", LATER, "desk")
            clock.move(NAME_KEPT_MS / 2 / 1000)
            renewed, _ = agents.connect(agent_id, "one", LATER, "desk")
            clock.move((NAME_KEPT_MS - DAY_MS) / 1000)
            assert agents.has_served(agent_id, "desk")
            clock.move(2 * DAY_MS / 1000)
            assert not agents.has_served(agent_id, "desk")
        finally:
            clock.move((began - clock()) / 1000)

        assert (
            first.named_until_ms == same.named_until_ms == (began + NAME_KEPT_MS) // 1000 * 1000
        )  # a TTL is of seconds
        assert renewed.named_until_ms > began + NAME_KEPT_MS * 3 // 2

    def test_connections_at_once_have_generations_of_their_own(self, agents):
        agent_id, made = an_agent(), []
        threads = [
            threading.Thread(target=lambda: made.append(agents.connect(agent_id, "one", LATER)[0])) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len({consumer.generation for consumer in made}) == 4
        assert agents.find(agent_id, "one") == max(made, key=lambda consumer: consumer.generation)

    def test_a_lease_is_extended_while_the_stream_is_open(self, agents):
        agent_id = an_agent()
        made, _ = agents.connect(agent_id, "one", LATER)

        assert agents.refresh(made, LATER + 5)
        assert agents.find(agent_id, "one").lease_until_ms == LATER + 5
        assert agents.end(made, LATER + 1)
        assert not agents.refresh(made, LATER + 10)
        found = agents.find(agent_id, "one")
        assert (found.lease_until_ms, found.is_open) == (LATER + 1, False)

    def test_many_leases_are_extended_at_once_but_those_of_replaced_and_forgotten_streams(self, agents):
        agent_id = an_agent()
        made = [agents.connect(agent_id, f"c{number:02d}", LATER)[0] for number in range(40)]
        agents.connect(agent_id, "c07", LATER)
        agents.end(made[11], LATER)
        agents.forget(made[13])

        gone = agents.refresh_all(made, LATER + 5)

        assert gone == [made[7], made[11], made[13]]
        leases = {one.consumer_id: one.lease_until_ms for one in agents.consumers(agent_id)}
        assert set(leases.values()) == {LATER, LATER + 5}
        assert sorted(name for name, until in leases.items() if until == LATER) == ["c07", "c11"]
        assert agents.refresh_all(made[:1], LATER + 9) == []
        assert agents.refresh_all([made[13]], LATER + 9) == [made[13]]
        assert agents.refresh_all([made[7], made[11]], LATER + 9) == [made[7], made[11]]

    def test_a_doubt_counts_until_its_lease_is_extended(self, agents):
        agent_id = an_agent()
        made, _ = agents.connect(agent_id, "one", LATER)

        assert agents.doubt(made, LATER + 3)
        assert agents.find(agent_id, "one").doubted_until_ms == LATER + 3
        assert agents.refresh(made, LATER + 5)
        assert agents.find(agent_id, "one").doubted_until_ms == 0
        assert not agents.doubt(made, LATER + 9)
        found = agents.find(agent_id, "one")
        assert agents.end(found, LATER + 6)
        assert not agents.doubt(agents.find(agent_id, "one"), LATER + 9)
        again, _ = agents.connect(agent_id, "one", LATER + 5)
        assert not agents.doubt(found, LATER + 9)
        assert agents.find(agent_id, "one") == again

    def test_a_consumer_that_comes_back_is_not_its_forgotten_self(self, agents, clock):
        agent_id = an_agent()
        first, _ = agents.connect(agent_id, "one", LATER)
        assert agents.forget(first)
        assert agents.find(agent_id, "one") is None
        clock.move(0.001)

        second, replaced = agents.connect(agent_id, "one", LATER)

        assert replaced is None
        assert second.generation != first.generation
        assert not agents.refresh(first, LATER)

    def test_a_consumer_that_has_shown_itself_since_is_not_forgotten(self, agents):
        agent_id = an_agent()
        made, _ = agents.connect(agent_id, "one", LATER)
        assert agents.refresh(made, LATER + 5)

        assert not agents.forget(made)
        assert agents.forget(agents.find(agent_id, "one"))

    def test_connecting_writes_a_due_time_that_names_the_consumer(self, store, agents):
        agent_id = an_agent()
        agents.connect(agent_id, ODD, LATER)

        dues = [due for due in store.due_times.ripe(AGENT_DUE, LATER) if due.id == pair_id(agent_id, ODD)]
        assert [due.at_ms for due in dues] == [LATER]
        assert pair_of(dues[0].id) == (agent_id, ODD)
        assert not list(store.due_times.ripe(AGENT_DUE, LATER - 1))

    def test_the_board_shows_consumers_by_id_whether_they_live_or_not(self, agents):
        agent_id = an_agent()
        for name in ("b", "ü", "a", "c"):
            made, _ = agents.connect(agent_id, name, LATER)
        agents.end(made, START_MS)

        board = agents.agent_queue(agent_id)

        assert [consumer.consumer_id for consumer in board.consumers] == ["a", "b", "c", "ü"]
        assert [consumer.is_open for consumer in board.consumers] == [True, True, False, True]
        assert (board.turn, board.waiting) == (0, ())
        assert agents.agent_queue("nobody").consumers == ()

    def test_every_turn_is_somebodys_and_nobody_elses(self, agents):
        agent_id = an_agent()

        with ThreadPoolExecutor(4) as threads:
            turns = list(threads.map(agents.next_turn, [agent_id] * 8))

        assert sorted(turns) == list(range(8))
        assert agents.agent_queue(agent_id).turn == 8

    def test_consumers_are_told_by_id_without_what_waits(self, agents):
        agent_id = an_agent()
        made = [agents.connect(agent_id, name, LATER)[0] for name in ("b", "ü", "a")]
        agents.next_turn(agent_id)

        assert agents.consumers(agent_id) == (made[2], made[0], made[1])
        assert agents.consumers("nobody") == ()
        assert agents.waiting(agent_id) == []

    def test_turns_begin_again_when_the_last_consumer_has_gone(self, agents):
        agent_id = an_agent()
        one, two = (agents.connect(agent_id, name, LATER)[0] for name in ("one", "two"))
        agents.next_turn(agent_id)

        agents.forget(one)
        assert agents.agent_queue(agent_id).turn == 1
        agents.forget(two)
        assert agents.agent_queue(agent_id).turn == 0


class TestRunners:
    def test_a_connection_is_found_as_it_connected(self, runners):
        connection = a_connection(f"{ODD}{uuid4().hex[:8]}", ODD)

        made, replaced = runners.connect(connection, ["geo.lookup", "a"], LATER)

        assert replaced is None
        assert (made.connection, made.tools, made.job_id, made.is_open) == (connection, ("geo.lookup", "a"), "", True)
        assert runners.find(connection) == made
        assert runners.connections(connection.runner_id) == [made]
        assert runners.find(a_connection()) is None
        assert runners.connections("x" * 5_000) == []

    def test_connections_offer_exactly_their_tools_in_the_order_they_came(self, runners, clock):
        tool, made = a_tool(), []
        for consumer_id in ("c", "a", "b"):
            clock.move(0.001)
            made.append(runners.connect(a_connection("", consumer_id), [tool, f"{tool}.more"], LATER)[0])

        assert runners.offering(tool) == made
        assert runners.offering(tool[:-1]) == []

    def test_a_connection_that_comes_back_offers_what_it_says_now(self, runners, clock):
        old, new, connection = a_tool(), a_tool(), a_connection()
        runners.connect(connection, [old], LATER)
        clock.move(0.001)

        made, _ = runners.connect(connection, [new], LATER)

        assert runners.offering(old) == []
        assert runners.offering(new) == [made]

    def test_turns_of_a_tool_count_on(self, runners):
        tool = a_tool()
        runners.connect(a_connection(), [tool], LATER)

        assert [runners.next_turn(tool) for _ in range(3)] == [0, 1, 2]
        assert len(runners.offering(tool)) == 1

    def test_many_leases_are_extended_at_once_and_a_doubt_counts_until_then(self, runners):
        tool = a_tool()
        made = [runners.connect(a_connection(), [tool], LATER)[0] for _ in range(3)]
        runners.connect(made[1].connection, [tool], LATER)
        assert runners.doubt(made[0], LATER + 3)
        assert not runners.doubt(made[1], LATER + 3)
        assert runners.find(made[0].connection).doubted_until_ms == LATER + 3

        assert runners.refresh_all(made, LATER + 5) == [made[1]]

        found = [runners.find(one.connection) for one in made]
        assert [(one.lease_until_ms, one.doubted_until_ms) for one in found] == [
            (LATER + 5, 0),
            (LATER, 0),
            (LATER + 5, 0),
        ]
        assert not runners.doubt(made[0], LATER + 9)

    def test_a_list_of_tools_replaces_that_of_all_connections(self, runners):
        runner_id, old, new = f"runner-{uuid4().hex}", a_tool(), a_tool()
        for consumer_id in ("one", "two"):
            runners.connect(a_connection(runner_id, consumer_id), [old], LATER)

        assert runners.set_tools(runner_id, [new, new])

        assert runners.offering(old) == []
        assert {linked.connection.consumer_id for linked in runners.offering(new)} == {"one", "two"}
        assert {linked.tools for linked in runners.connections(runner_id)} == {(new,)}
        assert runners.set_tools(runner_id, [])
        assert runners.offering(new) == []

    def test_a_runner_that_was_never_seen_has_no_tools(self, runners):
        assert not runners.set_tools(f"runner-{uuid4().hex}", ["a"])
        assert not runners.delete(f"runner-{uuid4().hex}")
        assert not runners.delete("x" * 5_000)

    def test_a_busy_flag_survives_a_stream_that_had_ended_and_no_other(self, runners):
        connection, other = a_connection(), a_connection()
        for one in (connection, other):
            runners.connect(one, ["t"], LATER)
        assert not runners.free(connection, "")
        assert not runners.free(connection, "job-1")
        linked = runners.find(connection)
        assert runners.end(linked, LATER)
        assert not runners.refresh(linked, LATER)

        again, replaced = runners.connect(connection, ["t"], LATER)

        assert (again.job_id, replaced.is_open) == ("", False)

    def test_a_published_list_is_offered_by_connections_that_come_later(self, runners):
        runner_id, tool, more = f"runner-{uuid4().hex}", a_tool(), a_tool()
        runners.publish(runner_id, [an_entry(tool, runner_id)])

        made, _ = runners.connect(a_connection(runner_id), [more], LATER)

        assert set(made.tools) == {tool, more}
        assert runners.offering(tool) == [made]

    def test_the_directory_shows_the_newest_registration_of_each_tool_by_id(self, runners):
        one, two, base = f"runner-{uuid4().hex}", f"runner-{uuid4().hex}", f"t{uuid4().hex}"
        schema = {"type": "object", "b": 1, "a": 2.5}
        runners.publish(one, [an_entry(f"{base}.b", one, 1, schema), an_entry(f"{base}_a", one, 1)])
        runners.publish(two, [an_entry(f"{base}.b", two, 2), an_entry(f"{base}x", two, 2), an_entry(base, two, 2)])

        assert [(entry.id, entry.runner_id) for entry in runners.directory(base)] == [
            (base, two),
            (f"{base}.b", two),
            (f"{base}_a", one),
        ]
        runners.publish(two, [])
        [entry] = runners.directory(f"{base}.b")
        assert (entry.runner_id, entry.input_schema, entry.description) == (one, schema, f"does {base}.b")
        assert runners.directory(f"{base}.") == []
        assert {f"{base}.b", f"{base}_a"} <= {entry.id for entry in runners.directory("")}

    def test_long_schemas_come_back(self, runners):
        runner_id, tool = f"runner-{uuid4().hex}", a_tool()
        runners.publish(runner_id, [an_entry(tool, runner_id, schema={"text": "x" * 500_000})])

        assert len(runners.directory(tool)[0].input_schema["text"]) == 500_000

    def test_what_was_published_goes_with_the_last_connection(self, runners, clock):
        runner_id, tool = f"runner-{uuid4().hex}", a_tool()
        runners.publish(runner_id, [an_entry(tool, runner_id, clock())])
        first, _ = runners.connect(a_connection(runner_id, "one"), [], LATER)
        second, _ = runners.connect(a_connection(runner_id, "two"), [], LATER)

        assert runners.forget(first)
        assert [entry.id for entry in runners.directory(tool)] == [tool]
        assert runners.forget(second)
        assert not runners.forget(second)
        assert runners.directory(tool) == runners.offering(tool) == runners.connections(runner_id) == []

    def test_a_connection_that_has_shown_itself_since_is_not_forgotten(self, runners):
        connection = a_connection()
        made, _ = runners.connect(connection, [a_tool()], LATER)
        assert runners.refresh(made, LATER + 5)

        assert not runners.forget(made)
        assert runners.forget(runners.find(connection))

    def test_a_deleted_runner_is_gone_with_its_connections(self, runners):
        connection, tool = a_connection(), a_tool()
        linked, _ = runners.connect(connection, [tool], LATER)
        runners.publish(connection.runner_id, [an_entry(tool, connection.runner_id)])

        assert runners.delete(connection.runner_id)

        assert runners.find(connection) is None
        assert runners.offering(tool) == runners.directory(tool) == []
        assert not runners.refresh(linked, LATER)
        assert not runners.delete(connection.runner_id)

    def test_connecting_writes_a_due_time_that_names_the_connection(self, store, runners):
        connection = a_connection()
        runners.connect(connection, [], LATER)

        wanted = pair_id(connection.runner_id, connection.consumer_id)
        assert [due.at_ms for due in store.due_times.ripe(RUNNER_DUE, LATER) if due.id == wanted] == [LATER]

    def test_a_runner_may_offer_many_tools(self, runners):
        base = uuid4().hex
        made, _ = runners.connect(a_connection(), [f"{base}.{number}" for number in range(120)], LATER)

        assert runners.offering(f"{base}.119") == [made]
        assert runners.forget(made)
        assert runners.offering(f"{base}.0") == []
