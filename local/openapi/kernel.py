"""The kernel door's OpenAPI document: routes from its FastAPI application, bodies from their models, streams beside."""

from collections.abc import Iterator
from typing import Final

from fastapi.routing import APIRoute

from kernel.http.api import PARTS
from kernel.http.edge import OPEN
from kernel.http.executions import EVENTS_LIMIT, EVENTS_MOST, LIST_LIMIT, LIST_MOST
from kernel.http.reading import BODY_BYTES, MAX_DEPTH
from local.openapi.kernel_bodies import CODES, STATUS, schemas
from local.openapi.parts import STRING, Schema, info, path_parameter, ref, servers, tagged, tags
from piecework.kernel.edge import ID_BYTES

JSON: Final = "application/json"
EVERY: Final[Schema] = {"X-Request-ID": {"required": True, "schema": {"type": "string", "minLength": 1}}}
NEXT_PAGE: Final[Schema] = {"description": "where there is a next page: its address, `rel=next`", "schema": STRING}
EDGE: Final = (403, 429)  # answered before the door
ALWAYS: Final = (*EDGE, 500, 503)
IN_PATH: Final = "^[^/]+$"
LIST_COUNT: Final = f"a number; {LIST_LIMIT} unless it is one, {LIST_MOST} at most"


def _query(name: str, description: str, schema: Schema = STRING, *, is_required: bool = False) -> Schema:
    return {"name": name, "in": "query", "description": description, "required": is_required, "schema": schema}


LIMIT: Final = _query("limit", LIST_COUNT)
AFTER: Final = _query("after_sequence", "the last event that is known; what is no number counts as 0")
LAST_EVENT: Final[Schema] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "as after_sequence, where that is absent; browsers send it when they come again",
    "required": False,
    "schema": STRING,
}
QUERIES: Final[dict[str, list[Schema]]] = {
    "listed": [
        _query("status", "only those in this status", {"enum": ["", *STATUS["enum"]]}),
        _query("agent_id", "only those of this agent"),
        _query("label", "`key:value`; several must all match", {"type": "array", "items": {"pattern": "^[^:]+:"}}),
        _query("cursor", "the next_cursor of the page before"),
        LIMIT,
    ],
    "events": [AFTER, _query("limit", f"a number; {EVENTS_LIMIT} unless it is one, {EVENTS_MOST} at most")],
    "approvals": [LIMIT],
    "tools": [
        _query("prefix", "an id, or the part of it before `.` or `_`"),
        _query("cursor", "of the `Link` in the answer before"),
    ],
}
# route → (request model, answer, statuses of its refusals besides those of every route)
OPERATIONS: Final[dict[str, tuple[str | None, str | None, tuple[int, ...]]]] = {
    "health": (None, "Done", ()),
    "ready": (None, "Ready", ()),
    "prometheus": (None, None, ()),
    "create": ("CreateBody", "Execution", (400,)),
    "listed": (None, "Executions", (400,)),
    "show": (None, "Execution", (400, 404)),
    "cancel": (None, "Execution", (400, 404, 409)),
    "signal": ("SignalBody", "Signalled", (400, 404, 409)),
    "events": (None, "Events", (400, 404)),
    "approvals": (None, "Approvals", ()),
    "intent": ("IntentBody", "IntentResult", (400, 404, 409)),
    "step_result": ("StepResultBody", "Done", (400, 404, 409)),
    "started": ("StartedBody", "Done", (400, 404)),
    "results": ("JobResultBody", "Done", (400, 404, 409)),
    "capabilities": ("CapabilitiesBody", "Done", (400, 404)),
    "publish": ("ToolsBody", None, (400, 404)),
    "delete": (None, None, (400, 404)),
    "tools": (None, "Tools", (400,)),
}
CONSUMER: Final = _query("consumer_id", "names this connection", {**STRING, "maxLength": ID_BYTES}, is_required=True)
STREAMS: Final[dict[str, tuple[str, list[Schema], tuple[int, ...]]]] = {
    "/v0/agents/stream": (
        "What an agent's process is told: executions, results of tools, signals, approvals.",
        [_query("agent_id", "whose work", {**STRING, "maxLength": ID_BYTES}, is_required=True), CONSUMER],
        (400,),
    ),
    "/v0/runners/stream": (
        "Jobs for a runner.",
        [
            _query("runner_id", "which runner", {**STRING, "maxLength": ID_BYTES}, is_required=True),
            CONSUMER,
            _query("capabilities", "exact tool ids, between commas"),
        ],
        (400,),
    ),
    "/v0/executions/{execution_id}/stream": (
        "An execution's log: what there is, then what comes. 204: it has ended, and nothing is newer.",
        [AFTER, LAST_EVENT],
        (404,),
    ),
}


