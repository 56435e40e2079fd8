"""What keeps a session alive waits for nothing: not for monitors, nor for looks, nor for a table without writes."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.errors import Unavailable
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.state import Connection, Status
from piecework.kernel.settings import KernelSettings
from piecework.kernel.wire.frames import HEARTBEAT, PRELUDE
from tests.support.kernel.doors import PORTS
from tests.support.kernel.fakes import new_store
from tests.support.kernel.functions import streams_function
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.stage import KernelStage

QUICK = KernelSettings(heartbeat_ms=100, lease_ms=1_500)
ENOUGH = 15.0
MANY = 40
HUNG = 60.0  # no test waits so long


class Hanging:
    """A port of a store some of whose calls hang until they are let go."""

    def __init__(self, port: Any) -> None:
        self._port, self.hangs, self.let_go = port, set[str](), threading.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)

        def call(*given: Any, **named: Any) -> Any:
            if name in self.hangs:
                self.let_go.wait(HUNG)
            return found(*given, **named)

        return call


class Wall:
    """The present time, as the stages' clocks tell it."""

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000


class Reader:
    """A client of the streams function, in this process."""

    def __init__(self, app: Any, path: str) -> None:
        target, _, query = path.partition("?")
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "headers": [],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.body, self.leaves, self.reads = b"", asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.task = asyncio.create_task(app(self.scope, self.receive, self.send))

    @property
    def beats(self) -> int:
        return self.body.count(HEARTBEAT)

    async def receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.body += message.get("body", b"")


class Server:
    """The streams function over stores in memory."""

    def __init__(self) -> None:
        clock: Any = Wall()
        store = new_store(clock, QUICK)
        ports = {name: getattr(store, name) for name in PORTS}
        self.executions, self.outbox = Hanging(ports["executions"]), Hanging(ports["outbox"])
        self.agents = Hanging(ports["agents"])
        ports |= {"executions": self.executions, "outbox": self.outbox, "agents": self.agents}
        self.stage = KernelStage(QUICK, clock, SimpleNamespace(**ports))
        self.app: Any = None

    def read(self, path: str) -> Reader:
        return Reader(self.app, path)

    def is_alive(self, agent_id: str) -> bool:
        """Whether an agent's lease has been renewed since it connected, and holds."""
        found = self.stage.store.agents.find(agent_id, "one")
        return found is not None and found.is_open and found.lease_until_ms > self.stage.clock()

    def let_go(self) -> None:
        for port in (self.executions, self.outbox, self.agents):
            port.let_go.set()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with streams_function(made.stage, FakeHints()) as module:
        made.app = module.app
        yield made
        made.let_go()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(ENOUGH):
        while not holds():  # noqa: ASYNC110  # it becomes true in other tasks and threads
            await asyncio.sleep(0.01)


def played(server: Server, story: Callable[[], Any]) -> None:
    """Run a story; whatever becomes of it, nothing hangs afterwards."""

    async def whole() -> None:
        try:
            await story()
        finally:
            server.let_go()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    with suppress(asyncio.CancelledError):
        asyncio.run(whole())


def test_heartbeats_and_leases_do_not_wait_for_monitors_however_many_are_open(server):
    execution = server.stage.create()
    server.executions.hangs = {"events"}

    async def story() -> None:
        agent = server.read("/v0/agents/stream?agent_id=first&consumer_id=one")
        await until(lambda: PRELUDE in agent.body)
        monitors = [server.read(f"/v0/executions/{execution}/stream") for _ in range(MANY)]
        await until(lambda: all(PRELUDE in monitor.body for monitor in monitors[:4]))
        lasts = server.stage.clock() + 2 * QUICK.lease_ms

        await until(lambda: agent.beats >= 8 and monitors[0].beats >= 8 and server.stage.clock() > lasts)

        assert server.is_alive("first")

    played(server, story)


def test_an_agent_connects_while_every_look_of_the_monitors_hangs(server):
    execution = server.stage.create()
    server.executions.hangs = {"events"}

    async def story() -> None:
        monitors = [server.read(f"/v0/executions/{execution}/stream") for _ in range(MANY)]
        await until(lambda: PRELUDE in monitors[0].body)
        await asyncio.sleep(0.2)
        agent = server.read("/v0/agents/stream?agent_id=late&consumer_id=one")

        await until(lambda: PRELUDE in agent.body and agent.beats >= 3)

        assert server.is_alive("late")

    played(server, story)


