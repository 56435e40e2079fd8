"""The application of the kernel door, but its streams (specification section 2)."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from kernel.http import agents, executions, operations, runners
from kernel.http.doors import Door
from kernel.http.edge import Edge, refusal
from piecework.errors import PieceworkError
from piecework.kernel.errors import Internal, NotFound
from piecework.kernel.needs import STREAMS

METHOD_NOT_ALLOWED = 405
ROUTES = (*operations.routes, *executions.routes, *agents.routes, *runners.routes)


def create_app(door: Door) -> Edge:
    """The application with its edge around it."""
    return Edge(routed(door), door.tokens, door.roles, door.origins, door.outcome)


def routed(door: Door) -> Starlette:
    """The bare application."""
    handlers = {PieceworkError: _refused, HTTPException: _unrouted, Exception: _bug}
    app = Starlette(routes=ROUTES, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.door = door
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
    found = {"GET"} if path in STREAMS or _is_monitor(path) else set()  # another function's
    matching = [route for route in ROUTES if route.matches(request.scope)[0] is not Match.NONE]
    literal = [route for route in matching if route.path == path]  # its name goes before an id that is spelled so
    return found.union(*(route.methods for route in literal or matching))


def _is_monitor(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 5 and parts[1:3] == ["v0", "executions"] and bool(parts[3]) and parts[4] == "stream"