def document() -> Schema:
    """The whole OpenAPI document."""
    paths: dict[str, Schema] = {}
    for route in _routes():
        for method in sorted(route.methods or ()):
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method)
    for path, (summary, parameters, refusals) in STREAMS.items():
        paths[path] = {"get": _stream(path, summary, parameters, refusals)}
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework kernel door",
            "Executions of agents, their steps and their log. Unknown members are ignored.",
        ),
        "servers": servers(8789),
        "tags": tags(paths),
        "paths": tagged(paths, "docs/kernel/overview.md"),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "one of the tokens"}},
        },
        "security": [{"bearer": []}],
    }


def _routes() -> Iterator[APIRoute]:
    for part in PARTS:
        for route in part.router.routes:
            if isinstance(route, APIRoute):
                yield route


def _operation(route: APIRoute, method: str) -> Schema:
    request, answer, refusals = OPERATIONS[route.name]
    is_open = (method, route.path) in OPEN
    made: Schema = {
        "summary": str(route.description),
        "operationId": route.name,
        "parameters": [*_in_path(route.path), *QUERIES.get(route.name, [])],
        "responses": {str(route.status_code or 200): _success(route, answer), **_failures(refusals, is_open)},
    }
    if request:
        made["requestBody"] = {
            "required": True,
            "description": f"At most {BODY_BYTES} bytes and {MAX_DEPTH} levels, of any Content-Type.",
            "content": {JSON: {"schema": ref(request)}},
        }
    return {**made, "security": [{}]} if is_open else made


def _stream(path: str, summary: str, parameters: list[Schema], refusals: tuple[int, ...]) -> Schema:
    events = {"description": "frames", "headers": EVERY, "content": {"text/event-stream": {"schema": STRING}}}
    return {
        "summary": summary,
        "operationId": f"{path.split('/')[2]}_stream",
        "parameters": [*_in_path(path), *parameters],
        "responses": {"200": events, **_nothing_newer(parameters), **_failures(refusals, is_open=False)},
    }


def _nothing_newer(parameters: list[Schema]) -> Schema:
    return {"204": {"description": "nothing is newer", "headers": EVERY}} if LAST_EVENT in parameters else {}


def _in_path(path: str) -> list[Schema]:
    return [path_parameter(part[1:-1], IN_PATH) for part in path.split("/") if part.startswith("{")]


def _success(route: APIRoute, answer: str | None) -> Schema:
    if route.status_code == 204:
        return {"description": "done", "headers": EVERY}
    if answer is None:
        return {"description": "numbers", "headers": EVERY, "content": {"text/plain": {"schema": STRING}}}
    headers = {**EVERY, "Link": NEXT_PAGE} if answer == "Tools" else EVERY
    return {"description": answer, "headers": headers, "content": {JSON: {"schema": ref(answer)}}}


def _failures(refusals: tuple[int, ...], is_open: bool) -> Schema:
    statuses = {*refusals, *ALWAYS} | (set() if is_open else {401})
    return {str(status): _failure(status) for status in sorted(statuses)}


def _failure(status: int) -> Schema:
    made: Schema = {"description": f"code: {CODES[status]}"}
    headers = {} if status in EDGE else {"headers": EVERY}
    return {**made, **headers, "content": {JSON: {"schema": ref("Error")}}}
