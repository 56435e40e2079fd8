"""/v0/runners… and /v0/tools: who is connected, results, capabilities, the tool directory (sections 2.11 to 2.15)."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kernel.http.agents import CURSOR as NEXT
from kernel.http.agents import OWNERS_LIMIT, owners_limit
from kernel.http.documented import answers, asks, done, query, takes
from kernel.http.doors import caller_of, door_of
from kernel.http.edge import Line
from kernel.http.reading import read
from kernel.http.routes import Routes
from kernel.http.shapes import Body, Id, Rule
from piecework.kernel.edge import MOMENT, checked_id
from piecework.kernel.errors import NotFound
from piecework.kernel.model.ports.runners import ToolEntry
from piecework.kernel.needs import ANY_ROLE, FORGETS_RUNNERS, READERS, RUNNERS
from piecework.kernel.wire.directory import link_to, page_of
from piecework.kernel.wire.views import runner_body

MOST_TOOLS: Final = 1_000  # of one runner: each is a row of its own per connection
MOST: Final = Rule(most=MOST_TOOLS)

NEXT_PAGE: Final = query("where there is a next page: its address, `rel=next`")
PREFIX: Final = query("an id, or the part of it before `.` or `_`")
CURSOR: Final = query("of the `Link` in the answer before")

routes = Routes()


def _moment(text: str) -> None:
    """RFC 3339; only its form counts."""
    if not MOMENT.fullmatch(text):
        raise ValueError("is not an RFC 3339 time")
    datetime.fromisoformat(text[:19])


Moment = Annotated[str, Rule(check=_moment)]


class JobResultBody(Body):
    """How a job ended."""

    NEEDED = ("job_id", "execution_id", "step_id", "success")

    job_id: str | None = None
    execution_id: str | None = None
    step_id: str | None = None
    success: bool | None = None
    data: Any = None
    error: str = ""
    retryable: bool = False
    started_at: Moment | None = None
    completed_at: Moment | None = None
    consumer_id: str | None = None


class StartedBody(Body):
    """That a runner has begun a step."""

    NEEDED = ("execution_id", "runner_id")

    execution_id: str | None = None
    runner_id: Id | None = None


class CapabilitiesBody(Body):
    """The exact tool ids a runner offers."""

    NEEDED = ("tools",)

    tools: Annotated[list[Id] | None, MOST] = None


class Tool(Body):
    """A tool of the directory; its schema is optional."""

    NEEDED = ("id",)

    id: Id | None = None
    description: str | None = None
    input_schema: Any = None


class ToolsBody(Body):
    """A runner's part of the directory."""

    NEEDED = ("tools",)

    tools: Annotated[list[Tool] | None, MOST] = None


@routes.get("/v0/runners", READERS, answers("Runners", 400), asks(cursor=NEXT, limit=OWNERS_LIMIT))
async def runners(request: Request) -> Response:
    """A page of runners by id: their connections, the job in the hand of each, and the tools that it offers."""
    door, query = door_of(request), request.query_params
    page, cursor = await door.call(door.connected().runners, query.get("cursor", ""), owners_limit(query.get("limit")))
    return Line({"runners": [runner_body(shown) for shown in page], "next_cursor": cursor})


@routes.post("/v0/runners/steps/{step_id}/started", RUNNERS, answers("Done", 400, 404), takes(StartedBody))
async def started(request: Request, step_id: str) -> Response:
    """A runner has begun a step."""
    body = await read(StartedBody, request)
    door = door_of(request)
    ids = (step_id, str(body.execution_id), str(body.runner_id))
    await door.call(door.kernel.started, *ids, caller_of(request).name)
    return Line({"status": "ok"})


@routes.post("/v0/runners/{runner_id}/results", RUNNERS, answers("Done", 400, 404, 409), takes(JobResultBody))
async def results(request: Request, runner_id: str) -> Response:
    """A runner reports a job; its connection is idle then, whatever the answer."""
    body = await read(JobResultBody, request)
    door = door_of(request)
    ids = (str(body.job_id), str(body.execution_id), str(body.step_id))
    told = partial(door.kernel.job_result, success=bool(body.success), data=body.data, error=body.error)
    await door.call(told, runner_id, *ids, retryable=body.retryable, by=caller_of(request).name)
    return Line({"status": "ok"})


@routes.post("/v0/runners/{runner_id}/capabilities", RUNNERS, answers("Done", 400, 404), takes(CapabilitiesBody))
async def capabilities(request: Request, runner_id: str) -> Response:
    """Replace the tools of all connections of a runner."""
    body = await read(CapabilitiesBody, request)
    tools, door = body.tools or [], door_of(request)
    runner = checked_id("runner_id", runner_id)

    def replace() -> None:
        door.runners.set_tools(runner, tools)
        door.dispatcher.pump_runner(runner)

    await door.call(replace)
    return Line({"status": "ok"})


@routes.post("/v0/runners/{runner_id}/tools", RUNNERS, done(400, 404), takes(ToolsBody))
async def publish(request: Request, runner_id: str) -> Response:
    """Replace a runner's part of the directory, and its tools."""
    body = await read(ToolsBody, request)
    for tool in body.tools or ():
        tool.check_needed()
    runner, door = checked_id("runner_id", runner_id), door_of(request)
    now = door.clock()
    entries = [ToolEntry(str(t.id), t.description or "", t.input_schema, runner, now) for t in body.tools or ()]

    def put() -> None:
        door.runners.publish(runner, entries)
        door.dispatcher.pump_runner(runner)

    await door.call(put)
    return Response(status_code=204)


@routes.delete("/v0/runners/{runner_id}", FORGETS_RUNNERS, done(400, 404))
async def delete(request: Request, runner_id: str) -> Response:
    """Forget a runner: no more jobs, its streams end, its tools leave the directory."""
    door = door_of(request)
    if not await door.call(door.runners.delete, checked_id("runner_id", runner_id)):
        raise NotFound("no such runner")
    return Response(status_code=204)


@routes.get("/v0/tools", ANY_ROLE, answers("Tools", 400, Link=NEXT_PAGE), asks(prefix=PREFIX, cursor=CURSOR))
async def tools(request: Request) -> Response:
    """The directory, one entry per tool; a page of it where it is large, with a `Link` to the next."""
    door, query = door_of(request), request.query_params
    prefix = query.get("prefix", "")
    page, cursor = page_of(await door.call(door.runners.directory, prefix), query.get("cursor", ""))
    return Line(page, headers=link_to(prefix, cursor))
