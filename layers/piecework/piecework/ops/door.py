"""The operator's door: its paths, statuses and bodies, made in this one place.

The API passes all paths on, so the door matches them itself. An error body is `{"error": …, "code": …}`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext, Telemetry
from piecework.edge.roles import Caller, Roles
from piecework.errors import Internal, MethodNotAllowed, NotFound, PieceworkError
from piecework.jsons import Json, canonical
from piecework.kernel.errors import KernelError
from piecework.ops import kernel_routes
from piecework.ops.access import READS, WRITES, Access, SignInRefused, require

STATUS: Final[Mapping[str, int]] = {
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "rate_limited": 429,
    "internal": 500,
    "unavailable": 503,
}
AGAIN: Final = {429: "5", 503: "1"}  # seconds after which the same may be answered
MESSAGE_CHARACTERS: Final = 500
HEALTH: Final = "/ops/health"
SIGN_IN: Final = "/ops/sign-in"
PUBLIC: Final = frozenset({HEALTH, SIGN_IN})  # the only paths without a credential
ROUTES: Final[Mapping[str, tuple[str, ...]]] = {
    HEALTH: ("GET",),
    "/ops/whoami": ("GET",),
    SIGN_IN: ("GET",),
    "/ops/status": ("GET",),
    "/ops/pieces": ("GET",),
    "/ops/pieces/{key}": ("GET",),
    "/ops/pieces/{key}/evidence/{digest}": ("GET",),
    "/ops/pieces/{key}/verdicts": ("GET",),
    "/ops/pieces/{key}/forget": ("POST",),
    "/ops/piece": ("GET",),
    "/ops/verdicts": ("GET",),
    "/ops/tasks": ("GET",),
    "/ops/tasks/{contract_id}": ("GET",),
    "/ops/contracts": ("GET",),
    "/ops/records": ("GET",),
    "/ops/find": ("GET",),
    "/ops/tasks/{contract_id}/forget": ("POST",),
    "/ops/tasks/{contract_id}/webhooks/{event_id}/resend": ("POST",),
    "/ops/tasks/{contract_id}/payment/evidence": ("POST",),
    "/ops/tasks/{contract_id}/payment/resolve": ("POST",),
    "/ops/tasks/{contract_id}/payment/refunded": ("POST",),
    "/ops/tasks/{contract_id}/payment/refunded/evidence": ("POST",),
    "/ops/approvals/{execution_id}/webhooks/{event_id}/resend": ("POST",),
    "/ops/dead-letters/{name}/look": ("POST",),
    "/ops/dead-letters/{name}/redrive": ("POST",),
    "/ops/ledger": ("GET",),
    "/ops/pauses": ("GET",),
    "/ops/pause": ("POST",),
    "/ops/resume": ("POST",),
    **kernel_routes.ROUTES,
}
KERNEL_CODES: Final[Mapping[str, str]] = {  # the kernel door's codes as this door says them
    "VALIDATION_ERROR": "bad_request",
    "UNAUTHORIZED": "unauthorized",
    "FORBIDDEN": "forbidden",
    "NOT_FOUND": "not_found",
    "CONFLICT": "conflict",
    "SERVICE_UNAVAILABLE": "unavailable",
}
BYTES: Final = {  # of evidence: a stranger's bytes, which a browser must not show in our origin
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox",
    "X-Content-Type-Options": "nosniff",
}
BASIC: Final = 'Basic realm="piecework"'
BEARER: Final = 'Bearer realm="piecework", error="invalid_token"'  # RFC 6750, section 3
NO_STORE: Final = {"Cache-Control": "no-store"}
_PART: Final = re.compile(r"[A-Za-z0-9_.~-]{1,128}")  # of a path, where a parameter stands
_NAMED: Final = re.compile(r"{(\w+)\+?}")  # in a resource: what the API has matched
_NOT_TEXT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")


class Asked(NamedTuple):
    """One request whose caller is known; `named` holds the parameters of its path."""

    request: Request
    caller: Caller
    named: Mapping[str, str]


Answers = Mapping[str, Callable[[Asked], Json | Response]]


def serve(
    name: str, answers: Answers, event: Mapping[str, Any], context: LambdaContext, access: Access, to: Telemetry
) -> dict[str, Any]:
    """Answer one proxy event: route, credential, role, `answers`, one outcome line; each failure in the door's body."""
    request = Request.from_event(event, context.get_remaining_time_in_millis)
    facts: dict[str, Any] = {"trace_id": request.trace_id}
    try:
        response = _answer(answers, *admitted(request, access, facts))
    except PieceworkError as error:
        response = error_response(error)
    except Exception:  # noqa: BLE001  # the door's outer edge: a bug is logged and answered without its text
        to.bug(name)
        response = error_response(Internal("internal error; the function's log has it"))
    to.outcome(name, {**facts, **response.facts, "status": response.status}, {})
    return response._replace(headers={**NO_STORE, **response.headers}).to_proxy(request.trace_id)


