"""The FastAPI application of the kernel door, but its streams (specification section 2)."""

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from kernel.http import agents, executions, operations, runners
from kernel.http.doors import Door
from kernel.http.edge import Edge, refusal
from piecework.errors import PieceworkError
from piecework.kernel.errors import Internal, NotFound

METHOD_NOT_ALLOWED = 405
PARTS = (operations, executions, agents, runners)
STREAMS = ("/v0/agents/stream", "/v0/runners/stream")  # GET is another function's


def create_app(door: Door) -> Edge:
    """The application with its edge around it."""
    return Edge(routed(door), door.tokens, door.origins, door.outcome)


def routed(door: Door) -> FastAPI:
    """The bare application."""
    app = FastAPI(
        title="Piecework kernel door",
        version="0",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.door = door
    for part in PARTS:
        app.include_router(part.router)
    app.add_exception_handler(PieceworkError, _refused)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Exception, _bug)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, PieceworkError):
        return refusal(error)
    raise error


async def _unrouted(request: Request, error: Exception) -> Response:
    """No such path, or not by this method."""
    allowed = _allowed(request)
    if allowed:
        return Response(status_code=METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(allowed))})
    return refusal(NotFound("no such path"))


async def _bug(request: Request, error: Exception) -> Response:
    request.app.state.door.bug("kernel")
    return refusal(Internal())


def _allowed(request: Request) -> set[str]:
    path = request.scope["path"]
    found = {"GET"} if path in STREAMS or _is_monitor(path) else set()
    for route in (route for part in PARTS for route in part.router.routes):
        if route.matches({**request.scope, "method": "OPTIONS"})[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


def _is_monitor(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 5 and parts[1:3] == ["v0", "executions"] and bool(parts[3]) and parts[4] == "stream"
