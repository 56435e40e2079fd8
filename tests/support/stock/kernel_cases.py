"""Ten ways to use the kernel door through a public SDK; `rebuno_048.py` and `rebuno_020.py` bring the SDK.

A case prints `ok <name>` or `FAIL <name> <why>`, the last line counts them, and the exit status is 0 when all passed.
"""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

ADD, SHAKY, SLOW, UPPER, BROKEN, GATED, FORBIDDEN = (
    "interop_sum",
    "interop_flaky",
    "interop_slow",
    "interop_upper",
    "interop_boom",
    "interop_gated",
    "interop_forbidden",
)
PATIENCE_SECONDS = 90.0  # a busy machine is slow; nothing here is measured


class Sdk(Protocol):
    """What the cases need of a client, whatever its SDK calls it."""

    async def create(self, agent: str, given: Mapping[str, Any], labels: Mapping[str, str]) -> str: ...
    async def get(self, execution: str) -> Any: ...
    async def cancel(self, execution: str) -> Any: ...
    async def signal(self, execution: str, kind: str, payload: Any) -> Any: ...
    async def log(self, execution: str) -> list[Any]: ...
    def follow(self, execution: str) -> AsyncIterator[Any]: ...
    async def labelled(self, agent: str, labels: Mapping[str, str]) -> list[Any]: ...
    async def tools(self, prefix: str) -> list[str] | None: ...


@dataclass
class Suite:
    """The cases against one agent and one runner."""

    sdk: Sdk
    agent: str

    async def local(self) -> None:
        execution = await self.sdk.create(self.agent, {"mode": "local", "text": "abc"}, {"suite": "interop"})

        seen = [event.type async for event in self.sdk.follow(execution)]

        assert (await self.sdk.get(execution)).output == {"upper": "ABC"}
        assert seen == [
            "execution.created",
            "execution.started",
            "intent.accepted",
            "step.created",
            "step.completed",
            "intent.accepted",
            "execution.completed",
        ]

    async def remote(self) -> None:
        ended = await self.ended({"mode": "remote"})

        assert ended.output == {"sum": 5}
        assert {"step.dispatched", "step.started"} <= set(await self.types(ended.id))

    async def parallel(self) -> None:
        ended = await self.ended({"mode": "parallel"})

        assert ended.output == {"all": [{"sum": 0}, {"sum": 2}, {"sum": 4}, {"sum": 6}]}

    async def flaky(self) -> None:
        ended = await self.ended({"mode": "flaky"})

        assert ended.output == {"tries": 2}
        assert "step.retried" in await self.types(ended.id)

    async def boom(self) -> None:
        ended = await self.ended({"mode": "boom"})

        assert ended.status == "failed"
        assert (await self.sdk.log(ended.id))[-1].payload == {"error": "boom"}

    async def denied(self) -> None:
        ended = await self.ended({"mode": "denied"})

        assert "interop default deny" in ended.output["refused"]

    async def gated(self) -> None:
        for approved in (True, False):
            execution = await self.sdk.create(self.agent, {"mode": "gated"}, {})
            asked = await self.until(execution, "step.approval_required")
            assert (await self.sdk.get(execution)).status == "blocked"

            await self.sdk.signal(execution, "step.approve", {"step_id": asked.step_id, "approved": approved})

            output = (await self.end_of(execution)).output
            assert output == {"x": 7} if approved else set(output) == {"refused"}

    async def signal(self) -> None:
        execution = await self.sdk.create(self.agent, {"mode": "signal"}, {})
        await self.until(execution, "execution.blocked")

        await self.sdk.signal(execution, "go", {"n": 1})

        assert (await self.end_of(execution)).output == {"got": {"n": 1}}

    async def cancel(self) -> None:
        execution = await self.sdk.create(self.agent, {"mode": "sleep"}, {})
        await self.until(execution, "execution.started")

        assert (await self.sdk.cancel(execution)).status == "cancelled"

    async def directory(self) -> None:
        assert len(await self.sdk.labelled(self.agent, {"suite": "interop"})) == 1
        offered = await self.sdk.tools("interop")
        assert offered is None or ADD in offered

    async def rotated(self) -> None:
        """A remote step that outlasts the agent's stream, where the door ends streams on purpose."""
        ended = await self.ended({"mode": "slow", "seconds": 8})

        assert ended.output == {"slept": 8}
        assert "execution.reset" not in await self.types(ended.id)

    async def survived(self) -> None:
        """An execution during which a copy of the door is killed, as the order's caller does when it reads `begun`."""
        execution = await self.sdk.create(self.agent, {"mode": "steady", "seconds": 10}, {})
        await self.until(execution, "step.completed")
        print(f"begun {execution}", flush=True)

        assert (await self.end_of(execution)).output == {"slept": 10}
        types = await self.types(execution)
        assert types.count("execution.started") == 1, types
        assert not {"agent.timeout", "execution.reset"} & set(types), types

    async def stay(self) -> None:
        """Only serve."""
        await asyncio.Event().wait()

    async def ended(self, given: Mapping[str, Any]) -> Any:
        return await self.end_of(await self.sdk.create(self.agent, given, {}))

    async def end_of(self, execution: str) -> Any:
        async for _ in self.sdk.follow(execution):
            pass
        return await self.sdk.get(execution)

    async def types(self, execution: str) -> list[str]:
        return [event.type for event in await self.sdk.log(execution)]

    async def until(self, execution: str, kind: str) -> Any:
        while True:
            for event in await self.sdk.log(execution):
                if event.type == kind:
                    return event
            await asyncio.sleep(0.1)


CASES = ("local", "remote", "parallel", "flaky", "boom", "denied", "gated", "signal", "cancel", "directory")


@dataclass
class Order:
    """What the command line asks for: `rebuno_…py '{"agents": url, "runners": url, "clients": url, "token": …}'`."""

    agents: str
    runners: str
    clients: str
    token: str
    cases: tuple[str, ...] = CASES
    agent: str = ""
    consumer: str = ""
    agents_token: str = ""  # where each has one of its own
    runners_token: str = ""
    clients_token: str = ""

    @classmethod
    def read(cls) -> "Order":
        order = cls(**json.loads(sys.argv[1]))
        order.cases = tuple(order.cases)
        order.agents_token = order.agents_token or order.token
        order.runners_token = order.runners_token or order.token
        order.clients_token = order.clients_token or order.token
        order.agent = order.agent or f"interop-{uuid.uuid4().hex[:8]}"
        return order


async def run(order: Order, sdk: Sdk, serving: list[Awaitable[None]]) -> int:
    """Run the ordered cases beside an agent and a runner; the exit status."""
    beside = [asyncio.ensure_future(each) for each in serving]
    suite, failed = Suite(sdk, order.agent), 0
    for name in order.cases:
        began = time.monotonic()
        try:
            case: Callable[[], Awaitable[None]] = getattr(suite, name)
            await asyncio.wait_for(case(), PATIENCE_SECONDS)
            print(f"ok {name} {time.monotonic() - began:.1f}s", flush=True)
        except Exception as error:  # noqa: BLE001  # whatever went wrong is the case's verdict
            failed += 1
            print(f"FAIL {name} {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{len(order.cases) - failed} passed, {failed} failed", flush=True)
    for each in beside:
        each.cancel()
    for each in beside:
        with contextlib.suppress(asyncio.CancelledError):
            await each
    return 1 if failed else 0
