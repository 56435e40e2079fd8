"""/v0/health, /v0/ready and /metrics (specification sections 2.16 and 7)."""

from starlette.requests import Request
from starlette.responses import Response

from kernel.http.documented import answers, answers_text
from kernel.http.doors import door_of
from kernel.http.edge import Line
from kernel.http.routes import Routes
from piecework.errors import PieceworkError
from piecework.kernel.errors import ServiceUnavailable
from piecework.kernel.model import metrics
from piecework.kernel.needs import ANYBODY, READERS

routes = Routes()


@routes.get("/v0/health", ANYBODY, answers("Done"))
async def health(request: Request) -> Response:
    """That the door answers; storage is not asked."""
    return Line({"status": "ok"})


@routes.get("/v0/ready", ANYBODY, answers("Ready"))
async def ready(request: Request) -> Response:
    """That storage answers too."""
    door = door_of(request)
    try:
        await door.call(door.ready)
    except PieceworkError:
        raise ServiceUnavailable("database not reachable") from None
    return Line({"status": "ready"})


@routes.get("/metrics", READERS, answers_text("numbers"))
async def prometheus(request: Request) -> Response:
    """Numbers over all copies, in Prometheus' text format."""
    door = door_of(request)
    text = metrics.render(await door.call(door.counters.all))
    return Response(text, media_type="text/plain; version=0.0.4")