def test_heartbeats_and_leases_do_not_wait_for_messages_and_offers(server):
    server.outbox.hangs, server.agents.hangs = {"messages"}, {"board", "waiting"}

    async def story() -> None:
        agents = [server.read(f"/v0/agents/stream?agent_id=a{number}&consumer_id=one") for number in range(MANY)]
        lasts = server.stage.clock() + 2 * QUICK.lease_ms

        await until(lambda: all(agent.beats >= 8 for agent in agents) and server.stage.clock() > lasts)
        await until(lambda: all(server.is_alive(f"a{number}") for number in range(MANY)))
        assert server.stage.clock() > lasts

    played(server, story)


def test_an_agent_that_reads_nothing_any_more_loses_its_session_as_one_that_has_left(server):
    async def story() -> None:
        stopped = server.read("/v0/agents/stream?agent_id=stopped&consumer_id=one")
        other = server.read("/v0/agents/stream?agent_id=other&consumer_id=one")
        await until(lambda: stopped.beats >= 2 and other.beats >= 2)
        assert server.is_alive("stopped")

        stopped.reads.clear()  # its process hangs, and what is written to it waits

        await until(lambda: not server.is_alive("stopped"))
        assert server.is_alive("other")
        stopped.reads.set()
        await until(lambda: server.is_alive("stopped"))

    played(server, story)


class Throttled:
    """A port that takes no writes for a while."""

    READS = ("find", "consumers", "board", "waiting", "sessions", "connections", "offering", "queued", "unclaimed")

    def __init__(self, port: Any) -> None:
        self._port, self.is_throttled = port, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)

        def call(*given: Any, **named: Any) -> Any:
            if self.is_throttled and name not in (*self.READS, "read", "view", "events", "history", "messages", "ripe"):
                raise Unavailable("the kernel table")
            return found(*given, **named)

        return call


class Busy:
    """A stage whose table is throttled for a while."""

    def __init__(self) -> None:
        whole = KernelStage()
        self.ports = {name: Throttled(getattr(whole.store, name)) for name in PORTS}
        self.stage = KernelStage(whole.settings, whole.clock, SimpleNamespace(**self.ports))

    def throttle(self, seconds: float) -> None:
        """The table takes no writes for so long; everybody goes on trying."""
        for port in self.ports.values():
            port.is_throttled = True
        self.stage.pass_time(seconds)
        for port in self.ports.values():
            port.is_throttled = False


@pytest.mark.parametrize("seconds", [7, 13, 28, 45])
def test_a_session_whose_stream_is_open_outlasts_a_throttled_table(seconds):
    busy = Busy()
    agent, execution = busy.stage.agent(), busy.stage.create()
    session = agent.take("execution.assigned")

    busy.throttle(seconds)
    busy.stage.pass_time(20)

    assert busy.stage.types(execution) == ["execution.created", "execution.started"]
    assert busy.stage.intend(session, "wait", signal_type="go") == {"accepted": True}
    assert len(agent.beats) == (seconds + 20) // 5


@pytest.mark.parametrize("seconds", [13, 28, 45])
def test_a_job_in_the_hand_of_an_open_stream_outlasts_a_throttled_table(seconds):
    busy = Busy()
    agent, runner = busy.stage.agent(), busy.stage.runner()
    busy.stage.create()
    busy.stage.invoke(agent.take("execution.assigned"), remote=True)
    job = runner.take("job.assigned")

    busy.throttle(seconds)
    busy.stage.pass_time(20)
    busy.stage.finish(job)
    busy.stage.pass_time(1)

    assert [each["id"] for each in runner.of("job.assigned")] == [job["id"]]
    assert len(agent.of("tool.result")) == 1


def test_a_stream_whose_process_died_while_the_table_was_throttled_is_lost_all_the_same():
    busy = Busy()
    agent, execution = busy.stage.agent(), busy.stage.create()
    agent.look()
    busy.stage.lines.remove(agent)

    busy.throttle(30)
    busy.stage.pass_time(3.5)

    assert busy.stage.types(execution)[-1] == "execution.reset"