def admitted(request: Request, access: Access, facts: dict[str, Any]) -> tuple[str, Asked]:
    """The route of a request that may be answered, and who asks; `facts` get what its line in the log says of both.

    Raises:
        NotFound, MethodNotAllowed: the door does not have the path, or not by this method.
        Unauthorized, Forbidden: the caller is not known, or lacks a role.
    """
    route, named = matched(request)
    facts["route"] = f"{request.method} {route}"
    if route in PUBLIC:
        return route, Asked(request, Caller(), named)
    caller = access.caller(request.header("authorization"))
    facts["caller"] = caller.name or None
    require(caller, needs(request.method, route))
    return route, Asked(request, caller, named)


def matched(request: Request) -> tuple[str, dict[str, str]]:
    """The route of a request, and the parameters of its path. A slash at the end counts.

    Raises:
        NotFound: the door does not have this path.
        MethodNotAllowed: it has the path for other methods.
    """
    parts = _NAMED.sub(lambda name: str(request.path_params.get(name[1], "")), request.resource).split("/")
    for route, allowed in ROUTES.items():
        named = _fit(route.split("/"), parts)
        if named is not None:
            if request.method not in allowed:
                raise MethodNotAllowed(f"use {' or '.join(allowed)} here", allowed)
            return route, named
    raise NotFound("this path does not exist; the operator's door is described in docs/ops.md")


def needs(method: str, route: str) -> Roles:
    """The roles of which a caller needs one."""
    return kernel_routes.NEEDS.get((method, route), READS if method == "GET" else WRITES)


def error_response(error: PieceworkError) -> Response:
    """The door's body, status and headers for a failure."""
    code = KERNEL_CODES.get(error.code, error.code)
    code = code if code in STATUS else "internal"
    status = STATUS[code]
    headers = {"Allow": ", ".join(error.allowed)} if isinstance(error, MethodNotAllowed) else {}
    headers |= {"WWW-Authenticate": BEARER if isinstance(error, SignInRefused) else BASIC} if status == 401 else {}
    headers |= {"Retry-After": AGAIN[status]} if status in AGAIN else {}
    body: dict[str, Json] = {"error": clean(error.message), "code": code}
    if isinstance(error, KernelError):
        body["error"] = clean(error.text)
        headers |= error.headers
        body |= {"details": error.details} if error.details else {}
    return Response(status, canonical(body), headers, facts={"code": code})


def clean(text: str) -> str:
    """A message fit for a caller: one line of at most 500 characters."""
    line = _NOT_TEXT.sub(" ", text).strip()
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def _answer(answers: Answers, route: str, asked: Asked) -> Response:
    if route not in answers:
        raise NotFound("this stack has no kernel door")
    made = answers[route](asked)
    return made if isinstance(made, Response) else Response(200, canonical(made))


def _fit(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    named: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{") and _PART.fullmatch(part):
            named[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return named
