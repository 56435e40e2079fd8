"""POST /execute: run one task and return its candidate output."""

from typing import Any

from piecework.edge.http import EDGE_MARGIN_MS, Request, Response, header_text
from piecework.edge.ports import LambdaContext
from piecework.runtime.door import replay_mark, serve
from piecework.runtime.wiring import RuntimeDoor

door = RuntimeDoor().ready("execute", "telemetry")


def execute(request: Request) -> Response:
    """Run the task, or answer with the recorded result of the same one."""
    ends_ms = door.clock() + request.remaining_ms() - EDGE_MARGIN_MS
    executed = door.execute.execute(
        request.json_object(),
        caller=request.caller,
        until_ms=min(ends_ms, door.clock() + door.settings.execute_timeout_ms - EDGE_MARGIN_MS),
        run_until_ms=ends_ms,
        public_url=door.public_url(request),
        trace_id=request.trace_id,
    )
    headers = dict(replay_mark(executed.facts))
    headers |= {"X-Piecework-Made-By": header_text(executed.made_by)} if executed.made_by else {}
    return Response(200, executed.body, headers, facts=executed.facts, counts=executed.counts)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("execute", execute, event, context, door.telemetry)
