"""POST /execute and GET /tasks/{task_id}: take a paid task, and answer how it stands."""

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.jsons import Json
from piecework.worker.door import serve
from piecework.worker.wiring import WorkerDoor

door = WorkerDoor().ready("routes", "tasks", "due_messages", "telemetry")


def respond(request: Request) -> Response:
    """The answer of one of this function's routes."""
    answers = {"/execute": door.routes.execute, "/tasks/{task_id}": door.routes.task}
    return answers[request.resource](request)


def handler(event: dict[str, Json], context: LambdaContext) -> dict[str, Json]:
    """The Lambda entry point."""
    door.public_url.learn(event.get("requestContext") or {})
    return serve("hire", respond, event, context, door.telemetry, door.rates.check, origin=door.settings.cors_origin)
