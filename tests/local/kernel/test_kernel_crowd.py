"""Many streams on one machine, in real processes: five hundred agents and five hundred monitors at once."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

AGENTS = 500
MONITORS = 500
EXECUTIONS = 32
OPEN_SECONDS = 240
HELD_SECONDS = 30
APART_SECONDS = 6.0
BEAT = b":heartbeat"


@dataclass
class Reading:
    """One stream as its client reads it."""

    path: str
    beats: list[float] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)
    is_open: bool = False
    has_ended: bool = False

    async def read(self, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"GET {self.path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                self._line(line.strip())
        finally:
            self.has_ended = True
            writer.close()

    def _line(self, line: bytes) -> None:
        if line.startswith(b"retry:"):
            self.is_open = True
            self.beats.append(time.monotonic())  # the first heartbeat comes an interval after the opening
        elif line == BEAT:
            self.beats.append(time.monotonic())
        elif line.startswith(b"data: "):
            self.frames.append(json.loads(line[6:]))

    def worst_gap(self, since: float, until: float) -> float:
        moments = [since, *(beat for beat in self.beats if beat >= since), until]
        return max(later - earlier for earlier, later in pairwise(moments))


async def until(holds: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # other tasks make it true
            await asyncio.sleep(0.1)


class Door:
    """The kernel door's API."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._http.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def create(self, number: int) -> str:
        return str((await self.ask("POST", "/v0/executions", {"agent_id": f"crowd-{number}"}))["id"])

    async def complete(self, session: Any) -> None:
        ids = {"execution_id": session["execution_id"], "session_id": session["session_id"]}
        await self.ask("POST", "/v0/agents/intent", {**ids, "intent": {"type": "complete"}})

    async def types(self, execution_id: str) -> list[str]:
        page = await self.ask("GET", f"/v0/executions/{execution_id}/events")
        return [event["type"] for event in page["events"]]

    async def close(self) -> None:
        await self._http.aclose()


async def crowd(url: str) -> tuple[list[Reading], float, list[list[str]]]:
    """All streams are opened and held; every execution that was given meanwhile is completed at the end."""
    door, place = Door(url), urlsplit(url)
    tasks: list[asyncio.Task[None]] = []

    def opened(paths: list[str]) -> list[Reading]:
        made = [Reading(path) for path in paths]
        tasks.extend(asyncio.create_task(one.read(str(place.hostname), int(place.port or 0))) for one in made)
        return made

    try:
        agents = opened([f"/v0/agents/stream?agent_id=crowd-{number}&consumer_id=one" for number in range(AGENTS)])
        await until(lambda: all(agent.is_open for agent in agents), OPEN_SECONDS)
        executions = [await door.create(number) for number in range(EXECUTIONS)]
        monitors = opened([f"/v0/executions/{executions[n % EXECUTIONS]}/stream" for n in range(MONITORS)])
        await until(lambda: all(monitor.is_open for monitor in monitors), OPEN_SECONDS)
        await until(lambda: all(agent.frames for agent in agents[:EXECUTIONS]), OPEN_SECONDS)
        all_are_open = time.monotonic()
        await asyncio.sleep(HELD_SECONDS)
        until_then = time.monotonic()
        streams = [*agents, *monitors]
        gaps = max(stream.worst_gap(all_are_open, until_then) for stream in streams)
        assert [stream.path for stream in streams if stream.has_ended] == []
        await asyncio.gather(*(door.complete(agent.frames[0]) for agent in agents[:EXECUTIONS]))
        logs = [await door.types(execution) for execution in executions]
        return streams, gaps, logs
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await door.close()


@pytest.mark.slow
def test_five_hundred_agents_and_five_hundred_monitors_keep_their_heartbeats_and_no_execution_is_reset(own_gateway):
    gateway = own_gateway(
        api="KernelApi",
        fresh=True,
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_KernelRotation="0",  # as `make run` has it; these clients do not come again
        PIECEWORK_POLICY_DEFAULT="permissive",
    )

    streams, gap, logs = asyncio.run(crowd(gateway.url))

    assert len(streams) == AGENTS + MONITORS
    print(f"the longest time between two heartbeats of a stream was {gap:.2f} s")
    assert gap <= APART_SECONDS, gap
    assert logs == [["execution.created", "execution.started", "intent.accepted", "execution.completed"]] * EXECUTIONS
