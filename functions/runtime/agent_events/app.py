"""POST /agent-events: acknowledge a lifecycle event, after its hook if you registered one."""

from typing import Any

from piecework.edge.http import EDGE_MARGIN_MS, Request, Response
from piecework.edge.ports import LambdaContext
from piecework.runtime.door import replay_mark, serve
from piecework.runtime.wiring import RuntimeDoor

door = RuntimeDoor().ready("events", "telemetry")


def acknowledge(request: Request) -> Response:
    """Acknowledge the event, with the hook's decision if it made one."""
    caller = request.caller
    received = door.events.receive(
        request.json_object(),
        caller=caller,
        until_ms=door.clock() + request.remaining_ms() - EDGE_MARGIN_MS,
        trace_id=request.trace_id,
    )
    return Response(200, received.body, replay_mark(received.facts), facts=received.facts, counts=received.counts)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("agent_event", acknowledge, event, context, door.telemetry)
