"""The worker door's OpenAPI document, from its routes, limits, error table and contract schema."""

from typing import Final

from local.openapi.parts import COUNT, STRING, Schema, an_object, info, path_parameter, ref, servers, tagged, tags
from local.openapi.worker_bodies import CONTRACT_PATTERN, TASK_PATTERN, UNITS, schemas
from piecework.worker.door import BODY_BYTES, CONTENT_TYPE, CONTRACT_BYTES, JSON_DEPTH, ROUTES
from piecework.worker.errors import CODES
from piecework.worker.payment.payments import HEADER, HEADER_BYTES

CODES_BY_STATUS: Final = {
    status: sorted(code for code, found in CODES.items() if found.status == status)
    for status in sorted({meaning.status for meaning in CODES.values()})
}
JSON: Final = CONTENT_TYPE.partition(";")[0]
EVERY: Final[Schema] = {
    "X-Request-Id": {"required": True, "schema": {"type": "string", "pattern": "^[0-9A-Z]{26}$"}},
    "Cache-Control": {"required": True, "schema": {"const": "no-store"}},
}
RECEIPT: Final[Schema] = {
    name: {"schema": STRING, "description": "base64 of the settlement's outcome, once there is one"}
    for name in ("PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE")
}
DEMAND: Final[Schema] = {
    "PAYMENT-REQUIRED": {"required": True, "schema": STRING, "description": "base64 of the x402 version 2 demand"},
    "X-Payment-Address": {"required": True, "schema": STRING},
    "X-Payment-Amount": {"required": True, "schema": STRING},
    "X-Payment-Currency": {"required": True, "schema": STRING},
    "X-Payment-Network": {"required": True, "schema": STRING},
}
WAIT: Final[Schema] = {"Retry-After": {"schema": UNITS}}
EVENT: Final = an_object(
    {
        "id": {"type": "string", "pattern": "^[1-9][0-9]*$"},
        "event": {"enum": ["progress", "output", "item", "error", "done"]},
        "data": STRING,
        "retry": COUNT,
    },
    optional=("id", "event", "data", "retry"),  # the end of a buffered answer is a comment alone
)
ALWAYS: Final = (429, 500)
WITH_BODY: Final = (400, 409, 413, 415, 422)

CONTRACT_HEADER: Final[Schema] = {
    "name": "X-Contract-ID",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "pattern": CONTRACT_PATTERN},
}
PAYMENTS: Final[list[Schema]] = [
    {
        "name": name.upper(),
        "in": "header",
        "description": f"x402 version {version}: base64 of the payment; one such header at most",
        "schema": {"type": "string", "maxLength": HEADER_BYTES},
    }
    for version, name in sorted(HEADER.items(), reverse=True)
]
TAGS: Final = {  # the first words of the paths
    "contracts": "signed contracts",
    "execute": "work",
    "healthz": "whether the door is alive",
    "manifest": "who works here, and for what price",
    "stream": "a task as it goes on",
    "tasks": "tasks and their results",
}


def document() -> Schema:
    """The whole OpenAPI document."""
    paths = {
        path: {method.lower(): OPERATIONS[path] | _path_of(path) for method in methods}
        for path, methods in ROUTES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework worker door",
            "HIRE/1.0 execution phase, paid through x402. No login: contracts are signed, tasks paid.",
        ),
        "servers": servers(8788),
        "tags": tags(paths, TAGS),
        "paths": tagged(paths, "docs/worker/overview.md"),
        "components": {"schemas": schemas()},
        "security": [],
    }


def _path_of(path: str) -> Schema:
    patterns = {"task_id": TASK_PATTERN, "contract_id": CONTRACT_PATTERN}
    named = [path_parameter(name, pattern) for name, pattern in patterns.items() if f"{{{name}}}" in path]
    return {"parameters": [*named, *OPERATIONS[path].get("parameters", [])]}


def _body(schema: Schema, limit: int) -> Schema:
    return {
        "required": True,
        "description": f"At most {limit} bytes and {JSON_DEPTH} levels.",
        "content": {JSON: {"schema": schema}},
    }


def _answer(description: str, *models: str, headers: Schema | None = None) -> Schema:
    schema = ref(models[0]) if len(models) == 1 else {"anyOf": [ref(model) for model in models]}
    content = {JSON: {"schema": schema}}
    return {"description": description, "headers": {**EVERY, **(headers or {})}, "content": content}


def _failures(*statuses: int) -> Schema:
    made: Schema = {}
    for status in sorted({*statuses, *ALWAYS}):
        codes = ", ".join(CODES_BY_STATUS[status])
        made[str(status)] = _answer(f"code: {codes}", "Failed", headers=WAIT if status in (429, 503) else None)
    return made


def _get(summary: str, name: str, model: str, *failures: int) -> Schema:
    return {
        "summary": summary,
        "operationId": name,
        "responses": {"200": _answer(model, model), **_failures(*failures)},
    }


OPERATIONS: Final[Schema] = {
    "/execute": {
        "summary": "Do the task of a signed contract, once, for one payment",
        "operationId": "execute",
        "parameters": [CONTRACT_HEADER, *PAYMENTS],
        "requestBody": _body({"description": "The task's input, as the contract's input_schema has it."}, BODY_BYTES),
        "responses": {
            "200": _answer("the paid result", "Completed", "Partial", headers=RECEIPT),
            "202": _answer("the task goes on", "Pending", "Partial", headers=WAIT),
            "402": _answer("pay, and send the request again", "PaymentRequired", "Failed", headers=DEMAND | RECEIPT),
            **_failures(*WITH_BODY, 403, 404, 410, 503, 504),
        },
    },
    "/tasks/{task_id}": {
        "summary": "Read a task; failed ones too",
        "operationId": "task",
        "parameters": [CONTRACT_HEADER],
        "responses": {
            "200": _answer("the task", "Completed", "Partial", "Pending", "Failed", headers=RECEIPT | WAIT),
            **_failures(400, 404),
        },
    },
    "/stream/{task_id}": {
        "summary": "Follow a task as server-sent events",
        "operationId": "stream",
        "parameters": [
            CONTRACT_HEADER | {"required": False, "description": "or the query's st"},
            {"name": "st", "in": "query", "description": "the token of a stream_url", "schema": STRING},
            {"name": "Last-Event-ID", "in": "header", "schema": STRING},
            {"name": "after", "in": "query", "description": "as Last-Event-ID", "schema": STRING},
        ],
        "responses": {
            "200": {"description": "events", "headers": EVERY, "content": {"text/event-stream": {"schema": EVENT}}},
            "204": {"description": "the task has ended and there is nothing new", "headers": EVERY},
            **_failures(400, 404),
        },
    },
    "/contracts": {
        "summary": "Take in a contract that both parties have signed",
        "operationId": "register",
        "requestBody": _body(ref("Registration"), CONTRACT_BYTES),
        "responses": {
            "200": _answer("the same contract was here before", "Registered"),
            "201": _answer("taken in", "Registered"),
            **_failures(*WITH_BODY, 503),
        },
    },
    "/contracts/{contract_id}": _get("Say what became of a contract", "contract", "ContractState", 400, 404),
    "/manifest": _get("Say what this worker can be hired for", "manifest", "Manifest"),
    "/healthz": _get("Say that the worker is alive", "health", "Health"),
}
