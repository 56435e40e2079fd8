"""The worker door's edge: routes, headers, limits, and error bodies (worker specification 1.1, 1.7, 1.8).

Nothing of a request is reflected into a header, and ids are checked before they reach a look-up or a log line. Payment
headers, signatures and secrets never reach a message.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from piecework.edge.http import JSON_MEDIA_TYPE, Request, Response
from piecework.edge.ports import LambdaContext, Telemetry
from piecework.errors import (
    Internal,
    MethodNotAllowed,
    NotFound,
    Paused,
    PieceworkError,
    TooLarge,
    UnsupportedMediaType,
)
from piecework.extend.broken import ExecutorBroken
from piecework.jsons import Json, canonical, check_depth, loads
from piecework.worker.cors import ANY, cors_headers, preflight
from piecework.worker.errors import SHARED_CODES, WorkerError
from piecework.worker.ids import new_request_id

BODY_BYTES: Final = 262_144  # of POST /execute, decoded
CONTRACT_BYTES: Final = 131_072  # of POST /contracts, decoded
JSON_DEPTH: Final = 32
MESSAGE_CHARACTERS: Final = 500
BROKEN_SECONDS: Final = "60"  # until an executor that cannot be loaded may be asked for again
CONTENT_TYPE: Final = "application/json; charset=utf-8"
HEADERS: Final[Mapping[str, str]] = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}

ROUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "/execute": ("POST",),
    "/tasks/{task_id}": ("GET",),
    "/stream/{task_id}": ("GET",),
    "/contracts": ("POST",),
    "/contracts/{contract_id}": ("GET",),
    "/manifest": ("GET",),
    "/healthz": ("GET",),
}
_NOT_TEXT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")


def serve(
    name: str,
    respond: Callable[[Request], Response],
    event: Mapping[str, Json],
    context: LambdaContext,
    to: Telemetry,
    limit: Callable[[Request], None] = lambda request: None,
    request_id: Callable[[], str] = new_request_id,
    origin: str = ANY,
) -> dict[str, Json]:
    """Answer one proxy event: route, rate, `respond`, one outcome line; every failure in the door's own body.

    `respond` sets a body and what differs from the common headers; `limit` raises RATE_LIMITED; `origin` may read it.
    """
    request = Request.from_event(event, context.get_remaining_time_in_millis)
    try:
        check_route(request)
        limit(request)
        response = preflight(ROUTES[request.resource]) if request.method == "OPTIONS" else respond(request)
    except PieceworkError as error:
        response = error_response(error)
    except Exception:  # noqa: BLE001  # the door's outer edge: a bug is logged and answered without its text
        to.bug(name)
        response = error_response(Internal("internal error; the worker's log has it"))
    own = {**HEADERS, **cors_headers(origin), **response.headers, "X-Request-Id": request_id()}
    facts = {"status": response.status, "request_id": own["X-Request-Id"], "trace_id": request.trace_id}
    to.outcome(name, {**facts, **response.facts}, response.counts)
    return Response(response.status, response.body, own, response.is_binary).to_proxy()


def json_response(status: int, body: Json, headers: Mapping[str, str] | None = None, **facts: Json) -> Response:
    """An answer with a JSON body; `facts` go into its outcome line."""
    return Response(status, canonical(body), headers or {}, facts=facts)


def check_route(request: Request) -> None:
    """Refuse what this door does not serve.

    Raises:
        NotFound: no such path; paths are exact, so a trailing slash counts.
        MethodNotAllowed: the path exists for other methods.
    """
    allowed = ROUTES.get(request.resource)
    if allowed is None or request.path.endswith("/"):
        raise NotFound("no such path here; see GET /manifest")
    if request.method not in (*allowed, "OPTIONS"):
        raise MethodNotAllowed(f"use {' or '.join(allowed)} here", allowed)


def raw_json(request: Request, limit: int) -> bytes:
    """The bytes of a JSON body that is not yet parsed: declared as JSON, within `limit` and `JSON_DEPTH`.

    Raises:
        UnsupportedMediaType, TooLarge, BadRequest: it is not.
    """
    if not JSON_MEDIA_TYPE.fullmatch(single_header(request, "content-type").strip()):
        raise UnsupportedMediaType("send content-type: application/json")
    raw = request.body()
    if len(raw) > limit:
        raise TooLarge(f"the body is over {limit} bytes")
    check_depth(raw, JSON_DEPTH)
    return raw


def json_body(request: Request, limit: int = BODY_BYTES) -> Json:
    """The body as one JSON value.

    Raises:
        UnsupportedMediaType, TooLarge, BadRequest: as `raw_json`, and when it is not JSON.
    """
    return loads(raw_json(request, limit))


def single_header(request: Request, name: str) -> str:
    """The one value of a header, or an empty string when it is absent.

    Raises:
        WorkerError: INVALID_REQUEST; it was sent more than once.
    """
    values = request.headers.get(name, [])
    if len(values) > 1:
        raise WorkerError("INVALID_REQUEST", f"the header {name} was sent more than once")
    return values[0] if values else ""


def error_response(error: PieceworkError) -> Response:
    """The door's body, status and headers for a failure."""
    found = error if isinstance(error, WorkerError) else _translated(error)
    body: dict[str, Json] = {"status": "failed", "error": error_member(found)}
    body |= {"contract_id": found.contract_id} if found.contract_id else {}
    body |= {"task_id": found.task_id} if found.task_id else {}
    facts = {"code": found.code, "contract_id": found.contract_id, "task_id": found.task_id}
    return Response(found.status, canonical(body), found.headers, facts={**facts, **_told(found)})


def error_member(error: WorkerError) -> dict[str, Json]:
    """The `error` member of a failed body."""
    member: dict[str, Json] = {
        "code": error.code,
        "message": clean(error.message),
        "details": error.details,
        "retryable": error.retryable,
    }
    return member if error.retries_remaining is None else member | {"retries_remaining": error.retries_remaining}


def clean(text: str) -> str:
    """A message fit for a seeker: one line of at most 500 characters."""
    line = _NOT_TEXT.sub(" ", text).strip()
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def _translated(error: PieceworkError) -> WorkerError:
    if isinstance(error, ExecutorBroken):  # its text is for the caller, and nothing was bound
        return WorkerError("EXECUTION_TRANSIENT", error.message, headers={"Retry-After": BROKEN_SECONDS})
    if isinstance(error, Paused):
        return WorkerError("EXECUTION_TRANSIENT", error.message, headers={"Retry-After": str(error.retry_seconds)})
    code = SHARED_CODES.get(error.code, "INTERNAL_ERROR")
    headers = {"Allow": ", ".join(error.allowed)} if isinstance(error, MethodNotAllowed) else {}
    message = error.message if code != "INTERNAL_ERROR" else "something went wrong here; try again"
    return WorkerError(code, message, headers=headers)


def _told(error: WorkerError) -> dict[str, Json]:
    """What an outcome line says besides the code: never a message, which may quote the seeker's input."""
    return {key: error.details[key] for key in ("rule", "reason") if key in error.details}
