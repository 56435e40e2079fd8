"""What every request of the kernel door passes: request id, CORS, credential, outcome line (specification 2.1)."""

import hmac
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from piecework.errors import PieceworkError, Unavailable
from piecework.kernel.errors import InternalError, KernelError, ServiceUnavailable, UnauthorizedError, ValidationError

OPEN: Final = frozenset({("GET", "/v0/health"), ("GET", "/v0/ready")})
GUARDED: Final = ("/v0/executions", "/v0/agents", "/v0/runners", "/v0/tools", "/v0/approvals", "/metrics")
MAX_REQUEST_ID_BYTES: Final = 128
CORS: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, X-Request-ID, Last-Event-ID",
    "Access-Control-Expose-Headers": "Link, X-Request-ID",
    "Access-Control-Max-Age": "86400",
}
FIRST_REFUSAL: Final = 400
QUIET: Final = frozenset({"/v0/health", "/v0/ready", "/metrics"})  # asked all the time; a line only when they fail
NAMED: Final = ("execution_id", "step_id", "runner_id")  # ids that an outcome line has; a session's is a credential
Tokens = tuple[tuple[str, str], ...]
Outcome = Callable[[str, Mapping[str, Any], Mapping[str, int]], None]


class Line(Response):
    """Compact JSON and a newline."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body's bytes, as long as they came in; escaped only where a text is none that UTF-8 can hold."""
        try:
            return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:
            return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def refusal(error: PieceworkError) -> Response:
    """A refusal in the door's shape."""
    known = error if isinstance(error, KernelError) else _known(error)
    return Line({"error": known.text, "code": known.code, "details": known.details}, known.status)


@dataclass(frozen=True, slots=True)
class Edge:
    """Wraps the application."""

    app: ASGIApp
    tokens: Callable[[], Tokens]
    origins: Sequence[str]  # none: CORS is off
    outcome: Outcome = lambda _name, _facts, _counts: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["path"] = _canonical(scope["path"])
        headers = Headers(scope=scope)
        extra = {"X-Request-ID": _request_id(headers), **self._cors(headers)}

        facts: dict[str, Any] = {"request_id": extra["X-Request-ID"], "trace_id": headers.get("x-amzn-trace-id")}
        scope["facts"] = facts  # routes add what only they know

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(extra)
                facts["status"] = message["status"]
            await send(message)

        answer = self._answer(Request(scope, receive), headers)
        await (answer or self.app)(scope, receive, sending)
        self._tell(scope, facts)

    def _tell(self, scope: Scope, facts: Mapping[str, Any]) -> None:
        """Write the request's one line."""
        if scope["path"] in QUIET and facts.get("status", 0) < FIRST_REFUSAL:
            return
        parameters = scope.get("path_params") or {}
        ids = {name: parameters[name] for name in NAMED if name in parameters}
        route = getattr(scope.get("route"), "path", "none")
        caller = scope.get("caller") or None
        self.outcome("kernel", {"route": f"{scope['method']} {route}", "caller": caller, **ids, **facts}, {})

    def _answer(self, request: Request, headers: Headers) -> Response | None:
        """An answer that needs no application."""
        if self.origins and request.method == "OPTIONS":
            return Response(status_code=204)
        path = request.scope["path"]
        guarded = any(path == root or path.startswith(f"{root}/") for root in GUARDED)
        if not guarded or (request.method, path) in OPEN:
            return None
        try:
            request.scope["caller"] = authorize(headers, self.tokens())
        except PieceworkError as error:
            return refusal(error)
        return None

    def _cors(self, headers: Headers) -> dict[str, str]:
        if not self.origins:
            return {}
        origin = headers.get("origin", "")
        if "*" in self.origins:
            return {"Access-Control-Allow-Origin": "*", **CORS}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin", **CORS} if origin in self.origins else {}


def note(request: Request, **facts: Any) -> None:
    """Add to the request's outcome line."""
    request.scope.get("facts", {}).update(facts)


def authorize(headers: Headers, tokens: Tokens) -> str:
    """Let in who has a token; everybody, when there is none. Every token is compared, in constant time.

    Returns the token's name, or nothing where there is none.

    Raises:
        UnauthorizedError: no header, another scheme, or none of the tokens.
    """
    sent = headers.get("authorization", "").encode("latin-1", "replace")
    matches = [name for name, secret in tokens if hmac.compare_digest(sent, f"Bearer {secret}".encode())]
    if tokens and not matches:
        raise UnauthorizedError
    return matches[0] if matches else ""


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    usable = 1 <= len(given.encode("latin-1", "replace")) <= MAX_REQUEST_ID_BYTES and not set("\r\n") & set(given)
    return given if usable else str(uuid.uuid4())


def _canonical(path: str) -> str:
    """`/v0/executions/` is the list, as `/v0/executions` is; nothing is redirected."""
    return "/v0/executions" if path == "/v0/executions/" else path


def _known(error: PieceworkError) -> KernelError:
    if isinstance(error, Unavailable):
        return ServiceUnavailable("database not reachable")
    return ValidationError(error.message) if error.code == "bad_request" else InternalError()
