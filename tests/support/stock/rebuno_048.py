"""An agent, a runner and a client with the stock SDK rebuno 0.4.8; runs in an environment of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kernel_cases import ADD, BROKEN, FORBIDDEN, GATED, SHAKY, SLOW, UPPER, Order, run
from rebuno import Agent, Client, PolicyError, Runner, ToolError, execution, tool

tries = 0


@tool(UPPER)
async def upper(text: str) -> dict[str, str]:
    """Text in capitals."""
    return {"upper": text.upper()}


@tool(BROKEN)
async def boom() -> dict[str, str]:
    """Fails."""
    raise RuntimeError("boom")


@tool(GATED)
async def gated(x: int) -> dict[str, int]:
    """Needs a person's yes."""
    return {"x": x}


@tool(FORBIDDEN)
async def forbidden() -> dict[str, str]:
    """No rule allows it."""
    return {}


@tool(ADD, remote=True)
async def far_add(a: int, b: int) -> dict[str, int]:
    """The runner's sum, as the agent calls it."""
    raise NotImplementedError


@tool(SHAKY, remote=True)
async def far_shaky() -> dict[str, int]:
    """The runner's unreliable tool, as the agent calls it."""
    raise NotImplementedError


@tool(SLOW, remote=True)
async def far_slow(seconds: float) -> dict[str, float]:
    """The runner's slow tool, as the agent calls it."""
    raise NotImplementedError


@tool(SLOW)
async def slow(seconds: float) -> dict[str, float]:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return {"slept": seconds}


@tool(ADD)
def add(a: int, b: int) -> dict[str, int]:
    """Two numbers together."""
    return {"sum": a + b}


@tool(SHAKY)
async def shaky() -> dict[str, int]:
    """Works the second time."""
    global tries  # noqa: PLW0603  # a tool is a function, and this one counts
    tries += 1
    if tries == 1:
        raise ToolError("try me again", retryable=True)
    return {"tries": tries}


async def handler(mode: str, text: str = "hi", seconds: float = 30.0) -> Any:
    """What the agent does, by the input's `mode`."""
    plain = {"remote": lambda: far_add(a=2, b=3), "flaky": far_shaky, "boom": boom, "local": lambda: upper(text=text)}
    guarded = {"denied": forbidden, "gated": lambda: gated(x=7)}
    if mode in plain:
        return await plain[mode]()
    if mode == "slow":
        return await far_slow(seconds=seconds)
    if mode == "parallel":
        return {"all": await asyncio.gather(*[far_add(a=i, b=i) for i in range(4)])}
    if mode == "signal":
        return {"got": await execution.wait_signal("go")}
    if mode == "steady":
        await upper(text=text)
    if mode in ("sleep", "steady"):
        await asyncio.sleep(seconds)
        return {"slept": seconds}
    try:
        return await guarded[mode]()
    except PolicyError as error:
        return {"refused": str(error)}


class Sdk048:
    """The cases' client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, agent: str, given: Mapping[str, Any], labels: Mapping[str, str]) -> str:
        return str((await self._client.create(agent, input=dict(given), labels=dict(labels))).id)

    async def get(self, execution: str) -> Any:
        return await self._client.get(execution)

    async def cancel(self, execution: str) -> Any:
        return await self._client.cancel(execution)

    async def signal(self, execution: str, kind: str, payload: Any) -> Any:
        return await self._client.send_signal(execution, kind, payload)

    async def log(self, execution: str) -> list[Any]:
        return list(await self._client.events_snapshot(execution, limit=1000))

    def follow(self, execution: str) -> AsyncIterator[Any]:
        return self._client.events(execution)

    async def labelled(self, agent: str, labels: Mapping[str, str]) -> list[Any]:
        return list((await self._client.list(agent_id=agent, labels=dict(labels), limit=1)).executions)

    async def tools(self, prefix: str) -> list[str] | None:
        return [each["id"] for each in await self._client.list_tools(prefix=prefix)]


async def main() -> int:
    """Run the ordered cases."""
    order = Order.read()
    agent = Agent(order.agent, kernel_url=order.agents, api_key=order.agents_token, consumer_id=order.consumer)
    offered = [add, shaky, slow]
    runner = Runner(f"r-{order.agent}", kernel_url=order.runners, api_key=order.runners_token, tools=offered)
    async with Client(base_url=order.clients, api_key=order.clients_token) as client:
        return await run(order, Sdk048(client), [agent.run_async(handler), runner.run_async()])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
