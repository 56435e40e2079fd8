"""The operator's door's OpenAPI document, from its routes and error table."""

from typing import Final

from local.openapi.parts import STRING, Schema, an_object, info, ref, servers, tags
from piecework.ops.door import HEALTH, ROUTES, STATUS
from piecework.ops.status import DOORS, QUEUES, SHOWN

CODES_BY_STATUS: Final = {
    status: sorted(code for code, found in STATUS.items() if found == status) for status in sorted(set(STATUS.values()))
}
OR_NULL: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
QUEUE: Final = an_object(dict.fromkeys(("waiting", "in_flight", "delayed", "dead_letters"), OR_NULL))
ANSWERS: Final[Schema] = {
    "Health": an_object({"status": {"const": "ok"}}),
    "Status": an_object(
        {
            "version": STRING,
            "doors": an_object({door: {"type": "boolean"} for door in DOORS}),
            "settings": an_object(dict.fromkeys(SHOWN, STRING), optional=SHOWN),
            "queues": an_object(dict.fromkeys(QUEUES, QUEUE), optional=tuple(QUEUES)),
        }
    ),
    "Error": an_object({"error": {"type": "string", "maxLength": 500}, "code": STRING}),
}
# path → (what it does, answer)
OPERATIONS: Final[dict[str, tuple[str, str]]] = {
    HEALTH: ("Say that the function runs", "Health"),
    "/ops/status": ("Say what is deployed, and how many messages wait", "Status"),
}
TAGS: Final = {  # the second words of the paths
    "health": "whether the door is alive",
    "status": "what is deployed, and how it stands",
}
ALWAYS: Final = (500, 503)
GUARDED: Final = (401, 403)


def document() -> Schema:
    """The whole OpenAPI document."""
    paths = {path: {method.lower(): operation(path) for method in methods} for path, methods in ROUTES.items()}
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework operator's door",
            "What the doors have stored, for operators. Roles: viewer and approver read, operator reads and writes.",
        ),
        "servers": servers(8790),
        "tags": tags({path.removeprefix("/ops"): {} for path in paths}, TAGS),
        "paths": paths,
        "components": {
            "schemas": ANSWERS,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "user = token name, password = secret"},
                "bearer": {"type": "http", "scheme": "bearer", "description": "the secret"},
            },
        },
        "security": [{"basic": []}, {"bearer": []}],
    }


def operation(path: str) -> Schema:
    """One operation of a path."""
    summary, answer = OPERATIONS[path]
    tag = path.split("/")[2]
    made: Schema = {
        "summary": summary,
        "description": "More in docs/ops.md.",
        "operationId": "_".join(word for word in path.removeprefix("/ops/").split("/") if "{" not in word),
        "tags": [tag],
        "responses": {"200": {"description": answer, "content": {"application/json": {"schema": ref(answer)}}}},
    }
    failures = ALWAYS if path == HEALTH else (*GUARDED, *ALWAYS)
    made["responses"] |= {str(status): _failure(status) for status in sorted(failures)}
    if path == HEALTH:
        made["security"] = [{}]
    return made


def _failure(status: int) -> Schema:
    codes = ", ".join(CODES_BY_STATUS[status])
    return {"description": f"code: {codes}", "content": {"application/json": {"schema": ref("Error")}}}
