"""POST /verify: judge a candidate under its policy."""

from typing import Any

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.jsons import canonical
from piecework.runtime.door import serve
from piecework.runtime.verify.messages import log_fields, read_request
from piecework.runtime.wiring import RuntimeDoor

door = RuntimeDoor().ready("judge", "telemetry")


def verify(request: Request) -> Response:
    """The verdict; the same request always gets the same verdict."""
    caller = request.caller
    message = read_request(request.json_object())
    verdict = door.judge(message, door.public_url(request))
    facts = {"caller": caller, **log_fields(message), **verdict.log_fields()}
    counts = {f"Verdicts{verdict.verification_status.capitalize()}": 1}
    return Response(200, canonical(verdict.to_wire()), facts=facts, counts=counts)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("verify", verify, event, context, door.telemetry)
