"""The time from `execution.started` to its frame at a connected agent, and from an event to its frame at a monitor.

Everything runs as `make run` starts it: the gateway, a process per function, the embedded AWS; a hundred idle agents
hold their streams over HTTP. The process that creates has no thread in common with the one that holds the streams, so
the way is the deployed one. Both clocks are this machine's. The load is bounded: ten creates a second, a fixed number.

Beside the load a probe reads one row, so that a reader can tell the emulator's part: an assignment is four requests
from the commit to the frame.
"""

import asyncio
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from statistics import median, quantiles
from typing import Any, Final

from bench.cold.starts import BenchFailed
from bench.gateway.load import TIMEOUT_SECONDS, gateway
from bench.worker.hiring import deployed
from local.aws import client
from local.gateway.lambdas.variables import PARAMETER_PREFIX

AGENTS: Final = 100
GAP_SECONDS: Final = 0.1  # between creates, and between signals, on average
SHORTEST, LONGEST = 0.5, 1.5  # gaps, of that: even ones would always meet the streams' own intervals at the same point
IDLE_CREATES: Final = 200  # each agent gets one in ten seconds
ACTIVE_AGENTS: Final = 10  # get one a second
ACTIVE_CREATES: Final = 150
MONITORS: Final = 20
QUIET_SECONDS: Final = 7.0  # after which an agent or an execution counts as idle
MOST_SECONDS: Final = 60.0  # for frames to come
PROBE_SECONDS: Final = 0.25
WRITERS: Final = 4
DOOR: Final = {
    f"{PARAMETER_PREFIX}DeployKernelDoor": "true",
    f"{PARAMETER_PREFIX}KernelRotation": "0",
    "PIECEWORK_POLICY_DEFAULT": "permissive",
}


def measure(endpoint: str) -> dict[str, float]:
    """Milliseconds of assignments and of monitors' events, and of one small read beside them."""
    with gateway(endpoint, "KernelApi", DOOR) as port, _Probe(endpoint) as probe:
        found = asyncio.run(_measured(port))
    return {**found, "assign_emulator_read_ms": round(median(probe.took), 1)}


_Pair = tuple[list[float], list[float]]


