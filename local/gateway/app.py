"""One API on one port: match, authorize, invoke, answer, as a REST API with Lambda proxy integrations does."""

import asyncio
import contextlib
import json
import secrets
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from local.gateway import edge
from local.gateway.authorizing import authorize
from local.gateway.events import Call, MalformedResponse, facts_of, http_response, proxy_event, request_context
from local.gateway.lambdas.environments import FunctionFailed
from local.gateway.lambdas.lineage import TracePort
from local.gateway.lambdas.log_group import LogGroup
from local.gateway.lambdas.pool import AHEAD, ENVIRONMENTS, MAX_ENVIRONMENTS, Pool, Throttled
from local.gateway.lambdas.port import ENDPOINT
from local.gateway.lambdas.recording import RECORD_AWS_CALLS, Recorder, recorders
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.lambdas.variables import SWEEP_SECONDS, of_function
from local.gateway.routes import Api, Matcher, QueueSource, Route, Source
from local.gateway.sessions import Sessions
from local.gateway.sources import QueuePoller, run_schedule
from local.gateway.visitors import Visitors
from local.gateway.web_app import WRAPPER, WebApp

BLANKS: Final = " \t"
MAX_BODY_BYTES: Final = 10 * 1024 * 1024  # the limit of a REST API
MAX_PAYLOAD_BYTES: Final = 6 * 1024 * 1024  # the limit of a synchronous Lambda invocation
FIRST_SERVER_ERROR: Final = 500
REASON_CHARACTERS: Final = 300


