"""What every request of the kernel door passes: request id, CORS, credential, outcome line (specification 2.1)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from piecework.edge.roles import RoleTable
from piecework.edge.tokens import Tokens
from piecework.errors import PieceworkError, SettingsError
from piecework.kernel.edge import allowed_origin, authorize, line, refusal_of, request_id
from piecework.kernel.errors import KernelError
from piecework.values import dataclass

OPEN: Final = frozenset({("GET", "/v0/health"), ("GET", "/v0/ready")})
GUARDED: Final = ("/v0/executions", "/v0/agents", "/v0/runners", "/v0/tools", "/v0/approvals", "/metrics")
CORS: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, X-Request-ID, Last-Event-ID",
    "Access-Control-Expose-Headers": "Link, X-Request-ID",
    "Access-Control-Max-Age": "86400",
}
FIRST_REFUSAL: Final = 400
QUIET: Final = frozenset({"/v0/health", "/v0/ready", "/metrics"})  # asked all the time; a line only when they fail
NAMED: Final = ("execution_id", "step_id", "runner_id")  # ids that an outcome line has; a session's is a credential
Outcome = Callable[[str, Mapping[str, Any], Mapping[str, int]], None]


class Line(Response):
    """Compact JSON and a newline."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body's bytes."""
        return line(content)


def refusal(error: PieceworkError) -> Response:
    """A refusal in the door's shape."""
    status, body = refusal_of(error)
    return Line(body, status, error.headers if isinstance(error, KernelError) else None)


@dataclass(frozen=True, slots=True)
class Edge:
    """Wraps the application."""

    app: ASGIApp
    tokens: Callable[[], Tokens]
    roles: Callable[[], RoleTable]
    origins: Sequence[str]  # empty: CORS is off
    outcome: Outcome = lambda _name, _facts, _counts: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["path"] = _canonical(scope["path"])
        headers = Headers(scope=scope)
        extra = {"X-Request-ID": request_id(headers.get("x-request-id", "")), **self._cors(headers)}

        facts: dict[str, Any] = {"request_id": extra["X-Request-ID"], "trace_id": headers.get("x-amzn-trace-id")}
        scope["facts"] = facts  # routes add their own facts

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
        name = scope["caller"].name if "caller" in scope else ""
        self.outcome("kernel", {"route": f"{scope['method']} {route}", "caller": name or None, **ids, **facts}, {})

    def _answer(self, request: Request, headers: Headers) -> Response | None:
        """The answer to a request that does not reach the application, or None."""
        if self.origins and request.method == "OPTIONS":
            return Response(status_code=204)
        path = request.scope["path"]
        guarded = any(path == root or path.startswith(f"{root}/") for root in GUARDED)
        if not guarded or (request.method, path) in OPEN:
            return None
        try:
            name = authorize(headers.get("authorization", ""), self.tokens())
            request.scope["caller"] = self.roles().caller(name)
        except PieceworkError as error:
            if isinstance(error, SettingsError):  # its text names a form or a role, never a secret
                note(request, settings=error.message)
            return refusal(error)
        return None

    def _cors(self, headers: Headers) -> dict[str, str]:
        allowed = allowed_origin(headers.get("origin", ""), self.origins)
        return {**allowed, **CORS} if allowed else {}


def note(request: Request, **facts: Any) -> None:
    """Add to the request's outcome line."""
    request.scope.get("facts", {}).update(facts)


def _canonical(path: str) -> str:
    """`/v0/executions/` is the list, as `/v0/executions` is; nothing is redirected."""
    return "/v0/executions" if path == "/v0/executions/" else path
