"""/v0/health, /v0/ready and /metrics (specification sections 2.16 and 7)."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from kernel.http.documented import answers
from kernel.http.doors import door_of
from kernel.http.edge import Line
from piecework.errors import PieceworkError
from piecework.kernel.errors import ServiceUnavailable
from piecework.kernel.model import metrics

router = APIRouter()


@router.get("/v0/health", responses=answers("Done"))
async def health() -> Response:
    """That the door answers; storage is not asked."""
    return Line({"status": "ok"})


@router.get("/v0/ready", responses=answers("Ready"))
async def ready(request: Request) -> Response:
    """That storage answers too."""
    door = door_of(request)
    try:
        await door.call(door.ready)
    except PieceworkError:
        raise ServiceUnavailable("database not reachable") from None
    return Line({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse, response_description="numbers")
async def prometheus(request: Request) -> Response:
    """Numbers over all copies, in Prometheus' text format."""
    door = door_of(request)
    text = metrics.render(await door.call(door.counters.all))
    return Response(text, media_type="text/plain; version=0.0.4")