class Gateway:
    """Serves one API with a pool of environments per function."""

    def __init__(self, api: Api, public_url: str, caller: Mapping[str, str]) -> None:
        self._api = api
        self._matcher = Matcher(api.routes)
        variables = {
            name: of_function(function, caller, public_url=public_url) for name, function in api.functions.items()
        }
        self._recorders = recorders(variables, caller.get(RECORD_AWS_CALLS))
        variables |= {name: recorder.variables for name, recorder in self._recorders.items()}
        self._ports = _trace_ports(api, variables)
        variables |= {name: port.variables for name, port in self._ports.items()}
        apps = {name for name, function in api.functions.items() if WRAPPER in function.environment}
        self._apps = {name: WebApp(api.functions[name], variables[name]) for name in apps}
        self._starts_ahead = caller.get(AHEAD, "1") != "0"
        most = int(caller.get(ENVIRONMENTS) or MAX_ENVIRONMENTS)
        self._groups = _log_groups(api, caller.get(ENDPOINT))
        self._pools = {
            name: Pool(function, variables[name], self._groups[name].pipe if name in self._groups else None, most)
            for name, function in api.functions.items()
            if name not in apps
        }
        self._visitors = Visitors(api, caller)
        self._sessions = Sessions.of(caller, public_url)
        self._endpoint = caller.get("AWS_ENDPOINT_URL")
        self._sweep_seconds = float(caller.get(SWEEP_SECONDS, 0))  # in place of a schedule's own interval; 0 keeps it
        self._running: set[asyncio.Task[bytes]] = set()

    def app(self) -> Router:
        """The ASGI application; without routes, because a route does not match a path with a line break."""
        return Router(default=self._http, redirect_slashes=False, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Router) -> AsyncIterator[None]:
        between: list[Recorder | TracePort] = [*self._recorders.values(), *self._ports.values()]
        await asyncio.gather(*(each.open() for each in between))
        for group in self._groups.values():
            group.open()
        served: list[Pool | WebApp] = [*self._pools.values(), *self._apps.values()]
        asked = {route.function for route in self._api.routes} | {route.authorizer for route in self._api.routes}
        ahead = asked if self._starts_ahead else set()
        await asyncio.gather(*(app.open() for name, app in self._apps.items() if name in ahead))
        await asyncio.gather(*(pool.open(ahead=name in ahead) for name, pool in self._pools.items()))
        sources = [asyncio.create_task(self._watch(source)) for source in self._api.sources]
        try:
            yield
        finally:
            for source in sources:
                source.cancel()
            await asyncio.gather(*(one.close() for one in served))
            for each in (*between, *self._groups.values()):
                each.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):  # the client left while it was sending
            response = await self._serve(Request(scope, receive))
            await response(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        body = await _read(request)
        call = _call(request, body or b"")
        try:
            if body is None:
                raise edge.Stopped(edge.TOO_LARGE)
            response = await self._answer(call)
        except edge.Stopped as stopped:
            if stopped.failure.status >= FIRST_SERVER_ERROR:
                print(_reason(call, stopped), file=sys.stderr, flush=True)
            response = _response(edge.answer(self._api, stopped.failure, call))
        response.headers["x-amzn-RequestId"] = call.request_id
        response.headers.setdefault("X-Amzn-Trace-Id", call.trace_id)
        return response

    async def _watch(self, source: Source) -> None:
        invoke = self._pools[source.function].invoke
        if isinstance(source, QueueSource):
            recorder = self._recorders.get(source.function)  # Lambda polls with the function's role
            await QueuePoller(source, invoke, recorder.endpoint if recorder else self._endpoint).run()
        else:
            await run_schedule(replace(source, seconds=self._sweep_seconds or source.seconds), invoke)

    async def _answer(self, call: Call) -> Response:
        if problem := self._visitors.problem(call):
            raise edge.Stopped(replace(edge.NOT_SERVED, message=problem))
        if self._sessions:
            if reply := self._sessions.answer(call):
                return _response(reply)
            call = self._sessions.admitted(call)
        route, parameters = self._matcher.match(call.method, call.path)
        if route is None:
            raise edge.Stopped(edge.NO_ROUTE)
        facts = facts_of(self._api, route, call, parameters)
        authorizer = None
        if route.authorizer:
            authorizer = await authorize(self._api, call, facts, self._pools[route.authorizer])
        if route.function in self._apps:
            return await self._apps[route.function].forward(call, request_context(facts, authorizer))
        event = proxy_event(self._api, call, facts, authorizer)
        payload = await self._invoke(route, call, json.dumps(event, ensure_ascii=False).encode())
        try:
            return _response(http_response(payload, self._api, call.header("accept")))
        except MalformedResponse as error:
            raise edge.Stopped(edge.FUNCTION_FAILED) from error

    async def _invoke(self, route: Route, call: Call, payload: bytes) -> bytes:
        """Invoke in a separate task, so that the edge's time-out or a client that leaves does not end the work."""
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise edge.Stopped(edge.PAYLOAD_TOO_LARGE)
        invocation = Invocation(call.request_id, call.trace_id, payload)
        task = asyncio.create_task(self._pools[route.function].invoke(invocation))
        self._running.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait({task}, timeout=route.timeout_ms / 1000)
        if not done:
            raise edge.Stopped(edge.TIMED_OUT)
        try:
            return task.result()
        except Throttled as error:
            raise edge.Stopped(edge.THROTTLED) from error
        except FunctionFailed as error:
            raise edge.Stopped(edge.FUNCTION_FAILED) from error

    def _forget(self, task: asyncio.Task[bytes]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # read it, because the caller may have left


def _reason(call: Call, stopped: edge.Stopped) -> str:
    """The log line with the reason for the edge's own server error."""
    failure, cause = stopped.failure, stopped.__cause__
    why = " ".join(str(cause).split()) if cause else failure.message
    kind = f"{type(cause).__name__}: " if cause else ""
    return f"gateway: {failure.status} {call.method} {call.path[:REASON_CHARACTERS]}: {kind}{why[:REASON_CHARACTERS]}"


def _trace_ports(api: Api, variables: Mapping[str, dict[str, str]]) -> dict[str, TracePort]:
    """A port for each function that takes messages, so that the messages that it sends continue their chain."""
    taking = {source.function for source in api.sources if isinstance(source, QueueSource)}
    return {name: TracePort(variables[name]) for name in taking if ENDPOINT in variables[name]}


def _log_groups(api: Api, endpoint: str | None) -> dict[str, LogGroup]:
    """The log group of each function whose lines another function reads."""
    read = {name: function.read_group for name, function in api.functions.items()} if endpoint else {}
    return {name: LogGroup(group, endpoint) for name, group in read.items() if group and endpoint}


def _response(reply: edge.Reply) -> Response:
    status, headers, content = reply
    response = Response(content, status)
    for name, value in headers:
        response.headers.append(name, value)
    return response


async def _read(request: Request) -> bytes | None:
    """The body, or None if it is too large; a too large body is read to its end, so that the client gets the answer."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
    return b"".join(parts) if size <= MAX_BODY_BYTES else None


def _value(raw: bytes) -> str:
    """A header's value without the blanks around it (RFC 9110 5.5), which a client refuses to send."""
    return raw.decode("latin-1").strip(BLANKS)


def _call(request: Request, body: bytes) -> Call:
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    trace_id = request.headers.get("x-amzn-trace-id", "").strip(BLANKS)
    if not trace_id or not trace_id.isascii():  # the function's process reads this header as ASCII
        trace_id = f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)}"
    return Call(
        method=request.method,
        path=raw.decode("latin-1").partition("?")[0],
        query=request.scope["query_string"].decode("latin-1"),
        headers=tuple((name.decode("latin-1"), _value(value)) for name, value in request.headers.raw),
        body=body,
        client=request.client.host if request.client else "127.0.0.1",
        request_id=str(uuid.uuid4()),
        trace_id=trace_id,
    )
