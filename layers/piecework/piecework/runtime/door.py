"""The runtime door's statuses and error bodies (runtime specification 1.4), made in this one place.

Never 429 or 408: the kernel takes any 4xx of `/execute` as final. An error body is short JSON whose first words
explain, because the kernel keeps 512 characters of it.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext, Telemetry
from piecework.errors import Internal, MethodNotAllowed, NotFound, Paused, PieceworkError

STATUS: Final[Mapping[str, int]] = {
    "bad_request": 400,
    "schema_rejected": 400,
    "policy_binding_invalid": 400,
    "no_valid_output": 400,
    "refused": 400,
    "unauthorized": 401,
    "not_found": 404,
    "method_not_allowed": 405,
    "key_conflict": 409,
    "forgotten": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "unprocessable": 422,
    "task_type_unknown": 422,
    "upstream_failed": 502,
    "in_progress": 503,
    "lease_lost": 503,
    "unavailable": 503,
}
INTERNAL_ERROR: Final = 500
REPLAYED: Final = "X-Piecework-Replayed"
MESSAGE_CHARACTERS: Final = (
    400  # as escaped JSON; with the members around it an error body stays under the kernel's 512
)

ROUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "/execute": ("POST",),
    "/verify": ("POST",),
    "/agent-events": ("POST",),
    "/capabilities": ("GET",),
    "/health": ("GET",),
    "/artifacts/{digest}/{token}": ("GET",),
}

# The kernel turns a failure with this phrase in its text into a final one, whatever the status (specification 1.2).
_FINAL_PHRASE: Final = re.compile(r"forced\s+offline\s+by\s+policy", re.IGNORECASE)
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]+")


def serve(
    name: str, respond: Callable[[Request], Response], event: Mapping[str, Any], context: LambdaContext, to: Telemetry
) -> dict[str, Any]:
    """Answer one proxy event: route check, `respond`, one outcome line; every failure in the door's own body."""
    request = Request.from_event(event, context.get_remaining_time_in_millis)
    try:
        check_route(request)
        response = respond(request)
    except PieceworkError as error:
        response = error_response(error)
    except Exception:  # noqa: BLE001  # the door's outer edge: a bug is logged and answered without its text
        to.bug(name)
        response = error_response(Internal("internal error; the runtime's log has it"))
    trace_id = request.trace_id
    to.outcome(name, {**response.facts, "status": response.status, "trace_id": trace_id}, response.counts)
    return response.to_proxy(trace_id)


def check_route(request: Request) -> None:
    """Refuse paths and methods that this door does not serve.

    Raises:
        NotFound: the path does not exist; paths are exact, so a trailing slash counts.
        MethodNotAllowed: the path exists for other methods.
    """
    allowed = ROUTES.get(request.resource)
    if allowed is None or (request.path.endswith("/") and request.path != "/"):
        raise NotFound("this path does not exist; see GET /capabilities")
    if request.method not in allowed:
        raise MethodNotAllowed(f"use {' or '.join(allowed)} here", allowed)


def error_response(error: PieceworkError) -> Response:
    """The door's body and status for a failure."""
    status = STATUS.get(error.code, INTERNAL_ERROR)
    headers = {"Allow": ", ".join(error.allowed)} if isinstance(error, MethodNotAllowed) else {}
    if status == STATUS["unauthorized"]:
        headers["WWW-Authenticate"] = 'Basic realm="piecework"'
    if isinstance(error, Paused):
        headers["Retry-After"] = str(error.retry_seconds)
    text = clean(error.message)
    body = json.dumps({"error": text, "code": error.code}, ensure_ascii=False).encode("utf-8")
    headers |= replay_mark(error.facts)
    facts = {**error.facts, "code": error.code}  # never the text: a refusal may quote the task
    return Response(status, body, headers, facts=facts, counts=error.counts)


def replay_mark(facts: Mapping[str, Any]) -> Mapping[str, str]:
    """The header of an answer, or a refusal, that was recorded before; empty for a fresh one."""
    return {REPLAYED: "true"} if facts.get("replayed") else {}


def clean(text: str) -> str:
    """A message for a caller: one line, short, without the phrase that the kernel acts on."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not text
    line = _FINAL_PHRASE.sub("[removed]", _CONTROLS.sub(" ", text)).strip()
    kept = line[:MESSAGE_CHARACTERS]
    while (size := len(json.dumps(kept, ensure_ascii=False)) - 2) > MESSAGE_CHARACTERS:  # quotes cost two each
        kept = kept[: len(kept) * MESSAGE_CHARACTERS // size]
    return kept if kept == line else kept + "…"
