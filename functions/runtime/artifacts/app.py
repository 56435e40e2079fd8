"""GET /artifacts/{digest}/{token}: return evidence bytes; the address itself is the credential."""

from typing import Any

from piecework.durable.artifacts import serve as serve_artifact
from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.runtime.door import serve
from piecework.runtime.wiring import RuntimeDoor

door = RuntimeDoor().ready("evidence", "telemetry")

HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",  # the bytes are fixed by the digest in the address
    "Content-Disposition": "attachment",  # strangers' bytes: a browser must not show them in our origin
    "Content-Security-Policy": "sandbox",
    "X-Content-Type-Options": "nosniff",
}


def artifact(request: Request) -> Response:
    """The artifact's bytes as they were stored."""
    served = serve_artifact(door.evidence, request.path_params["digest"], request.path_params["token"])
    return Response(200, served.data, {"Content-Type": served.mime, **HEADERS}, is_binary=True)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("artifact", artifact, event, context, door.telemetry)