def test_a_connection_that_shows_no_life_is_lost_after_twelve_seconds_as_ever():
    stage = KernelStage()
    agent, runner = stage.agent(), stage.runner()
    execution = stage.create()
    stage.invoke(agent.take("execution.assigned"), remote=True)
    runner.take("job.assigned")
    stage.pass_time(7)
    since = stage.clock()
    for line in (agent, runner):
        stage.lines.remove(line)

    stage.pass_time(12, until=lambda: stage.status(execution) is Status.PENDING)

    assert stage.clock() - since <= 12_000
    assert stage.store.runners.find(Connection("geo-1", "one")).doubted_until_ms


def test_an_agent_that_calls_under_a_session_nobody_ended_is_alive():
    busy = Busy()
    agent, execution = busy.stage.agent(), busy.stage.create()
    session = agent.take("execution.assigned")
    busy.stage.lines.remove(agent)  # its server is busy: no lease, no sweep
    busy.stage.clock.move(50)

    answer = busy.stage.kernel.intent(execution, session["session_id"], Intent("wait", signal_type="go"))

    assert answer == {"accepted": True}


class Noting:
    """An agents' port that notes how many leases are renewed at once, and refuses some requests."""

    def __init__(self, agents: Any) -> None:
        self._agents, self.asked, self.refuses = agents, list[int](), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agents, name)

    def refresh_all(self, consumers: Any, until_ms: int) -> Any:
        self.asked.append(len(consumers))
        if self.refuses:
            self.refuses -= 1
            raise Unavailable("the kernel table")
        return self._agents.refresh_all(consumers, until_ms)


def test_the_leases_of_many_streams_share_a_request_and_are_tried_in_smaller_groups_after_a_failure():
    whole = KernelStage()
    ports = {name: getattr(whole.store, name) for name in PORTS}
    ports["agents"] = agents = Noting(ports["agents"])
    stage = KernelStage(whole.settings, whole.clock, SimpleNamespace(**ports))
    lines = [stage.agent(consumer_id=f"c{number}") for number in range(120)]
    streams = [line.stream for line in lines]
    keeper = stage.streams.keeper()
    keeper.keep(streams)
    assert agents.asked == []

    stage.clock.move(5)
    agents.refuses = 1
    keeper.keep(streams)
    assert agents.asked == [100, 20]
    keeper.keep(streams)
    assert agents.asked[2:] == [100]
    keeper.keep(streams)
    assert len(agents.asked) == 3

    stage.clock.move(5)
    agents.asked, agents.refuses = [], 3
    keeper.keep(streams)
    keeper.keep(streams)
    assert agents.asked == [100, 20, 25, 12, 24, 48, 11]


def test_an_old_stream_of_a_consumer_that_came_again_keeps_no_lease_from_being_renewed():
    stage = KernelStage()
    lines = [stage.agent(consumer_id=f"c{number}") for number in range(8)] + [stage.runner()]
    again = [stage.agent(consumer_id="c3"), stage.runner()]  # the first ones hang in a look, and cannot end
    streams = [line.stream for line in (*lines, *again)]
    keeper = stage.streams.keeper()
    stage.clock.move(5)

    replaced = keeper.keep(streams)

    assert replaced == [lines[3].stream, lines[8].stream]
    renewed = [stage.store.agents.find("triage", f"c{number}") for number in range(8)]
    renewed.append(stage.store.runners.find(Connection("geo-1", "one")))
    assert {found.lease_until_ms for found in renewed} == {stage.clock() + stage.settings.lease_ms}
    assert all(stream.step().ends for stream in replaced)


def test_a_stream_that_another_process_replaced_ends_when_its_lease_is_due():
    stage = KernelStage()
    first = stage.agent()
    stage.copy().streams.agent("triage", "one")
    assert not first.has_ended

    stage.pass_time(5.25)

    assert first.has_ended


def test_rules_of_leases_leave_time_for_a_second_try():
    settings = replace(KernelSettings())

    assert settings.heartbeat_ms * 2 < settings.lease_ms