@dataclass
class _Stream:
    """A stream as its client reads it: each frame with its time."""

    path: str
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    frames: list[tuple[Any, float]] = field(default_factory=list)

    async def read(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                if line.startswith(b"retry:"):
                    self.is_open.set()
                elif line.startswith(b"data: "):
                    self.frames.append((json.loads(line[6:]), time.time() * 1000))
        finally:
            writer.close()


class _Door:
    """The kernel door's API: calls at a steady rate, each from the first thread that is free."""

    def __init__(self, port: int) -> None:
        self._port, self._threads, self._own = port, ThreadPoolExecutor(WRITERS), threading.local()

    async def at_rate(self, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """The answers to calls that begin a gap apart."""
        loop, begun = asyncio.get_running_loop(), list[asyncio.Future[Any]]()
        gaps = random.Random(0)  # noqa: S311  # the same ones in each run; guards nothing
        at = loop.time()
        for call in calls:
            begun.append(loop.run_in_executor(self._threads, call))
            at += GAP_SECONDS * gaps.uniform(SHORTEST, LONGEST)
            await asyncio.sleep(at - loop.time())
        return await asyncio.gather(*begun)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One answer."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.send, method, path, body)

    async def complete(self, assigned: Any) -> None:
        """End an execution for its agent, so that its deadlines do not disturb what follows."""
        ids = {name: assigned[name] for name in ("execution_id", "session_id")}
        await self.ask("POST", "/v0/agents/intent", {**ids, "intent": {"type": "complete"}})

    def create(self, agent: int) -> tuple[str, float]:
        """A new execution's id, and when the answer came."""
        made = self.send("POST", "/v0/executions", {"agent_id": f"bench-{agent}"})
        return str(made["id"]), time.time() * 1000

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """One answer, in the calling thread."""
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
        text = None if body is None else json.dumps(body)
        self._own.connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = self._own.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise BenchFailed(f"{path} answered {answer.status}: {content[:500]!r}")
        return json.loads(content) if content else None


class _Probe:
    """Reads one row of a small table again and again."""

    def __init__(self, endpoint: str) -> None:
        self.took: list[float] = []
        self._dynamodb, self._table = client("dynamodb", endpoint), deployed().physical_name("KernelTable")
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Probe":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        key = {"pk": {"S": "bench"}, "sk": {"S": "-"}}
        while not self._ends.wait(PROBE_SECONDS):
            began = time.perf_counter()
            self._dynamodb.get_item(TableName=self._table, Key=key)
            self.took.append((time.perf_counter() - began) * 1000)


async def _measured(port: int) -> dict[str, float]:
    door = _Door(port)
    async with asyncio.TaskGroup() as streams:
        reading = list[asyncio.Task[None]]()

        async def opened(paths: Iterable[str]) -> list[_Stream]:
            made = [_Stream(path) for path in paths]
            for stream in made:
                reading.append(streams.create_task(stream.read(port)))
                await asyncio.wait_for(stream.is_open.wait(), MOST_SECONDS)
            return made

        agents = await opened(f"/v0/agents/stream?agent_id=bench-{number}&consumer_id=one" for number in range(AGENTS))
        await asyncio.sleep(QUIET_SECONDS)
        idle = await _assigned(door, agents, _rounds(range(AGENTS), IDLE_CREATES))
        busy = await _assigned(door, agents, _rounds(range(ACTIVE_AGENTS), ACTIVE_CREATES))
        active = busy[0][ACTIVE_AGENTS:], busy[1][ACTIVE_AGENTS:]  # the first of each finds it idle
        executions = [execution for execution, _ in await door.at_rate(_creates(door, range(MONITORS)))]
        monitors = await opened(f"/v0/executions/{execution}/stream" for execution in executions)
        seen = await _followed(door, executions, monitors)
        for task in reading:
            task.cancel()
    return _figures(idle, active, seen)


def _rounds(agents: Sequence[int], count: int) -> list[int]:
    """Each agent once, then each once more, in an order that says nothing about when the next one comes."""
    order = random.Random(0).sample(agents, len(agents))  # noqa: S311  # a fixed order; guards nothing
    return [order[number % len(order)] for number in range(count)]


async def _assigned(door: _Door, agents: list[_Stream], order: list[int]) -> _Pair:
    """Of each create, milliseconds from `execution.started`, and from the answer, to the agent's frame."""
    made = await door.at_rate(_creates(door, order))
    frames: dict[str, tuple[Any, float]] = {}

    def have_come() -> bool:
        frames.update({data["execution_id"]: (data, at) for agent in agents for data, at in agent.frames})
        return all(execution in frames for execution, _ in made)

    await _until(have_come)
    started = [await _started(door, execution) for execution, _ in made]
    await asyncio.gather(*(door.complete(frames[execution][0]) for execution, _ in made))
    return (
        [frames[execution][1] - at for (execution, _), at in zip(made, started, strict=True)],
        [frames[execution][1] - at for execution, at in made],
    )


def _creates(door: _Door, order: Iterable[int]) -> list[Callable[[], tuple[str, float]]]:
    return [partial(door.create, agent) for agent in order]


async def _started(door: _Door, execution: str) -> float:
    page = await door.ask("GET", f"/v0/executions/{execution}/events")
    return next(_time(event) for event in page["events"] if event["type"] == "execution.started")


async def _followed(door: _Door, executions: list[str], monitors: list[_Stream]) -> _Pair:
    """Milliseconds from a signal's event to its frame: of the first after a quiet time, and of those that follow."""
    await asyncio.sleep(QUIET_SECONDS)
    before = [len(monitor.frames) for monitor in monitors]
    signals = [f"/v0/executions/{execution}/signal" for execution in executions] * 4
    body = {"signal_type": "bench", "payload": {}}
    await door.at_rate([partial(door.send, "POST", path, body) for path in signals])
    await _until(lambda: all(len(one.frames) >= had + 4 for one, had in zip(monitors, before, strict=True)))
    took = [
        [at - _time(event) for event, at in monitor.frames[had:]] for monitor, had in zip(monitors, before, strict=True)
    ]
    return [times[0] for times in took], [one for times in took for one in times[1:]]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(MOST_SECONDS):
        while not holds():  # noqa: ASYNC110  # other tasks make it true
            await asyncio.sleep(0.1)


def _time(event: Any) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp() * 1000


def _figures(idle: _Pair, active: _Pair, seen: _Pair) -> dict[str, float]:
    return {
        "assign_p50_ms": round(median(idle[0]), 1),
        "assign_p99_ms": round(quantiles(idle[0], n=100)[98], 1),
        "assign_after_answer_p50_ms": round(median(idle[1]), 1),
        "assign_active_p50_ms": round(median(active[0]), 1),
        "assign_active_after_answer_p50_ms": round(median(active[1]), 1),
        "monitor_p50_ms": round(median(seen[1]), 1),
        "monitor_idle_p50_ms": round(median(seen[0]), 1),
    }
