"""Schemas of the kernel door's bodies: requests from the door's own models, answers beside them."""

from typing import Any, Final

from kernel.http.models import model_of
from kernel.http.shapes import Body
from local.openapi.parts import COUNT, REF, STRING, Schema, an_object, ref
from piecework.kernel.model.payloads import PAYLOADS
from piecework.kernel.model.state import Status

UUID: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}
TIME: Final[Schema] = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,}Z$"}
STATUS: Final[Schema] = {"enum": [status.value for status in Status]}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": STRING}
CODES: Final = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    409: "CONFLICT",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    503: "SERVICE_UNAVAILABLE",
}

REASONS: Final[Schema] = {
    "error": {"anyOf": [STRING, {"type": "null"}], "description": "why it has failed, else null"},
    "waiting_for": {
        "anyOf": [STRING, {"type": "null"}],
        "description": "what it waits for now, in words for people; null when it has ended",
    },
}
ROW: Final[Schema] = {
    "id": UUID,
    "status": STATUS,
    "agent_id": STRING,
    "labels": LABELS,
    "created_at": TIME,
    "updated_at": TIME,
}


def maybe(schema: Schema, told: str = "") -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]} | ({"description": told} if told else {})


MORE: Final[Schema] = {"type": "boolean", "description": "there are more than are shown"}
CONNECTION: Final[Schema] = {
    "consumer_id": STRING,
    "connected": {"type": "boolean", "description": "its stream is open; else it may still come back"},
    "since": {
        "anyOf": [TIME, {"type": "null"}],
        "description": "it has come back in time ever since; null where an earlier release opened it",
    },
    "lease_until": TIME,
}
WORK: Final[Schema] = {
    "executions": {"type": "array", "items": UUID, "description": "the first 10"},
    "more_executions": MORE,
}
JOB: Final[Schema] = {
    "id": UUID,
    "execution_id": UUID,
    "step_id": {"anyOf": [UUID, {"type": "null"}], "description": "null when the execution has moved on"},
    "tool_id": {"anyOf": [STRING, {"type": "null"}]},
}
PAUSE: Final[Schema] = maybe(
    an_object(
        {
            "at": TIME,
            "by": maybe(STRING, "the name of the token, if there is one"),
            "reason": STRING,
            "resumed_at": maybe(TIME, "null: the pause holds"),
            "resumed_by": maybe(STRING),
            "resumed_reason": maybe(STRING),
        }
    ),
    "the last one; null when there was none lately",
)
ANSWERS: Final[dict[str, Schema]] = {
    "Execution": an_object(
        {
            **ROW,
            "input": {},
            "output": {},
            **REASONS,
            "again_of": {"anyOf": [UUID, {"type": "null"}], "description": "the execution that it is once more"},
            "forgotten": maybe(
                an_object(
                    {
                        "at": TIME,
                        "by": maybe(STRING),
                        "reason": STRING,
                        "complete": {"type": "boolean", "description": "false: some is left to erase; ask again"},
                    }
                ),
                "that what it was about is erased",
            ),
        }
    ),
    "Executions": an_object(
        {
            "executions": {"type": "array", "items": an_object({**ROW, **REASONS}, optional=tuple(REASONS))},
            "next_cursor": STRING,
        }
    ),
    "Agents": an_object(
        {
            "agents": {
                "type": "array",
                "items": an_object(
                    {
                        "agent_id": STRING,
                        "consumers": {"type": "array", "items": an_object({**CONNECTION, **WORK})},
                        "more_consumers": MORE,
                        "waiting": {**COUNT, "description": "executions that wait for a consumer, at most 100"},
                        "more_waiting": MORE,
                        "hosted": {
                            "anyOf": [an_object(WORK), {"type": "null"}],
                            "description": "of a registered executor of this name, what it works on; else null",
                        },
                        "pause": PAUSE,
                    }
                ),
            },
            "next_cursor": STRING,
        }
    ),
    "Paused": an_object({"agent_id": STRING, "pause": PAUSE}),
    "Runners": an_object(
        {
            "runners": {
                "type": "array",
                "items": an_object(
                    {
                        "runner_id": STRING,
                        "connections": {
                            "type": "array",
                            "items": an_object(
                                {
                                    **CONNECTION,
                                    "job": {"anyOf": [an_object(JOB), {"type": "null"}]},
                                    "tools": {"type": "array", "items": STRING, "description": "the first 25"},
                                    "more_tools": MORE,
                                }
                            ),
                        },
                        "more_connections": MORE,
                    }
                ),
            },
            "next_cursor": STRING,
        }
    ),
    "Event": an_object(
        {
            "id": UUID,
            "execution_id": UUID,
            "step_id": STRING,
            "type": {"enum": list(PAYLOADS)},
            "schema_version": {"const": 1},
            "timestamp": TIME,
            "payload": {
                "type": "object",
                "description": "by type; with `private: true` beside them, `arguments` are"
                ' `{"shown": "private"}` for all but approvers',
            },
            "causation_id": UUID,
            "correlation_id": UUID,
            "idempotency_key": STRING,
            "sequence": {"type": "integer", "minimum": 1},
            "by": {**STRING, "description": "the name of the token of the caller who caused it; else it is absent"},
        },
        optional=("by",),
    ),
    "Events": an_object({"events": {"type": "array", "items": ref("Event")}, "latest_sequence": COUNT}),
    "IntentResult": an_object(
        {
            "accepted": {"type": "boolean"},
            "step_id": UUID,
            "pending_approval": {"type": "boolean", "description": "true: a person is asked; else it is absent"},
            "error": STRING,
            "rule_id": STRING,
        },
        optional=("step_id", "pending_approval", "error", "rule_id"),
    ),
    "Approvals": an_object({"approvals": {"type": "array", "items": ref("Approval")}, "next_cursor": STRING}),
    "Approval": an_object(
        {
            "execution_id": UUID,
            "agent_id": STRING,
            "step_id": UUID,
            "tool_id": STRING,
            "since": TIME,
            "state": {"enum": ["waiting", "answered", "cancelled"]},
            "rule_id": maybe(STRING),
            "reason": maybe(STRING),
            "asked_by": maybe(STRING, "the name of the token that made the call"),
            "expires_at": maybe(TIME, "null: it waits as long as its execution lives"),
            "on_timeout": maybe({"enum": ["deny", "fail"]}),
            "arguments": an_object(
                {
                    "shown": {"enum": ["whole", "beginning", "private", "none", "unknown"]},
                    "value": {"description": "whole: the arguments"},
                    "text": {"type": "string", "description": "beginning: the first characters of their JSON text"},
                    "length": {"type": "integer", "minimum": 1, "description": "beginning: characters of all of it"},
                },
                optional=("value", "text", "length"),
            ),
            "answer": maybe(
                an_object(
                    {
                        "approved": {"type": "boolean"},
                        "by": maybe(STRING, "the name of the token that answered"),
                        "at": TIME,
                        "reason": maybe(STRING),
                        "timed_out": {"type": "boolean", "description": "nobody answered in time"},
                    }
                )
            ),
        }
    ),
    "Tools": {
        "type": "array",
        "items": an_object(
            {"id": STRING, "description": STRING, "input_schema": {}, "runner_id": STRING, "registered_at": TIME}
        ),
    },
    "Done": an_object({"status": {"const": "ok"}}),
    "Signalled": an_object(
        {
            "status": {"const": "ok"},
            "already": {"type": "boolean", "description": "true: the same caller had given the same answer before"},
        },
        optional=("already",),
    ),
    "Standing": an_object(
        {
            "step_id": STRING,
            "approved": {"type": "boolean"},
            "by": {"anyOf": [STRING, {"type": "null"}], "description": "the name of the token that answered, if known"},
            "at": {"anyOf": [TIME, {"type": "null"}]},
        }
    ),
    "Cancellable": an_object(
        {
            "count": COUNT,
            "cancelled": COUNT,
            "remaining": COUNT,
            "more": {"type": "boolean", "description": "there may be others after next_cursor"},
            "cursor": STRING,
            "next_cursor": STRING,
        },
        optional=("count", "cancelled", "remaining"),
    ),
    "Ready": an_object({"status": {"const": "ready"}}),
    "Error": an_object(
        {
            "error": STRING,
            "code": {"enum": list(CODES.values())},
            "details": {"anyOf": [ref("Standing"), ref("Cancellable"), {"type": "null"}]},
        }
    ),
}


def schemas() -> dict[str, Any]:
    """Every named schema."""
    return {**{body.__name__: _request(body) for body in Body.__subclasses__()}, **ANSWERS}


def _request(body: type[Body]) -> Schema:
    """A body's schema with what must be there; null stands for a member that is absent."""
    schema: Schema = model_of(body).model_json_schema(ref_template=REF)
    schema.pop("$defs", None)
    schema["required"] = [name for name in schema["properties"] if name in body.NEEDED]
    for name, given in schema["properties"].items():
        schema["properties"][name] = _member(given, name in schema["required"])
    return schema


def _member(given: Schema, is_required: bool) -> Schema:
    given = {key: value for key, value in given.items() if key not in ("default", "title")}
    kinds = [kind for kind in given.pop("anyOf", [{}]) if kind != {"type": "null"}]
    made = {**kinds[0], **given}
    if is_required:
        return {**made, "minLength": 1} if made.get("type") == "string" and "enum" not in made else made
    is_anything = "type" not in made and "$ref" not in made
    return made if is_anything else {"anyOf": [made, {"type": "null"}]}
