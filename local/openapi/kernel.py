"""The kernel door's OpenAPI document: FastAPI's own of its routes, the streams beside, and what all answers share."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from kernel.http.api import ROUTES
from kernel.http.documented import parameters, query
from kernel.http.edge import OPEN
from kernel.http.executions import AFTER
from local.openapi.kernel_bodies import CODES, schemas
from local.openapi.parts import STRING, Schema, info, path_parameter, ref, servers, tagged, tags
from local.openapi.roles import needs_of_routes
from piecework.edge.roles import Roles, needed
from piecework.kernel.edge import ID_BYTES
from piecework.kernel.needs import ANY_ROLE, ANYBODY

JSON: Final = "application/json"
REQUEST_ID: Final[Schema] = {"X-Request-ID": {"required": True, "schema": {"type": "string", "minLength": 1}}}
EDGE: Final = (403, 429)  # answered before the door
ALWAYS: Final = ("401", *map(str, EDGE), "500", "503")
INVALID: Final = "422"  # FastAPI's, which the door never answers
PAGE: Final = "docs/kernel/overview.md"
MORE: Final = f"More in {PAGE} and docs/kernel/roles.md."
IN_PATH: Final = "^[^/]+$"
FRAMES: Final[Schema] = {"description": "frames", "content": {"text/event-stream": {"schema": STRING}}}
LAST_EVENT: Final[Schema] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "as after_sequence, where that is absent; browsers send it when they come again",
    "required": False,
    "schema": STRING,
}


def _id(description: str) -> Schema:
    return {**query(description, {**STRING, "maxLength": ID_BYTES}), "required": True}


CONSUMER: Final = _id("names this connection")
# The streams' function opens its tables when it is imported, so its routes are described here.
STREAMS: Final[dict[str, Schema]] = {
    "/v0/agents/stream": {
        "description": "What an agent's process is told: executions, results of tools, signals, approvals.",
        "responses": {"200": FRAMES, "400": {}},
        **parameters(agent_id=_id("whose work"), consumer_id=CONSUMER),
    },
    "/v0/runners/stream": {
        "description": "Jobs for a runner.",
        "responses": {"200": FRAMES, "400": {}},
        **parameters(
            runner_id=_id("which runner"),
            consumer_id=CONSUMER,
            capabilities=query("exact tool ids, between commas"),
        ),
    },
    "/v0/executions/{execution_id}/stream": {
        "description": "An execution's log: what there is, then what comes. 204: it has ended, and nothing is newer.",
        "responses": {"200": FRAMES, "204": {"description": "nothing is newer"}, "404": {}},
        "parameters": [
            path_parameter("execution_id", IN_PATH),
            *parameters(after_sequence=AFTER)["parameters"],
            LAST_EVENT,
        ],
    },
}
TAGS: Final = {  # the first words of the paths
    "agents": "what agents' processes ask for and report",
    "approvals": "steps that wait for a person",
    "executions": "executions, their log and their signals",
    "health": "whether the door is alive",
    "metrics": "numbers for operators",
    "ready": "whether storage answers",
    "runners": "jobs of tool runners",
    "tools": "the directory of tools",
}


def document() -> Schema:
    """The whole OpenAPI document."""
    paths: dict[str, Schema] = get_openapi(title="", version="", routes=list(_routes()))["paths"]
    for path, stream in deepcopy(STREAMS).items():
        paths[path] = {"get": {**stream, "operationId": f"{path.split('/')[2]}_stream"}}
    needs = needs_of_routes()
    for path, operations in paths.items():
        for method, operation in operations.items():
            _finish(operation, is_open=(method.upper(), path) in OPEN)
            operation.update(_roles(needs[method.upper(), path]))
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework kernel door",
            "Executions of agents, their steps and their log. Unknown members are ignored.",
        ),
        "servers": servers(8789),
        "tags": tags(paths, TAGS),
        "paths": tagged(paths, PAGE),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "one of the tokens"}},
        },
        "security": [{"bearer": []}],
    }


def _routes() -> Iterator[APIRoute]:
    for route in ROUTES:
        name = route.operation.__name__
        yield APIRoute(route.path, route.operation, methods=route.methods, operation_id=name, **route.about)


def _roles(needs: Roles) -> Schema:
    """What an operation says of the roles of its callers, where roles are given."""
    return {} if needs in (ANYBODY, ANY_ROLE) else {"description": f"{needed(needs).capitalize()}. {MORE}"}


def _finish(operation: Schema, *, is_open: bool) -> None:
    """Add what the edge does to every request, and say of ids in paths what a router takes."""
    operation["summary"] = operation.pop("description")
    operation["parameters"] = [
        path_parameter(given["name"], IN_PATH) if given["in"] == "path" else given
        for given in operation.get("parameters", ())
    ]
    answers: Schema = operation["responses"]
    answers.pop(INVALID, None)
    if is_open:
        operation["security"] = [{}]
    answers.update({status: {} for status in ALWAYS if not (is_open and status == "401")})
    for status, answer in answers.items():
        if int(status) in CODES:
            answer |= {"description": f"code: {CODES[int(status)]}", "content": {JSON: {"schema": ref("Error")}}}
        if int(status) not in EDGE:
            answer["headers"] = {**REQUEST_ID, **answer.get("headers", {})}
