"""GET /v0/agents/stream, /v0/runners/stream, /v0/executions/{id}/stream: FastAPI under the Lambda Web Adapter."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import FastAPI, Request, Response

from kernel.streams.door import after, ids, tools
from kernel.streams.serving import SWITCH_SECONDS, EventStream, StreamHub
from piecework.edge.roles import Caller
from piecework.errors import PieceworkError
from piecework.kernel.edge import allowed_origin, authorize, line, refusal_of, request_id
from piecework.kernel.needs import APPROVERS, STREAMS, check
from piecework.kernel.streams.hints import Key, agent_key, monitor_key, runner_key
from piecework.kernel.streams.monitor import Monitor
from piecework.kernel.streams.opening import Stream
from piecework.kernel.wiring import KernelDoor

MONITOR_PATH: Final = "/v0/executions/{execution_id}/stream"

sys.setswitchinterval(SWITCH_SECONDS)
hub = StreamHub()
door = KernelDoor(hears=[hub.wake_for]).ready("streams")
hub.listen_to(door.hints)
hub.keep(door.streams.keeper().keep)
app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/healthz")
async def healthz() -> dict[str, bool]:
    """That the function runs; the adapter asks before the first request."""
    return {"ok": True}


@app.get("/v0/agents/stream")
async def agent(request: Request) -> Response:
    """The stream of an agent's process."""

    def opened(caller: Caller) -> tuple[Key, Stream, Callable[[], None]]:
        agent_id, consumer_id = ids(request, "agent_id", "consumer_id")
        look = partial(door.streams.check_agent, agent_id, consumer_id)
        return agent_key(agent_id, consumer_id), door.streams.agent(agent_id, consumer_id, caller.name), look

    return await _answer(request, opened)


@app.get("/v0/runners/stream")
async def runner(request: Request) -> Response:
    """The stream of a runner's process."""

    def opened(_: Caller) -> tuple[Key, Stream, Callable[[], None]]:
        runner_id, consumer_id = ids(request, "runner_id", "consumer_id")
        offered = tools(request)
        look = partial(door.streams.check_runner, runner_id, consumer_id)
        stream = door.streams.runner(runner_id, consumer_id, offered)
        return runner_key(runner_id, consumer_id), stream, look

    return await _answer(request, opened)


@app.get(MONITOR_PATH)
async def monitor(request: Request, execution_id: str) -> Response:
    """The stream of an execution's log."""

    def opened(caller: Caller) -> tuple[Key, Stream, None]:
        looked = partial(_note_look, execution_id, caller) if caller.may(APPROVERS) else None
        return monitor_key(execution_id), door.streams.monitor(execution_id, after(request), looked), None

    return await _answer(request, opened, "join")


def _note_look(execution_id: str, caller: Caller) -> None:
    """Write the line of an approver's look at private arguments; streams have no other line."""
    facts = {"caller": caller.name or None, "execution_id": execution_id, "shows": "private arguments"}
    door.telemetry.outcome("kernel", {"route": f"GET {MONITOR_PATH}", **facts}, {})


async def _answer(
    request: Request, opened: Callable[[Caller], tuple[Key, Stream, Callable[[], None] | None]], path: str = "open"
) -> Response:
    given = request.headers
    allowed = allowed_origin(given.get("origin", ""), door.origins)
    headers = {"X-Request-ID": request_id(given.get("x-request-id", "")), **allowed}
    try:
        name = authorize(given.get("authorization", ""), await hub.look(door.tokens, path))
        caller = door.roles.caller(name)
        check(caller, STREAMS[request.scope["route"].path])
        key, stream, after_loss = await hub.look(partial(opened, caller), path)
    except PieceworkError as error:
        status, body = refusal_of(error)
        return Response(line(body), status, headers, "application/json")
    if isinstance(stream, Monitor) and stream.is_over:
        return Response(status_code=204, headers=headers)  # a browser would come again after any other end
    return EventStream(hub, key, stream, headers, after_loss)
