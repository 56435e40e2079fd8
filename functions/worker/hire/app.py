"""POST /execute and GET /tasks/{task_id}: take a paid task, answer it, tell what became of it."""

from typing import Any

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.worker.door import serve
from piecework.worker.wiring import hire_wiring

wiring = hire_wiring()

ANSWERS = {"/execute": wiring.worker.routes.execute, "/tasks/{task_id}": wiring.worker.routes.task}


def respond(request: Request) -> Response:
    """The answer of one of this function's routes."""
    return ANSWERS[request.resource](request)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    wiring.public_url.learn(event.get("requestContext") or {})
    return serve("hire", respond, event, context, wiring.telemetry, wiring.rates.check, origin=wiring.origin)
