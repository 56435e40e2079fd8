"""GET /capabilities and GET /health; also answers every path and method that the door does not serve."""

from typing import Any

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.runtime.door import serve
from piecework.runtime.wiring import RuntimeDoor

door = RuntimeDoor().ready("telemetry")

BODIES = {"/capabilities": door.capabilities, "/health": door.health}


def describe(request: Request) -> Response:
    """The capabilities of this runtime, or its health."""
    return Response(200, BODIES[request.resource], facts={"caller": request.caller})


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("capabilities", describe, event, context, door.telemetry)
