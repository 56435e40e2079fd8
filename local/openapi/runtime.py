"""The runtime door's OpenAPI document, from its routes, models and error table."""

from typing import Final

from local.openapi.parts import (
    COUNT,
    REF,
    SHA256,
    STRING,
    Schema,
    an_object,
    info,
    path_parameter,
    servers,
    tagged,
    tags,
)
from piecework.edge.http import BODY_LIMIT
from piecework.runtime.door import ROUTES, STATUS
from piecework.runtime.events.messages import AgentEventCallback
from piecework.runtime.execute.models import Contract, ExecuteRequest
from piecework.runtime.verify.models import VerifyRequest

CODES_BY_STATUS: Final = {
    status: sorted(code for code, found in STATUS.items() if found == status) for status in sorted(set(STATUS.values()))
}

ARTIFACT_REF: Final = an_object(
    {"uri": STRING, "digest": SHA256, "size_bytes": COUNT, "mime": STRING, "created_at": COUNT, "producer": STRING}
)
DECISION: Final = an_object(
    {
        "decision_id": STRING,
        "action": STRING,
        "route": {"enum": ["noop", "wattetheria_commit", "wattswarm_direct"]},
        "reason": STRING,
        "payload": {},
    },
    optional=("reason", "payload"),
)
ANSWERS: Final[Schema] = {
    "Health": an_object({"status": {"const": "ok"}}),
    "RuntimeCapabilities": an_object(
        {
            "task_types": {"type": "array", "items": STRING},
            "profiles": {"type": "array", "items": STRING, "contains": {"const": "default"}},
            "provider_family": {"type": "string", "minLength": 1},
            "model_id": {"type": "string", "minLength": 1},
        }
    ),
    "ExecuteResponse": an_object(
        {
            "candidate_output": {},
            "evidence_inline": {"type": "array", "items": an_object({"mime": STRING, "content": STRING})},
            "evidence_refs": {"type": "array", "items": ARTIFACT_REF},
        }
    ),
    "VerifyResponse": an_object(
        {
            "passed": {"type": "boolean"},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "reason_codes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 65535}},
            "verification_status": {"enum": ["passed", "failed", "inconclusive"]},
            "verifier_result_hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "provider_family": {"type": "string", "minLength": 1},
            "model_id": {"type": "string", "minLength": 1},
        }
    ),
    "AgentEventCallbackResponse": an_object(
        {"ok": {"type": "boolean"}, "acked_at": COUNT, "detail": STRING, "decision": DECISION}, optional=("decision",)
    ),
    "Error": an_object({"error": {"type": "string", "maxLength": 512}, "code": STRING}),
}

# path → (what it does, request model, answer, statuses of its errors)
Operation = tuple[str, str | None, str | None, tuple[int, ...]]
WITH_BODY: Final = (400, 401, 413, 415, 422, 500, 503)
OPERATIONS: Final[dict[str, Operation]] = {
    "/health": ("Say that the runtime is alive", None, "Health", (401, 503)),
    "/capabilities": ("Say what the runtime serves", None, "RuntimeCapabilities", (401, 503)),
    "/execute": ("Run one task, once", "ExecuteRequest", "ExecuteResponse", (*WITH_BODY, 409, 410, 502)),
    "/verify": ("Judge a candidate under its policy", "VerifyRequest", "VerifyResponse", WITH_BODY),
    "/agent-events": (
        "Acknowledge an event of an agent's life",
        "AgentEventCallback",
        "AgentEventCallbackResponse",
        (*WITH_BODY, 409, 410, 502),
    ),
    "/artifacts/{digest}/{token}": ("Fetch evidence bytes", None, None, (404, 503)),
}
TAGS: Final = {  # the first words of the paths
    "agent-events": "events of an agent's life",
    "artifacts": "bytes of evidence",
    "capabilities": "what the runtime serves",
    "execute": "work",
    "health": "whether the door is alive",
    "verify": "verdicts",
}


def document() -> Schema:
    """The whole OpenAPI document."""
    paths = {path: {method.lower(): operation(path) for method in methods} for path, methods in ROUTES.items()}
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework runtime door",
            "What a WattSwarm kernel calls. Unknown members are ignored; errors are never 408 or 429.",
        ),
        "servers": servers(8787),
        "tags": tags(paths, TAGS),
        "paths": tagged(paths, "README.md and the page of this endpoint in docs/"),
        "components": {
            "schemas": {**request_schemas(), **ANSWERS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "user = token name, password = secret"},
                "bearer": {"type": "http", "scheme": "bearer", "description": "the secret"},
            },
        },
        "security": [{"basic": []}, {"bearer": []}],
    }


def request_schemas() -> Schema:
    """The request models' schemas, nested models beside them."""
    schemas: Schema = {}
    for model in (ExecuteRequest, Contract, VerifyRequest, AgentEventCallback):
        schema = model.model_json_schema(ref_template=REF)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas["ExecuteRequest"]["properties"]["task_contract"] = {"$ref": REF.format(model="Contract")}
    return schemas


def operation(path: str) -> Schema:
    """One operation of a path."""
    summary, request, answer, failures = OPERATIONS[path]
    made: Schema = {"summary": summary, "operationId": path.strip("/").split("/")[0].replace("-", "_")}
    if request:
        made["requestBody"] = {
            "required": True,
            "description": f"At most {BODY_LIMIT} bytes and 140 levels.",
            "content": {"application/json": {"schema": {"$ref": REF.format(model=request)}}},
        }
    if "{" in path:
        made["parameters"] = [
            path_parameter("digest", "^[0-9a-f]{64}$"),
            path_parameter("token", "^[A-Za-z0-9_-]{22}$"),
        ]
        made["security"] = [{}]
    made["responses"] = {"200": success(answer)} | {str(status): failure(status) for status in sorted(failures)}
    return made


def success(answer: str | None) -> Schema:
    """The 200 answer: JSON of a named schema, or bytes."""
    if answer is None:
        return {"description": "The bytes, of the media type they were stored with", "content": {"*/*": {}}}
    schema = {"$ref": REF.format(model=answer)}
    return {"description": answer, "content": {"application/json": {"schema": schema}}}


def failure(status: int) -> Schema:
    """An error answer with its codes."""
    codes = ", ".join(CODES_BY_STATUS.get(status, ["internal"]))
    schema = {"$ref": REF.format(model="Error")}
    return {"description": f"code: {codes}", "content": {"application/json": {"schema": schema}}}
