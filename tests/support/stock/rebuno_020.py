"""An agent, a runner and a client with the stock SDK rebuno 0.2.0; runs in an environment of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kernel_cases import ADD, BROKEN, FORBIDDEN, GATED, SHAKY, SLOW, UPPER, Order, run
from rebuno import AsyncAgentContext, AsyncBaseAgent, AsyncBaseRunner, AsyncRebunoClient, PolicyError, ToolError

TERMINAL = {"execution.completed", "execution.failed", "execution.cancelled"}


class Worker(AsyncBaseAgent):
    """What the agent does, by the input's `mode`."""

    async def process(self, ctx: AsyncAgentContext) -> Any:
        """One execution."""
        mode = ctx.input["mode"]
        called = {"remote": (ADD, {"a": 2, "b": 3}), "flaky": (SHAKY, {}), "boom": (BROKEN, {})}
        guarded = {"denied": (FORBIDDEN, {}), "gated": (GATED, {"x": 7})}
        if mode == "local":
            return await ctx.invoke_tool(UPPER, {"text": ctx.input["text"]})
        if mode == "slow":
            return await ctx.invoke_tool(SLOW, {"seconds": ctx.input["seconds"]})
        if mode == "parallel":
            return {"all": await asyncio.gather(*[ctx.invoke_tool(ADD, {"a": i, "b": i}) for i in range(4)])}
        if mode == "signal":
            return {"got": await ctx.wait_signal("go")}
        if mode == "sleep":
            await asyncio.sleep(ctx.input.get("seconds", 30.0))
            return {"slept": ctx.input.get("seconds")}
        if mode in called:
            return await ctx.invoke_tool(*called[mode])
        try:
            return await ctx.invoke_tool(*guarded[mode])
        except PolicyError as error:
            return {"refused": str(error)}


class Tools(AsyncBaseRunner):
    """The runner's two tools."""

    tries = 0

    async def execute(self, tool_id: str, arguments: Any) -> Any:
        """One job."""
        if tool_id == ADD:
            return {"sum": arguments["a"] + arguments["b"]}
        if tool_id == SLOW:
            await asyncio.sleep(arguments["seconds"])
            return {"slept": arguments["seconds"]}
        self.tries += 1
        if self.tries == 1:
            raise ToolError("try me again", retryable=True)
        return {"tries": self.tries}


class Sdk020:
    """The cases' client."""

    def __init__(self, client: AsyncRebunoClient) -> None:
        self._client = client

    async def create(self, agent: str, given: Mapping[str, Any], labels: Mapping[str, str]) -> str:
        return str((await self._client.create_execution(agent, dict(given), dict(labels))).id)

    async def get(self, execution: str) -> Any:
        return await self._client.get_execution(execution)

    async def cancel(self, execution: str) -> Any:
        return await self._client.cancel_execution(execution)

    async def signal(self, execution: str, kind: str, payload: Any) -> Any:
        return await self._client.send_signal(execution, kind, payload)

    async def log(self, execution: str) -> list[Any]:
        return list((await self._client.get_events(execution, limit=1000)).events)

    async def follow(self, execution: str) -> AsyncIterator[Any]:
        async for event in self._client.stream_events(execution):
            yield event
            if event.type in TERMINAL:
                return

    async def labelled(self, agent: str, labels: Mapping[str, str]) -> list[Any]:
        return list((await self._client.list_executions(agent_id=agent, labels=dict(labels), limit=1)).executions)

    async def tools(self, prefix: str) -> list[str] | None:
        return None  # this version knows no directory


def serving(order: Order) -> tuple[Worker, Tools]:
    """The agent with its local tools, and the runner."""
    agent = Worker(order.agent, order.agents, api_key=order.agents_token, consumer_id=order.consumer)

    @agent.tool(UPPER)
    async def upper(text: str) -> dict[str, str]:
        return {"upper": text.upper()}

    @agent.tool(BROKEN)
    async def boom() -> None:
        raise RuntimeError("boom")

    @agent.tool(GATED)
    async def gated(x: int) -> dict[str, int]:
        return {"x": x}

    @agent.tool(FORBIDDEN)
    async def forbidden() -> dict[str, str]:
        return {}

    offered = [ADD, SHAKY, SLOW]
    return agent, Tools(f"r-{order.agent}", order.runners, capabilities=offered, api_key=order.runners_token)


async def main() -> int:
    """Run the ordered cases."""
    order = Order.read()
    agent, runner = serving(order)
    async with AsyncRebunoClient(order.clients, api_key=order.clients_token) as client:
        return await run(order, Sdk020(client), [agent.run(), runner.run()])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
