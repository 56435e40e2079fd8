"""The operator's door's OpenAPI document, from its routes and error table."""

import re
from collections.abc import Mapping
from typing import Final, get_args

from local.openapi import ops_kernel
from local.openapi.ops_parts import (
    ATOMIC,
    CONTRACT_ID,
    DAY,
    DECIDING,
    DOUBT,
    HEX,
    LEDGER,
    MOVE,
    OBJECT_OR_NULL,
    REASON,
    RESOLVED,
    SWITCH,
    TEXT_OR_NULL,
    VERDICTS,
)
from local.openapi.parts import COUNT, SHA256, STRING, Schema, an_object, info, path_parameter, ref, servers, tags
from piecework.durable.pauses import MOST_PAUSES
from piecework.durable.pauses import SCOPE as SCOPES
from piecework.durable.pieces import State
from piecework.edge.http import BODY_LIMIT
from piecework.edge.roles import Role
from piecework.ops.door import HEALTH, PUBLIC, ROUTES, SIGN_IN, STATUS
from piecework.ops.listing import LARGEST_PAGE, PAGE
from piecework.ops.pieces import MOST_STEPS
from piecework.ops.query import MOST_MS
from piecework.ops.standing import AGENTS_SHOWN, OLDEST
from piecework.ops.status import DOORS, QUEUES, SHOWN
from piecework.ops.tasks import MOST_DELIVERIES, MOST_MOVES, NO_TASK, NOT_KEPT, STATES
from piecework.ops.verbs import MOST_LETTERS
from piecework.ops.verdicts import BY_ID, LARGEST_REASON, STATUSES
from piecework.webhooks.deliveries import MOST_TRIES
from piecework.worker.record.values import PaymentStatus

CODES_BY_STATUS: Final = {
    status: sorted(code for code, found in STATUS.items() if found == status) for status in sorted(set(STATUS.values()))
} | {429: ["rate_limited"]}  # the edge's own
FORGET_PIECE: Final = "/ops/pieces/{key}/forget"
FORGET_TASK: Final = "/ops/tasks/{contract_id}/forget"
RESEND: Final = "/ops/tasks/{contract_id}/webhooks/{event_id}/resend"
EVIDENCE, RESOLVE = (f"/ops/tasks/{{contract_id}}/payment/{verb}" for verb in ("evidence", "resolve"))
LOOK, REDRIVE = (f"/ops/dead-letters/{{name}}/{verb}" for verb in ("look", "redrive"))
OF_A_PIECE: Final = "/ops/pieces/{key}/verdicts"
KEY: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
OR_NULL: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
QUEUE: Final = an_object(
    dict.fromkeys(("waiting", "in_flight", "delayed", "dead_letters"), OR_NULL)
    | dict.fromkeys(("oldest_age_seconds", "oldest_dead_letter_age_seconds"), OR_NULL)
)
TIME: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MOST_MS}
IDS: Final = ("task_id", "execution_id", "attempt_id")
FORGOTTEN: Final[Schema] = {
    "anyOf": [
        {"type": "null"},
        an_object({"at_ms": COUNT, "by": STRING, "record_id": HEX, "complete": {"type": "boolean"}}),
    ]
}


def page(item: Schema) -> Schema:
    """A page of a list."""
    return an_object({"items": {"type": "array", "items": item}, "next": TEXT_OR_NULL})


IN_SHORT: Final[Schema] = {
    "key": KEY,
    **dict.fromkeys(("caller", "executor", *IDS), TEXT_OR_NULL),
    "state": {"enum": [state.value for state in State]},
    "is_lapsed": {"type": "boolean"},
    "claimed_at_ms": OR_NULL,
    "expires_at_ms": COUNT,
    "forgotten": FORGOTTEN,
}
SIGN_IN_MEMBERS: Final[Schema] = {
    "kind": {"enum": ["oidc", "tokens"]},
    **dict.fromkeys(("issuer", "client_id", "audience", "scope"), STRING),
    **dict.fromkeys(("authorization_endpoint", "token_endpoint", "end_session_endpoint"), STRING),
    "end_session_return": {"enum": ["logout_uri", "post_logout_redirect_uri"]},
}
PIECE_IN_SHORT: Final = an_object(IN_SHORT)
PIECE: Final = an_object(
    {
        **IN_SHORT,
        "failure": {"anyOf": [{"type": "null"}, an_object({"code": TEXT_OR_NULL, "message": TEXT_OR_NULL})]},
        "output": {"anyOf": [{"type": "null"}, an_object({"digest": SHA256, "size_bytes": COUNT})]},
        "evidence_refs": {
            "type": "array",
            "items": an_object(
                {"digest": SHA256, "size_bytes": COUNT, "mime": STRING, "created_at": COUNT, "producer": STRING}
            ),
        },
        "evidence_inline_count": COUNT,
        "steps": {"type": "array", "maxItems": MOST_STEPS, "items": an_object({"name": STRING, "at_ms": COUNT})},
        "has_more_steps": {"type": "boolean"},
    }
)
TASK_IN_SHORT: Final[Schema] = {
    "contract_id": CONTRACT_ID,
    "state": {"enum": list(STATES)},
    "payment": {"enum": list(get_args(PaymentStatus))},
    "executor": STRING,
    **dict.fromkeys(("generation", "attempt", "attempts", "created_at_ms", "looks"), COUNT),
    **dict.fromkeys(("finished_at_ms", "next_look_at_ms"), OR_NULL),
    "is_in_doubt": SWITCH,
    "forgotten": FORGOTTEN,
    "network": STRING,
    "atomic": ATOMIC,
}
TRIES: Final[Schema] = {
    "type": "array",
    "maxItems": MOST_TRIES,
    "items": an_object({"attempt": COUNT, "status": OR_NULL, "at_ms": COUNT}),
}
TASK: Final = an_object(
    {
        **TASK_IN_SHORT,
        "failure": OBJECT_OR_NULL,
        **dict.fromkeys(("payer", "nonce", "claim"), STRING),
        "valid_before_ms": COUNT,
        "transactions_named": {"type": "array", "items": STRING},
        "receipt": OBJECT_OR_NULL,
        "resolution": OBJECT_OR_NULL,
        "moves": {"type": "array", "maxItems": MOST_MOVES, "items": MOVE},
        "has_more_moves": SWITCH,
        "webhooks": {
            "type": "array",
            "maxItems": MOST_DELIVERIES,
            "items": an_object(
                {**dict.fromkeys(("event_id", "host", "state"), STRING), "attempt": COUNT, "tries": TRIES}
            ),
        },
        "has_more_webhooks": SWITCH,
    }
)
CONTRACT: Final = an_object(
    {
        "contract_id": CONTRACT_ID,
        "state": {"enum": [NO_TASK, NOT_KEPT, *STATES]},
        **dict.fromkeys(("source", "hash"), STRING),
        **dict.fromkeys(("stored_at_ms", "expires_at_ms"), COUNT),
    }
)
RECORD: Final = an_object(
    {
        "record_id": HEX,
        "at_ms": COUNT,
        **dict.fromkeys(("by", "verb", "target", "reason"), STRING),
        "outcome": OBJECT_OR_NULL,
    }
)
SCOPE: Final[Schema] = {"type": "string", "pattern": f"^({SCOPES.pattern})$"}
PAUSED_BY: Final[Schema] = {"since_ms": COUNT, "by": STRING, "reason": STRING}
PAUSE: Final = an_object({"scope": SCOPE, **PAUSED_BY})
PAUSED_AGENT: Final = an_object({"scope": {"type": "string", "pattern": "^agent:"}, **PAUSED_BY})
WAITS: Final = an_object({"is_known": SWITCH, "of": TEXT_OR_NULL, "since_ms": OR_NULL, "age_seconds": OR_NULL})


def paused(item: Schema, most: int) -> Schema:
    """What is paused, or null where it cannot be read."""
    return {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": most, "items": item}]}


LETTER: Final = an_object({"message_id": STRING, "body": STRING, "sent_at_ms": COUNT, "receives": COUNT})
ANSWERS: Final[Schema] = {
    "Health": an_object({"status": {"const": "ok"}}),
    "Caller": an_object({"name": STRING, "roles": {"type": "array", "items": {"enum": sorted(Role)}}}),
    "Status": an_object(
        {
            "version": STRING,
            "doors": an_object({door: {"type": "boolean"} for door in DOORS}),
            "settings": an_object(dict.fromkeys(SHOWN, STRING), optional=SHOWN),
            "queues": an_object(dict.fromkeys(QUEUES, QUEUE), optional=tuple(QUEUES)),
            "paused": paused(PAUSE, MOST_PAUSES),
            "paused_agents": paused(PAUSED_AGENT, AGENTS_SHOWN),
            "has_more_paused_agents": SWITCH,
            "oldest": an_object(dict.fromkeys(OLDEST, WAITS), optional=OLDEST),
        }
    ),
    "Pieces": page(PIECE_IN_SHORT),
    "Piece": PIECE,
    "Verdicts": VERDICTS,
    "Tasks": page(an_object(TASK_IN_SHORT)),
    "Task": TASK,
    "Contracts": page(CONTRACT),
    "Ledger": LEDGER,
    "Records": page(RECORD),
    "Pauses": an_object({"items": {"type": "array", "maxItems": MOST_PAUSES, "items": PAUSE}}),
    "Paused": an_object({"record_id": HEX, "pause": PAUSE, "is_new": SWITCH, "seen_within_ms": COUNT}),
    "Resumed": an_object({"record_id": HEX, "scope": SCOPE, "was_paused": SWITCH, "seen_within_ms": COUNT}),
    "ForgottenTask": an_object(
        {"record_id": HEX, "state": {"enum": list(STATES)}, **dict.fromkeys(("complete", "had_task"), SWITCH)}
    ),
    "ForgottenPiece": an_object(
        {
            "record_id": HEX,
            "was": {"enum": [state.value for state in State]},
            **dict.fromkeys(("complete", "is_listed"), SWITCH),
        }
    ),
    "Resent": an_object({"record_id": HEX, "was": STRING, "is_asked_for": SWITCH}),
    "Doubt": DOUBT,
    "Resolved": RESOLVED,
    "Letters": an_object({"letters": {"type": "array", "maxItems": MOST_LETTERS, "items": LETTER}}),
    "Redriven": an_object(
        {
            "record_id": HEX,
            "taken": COUNT,
            "put_back": COUNT,
            "uncertain": {"type": "array", "maxItems": MOST_LETTERS, "items": STRING},
        }
    ),
    "SignIn": an_object(SIGN_IN_MEMBERS, optional=tuple(SIGN_IN_MEMBERS.keys() - {"kind"})),
    "Error": an_object({"error": {"type": "string", "maxLength": 500}, "code": STRING}),
}
# path → (what it does, answer)
OPERATIONS: Final[dict[str, tuple[str, str | None]]] = {
    HEALTH: ("Say that the function runs", "Health"),
    "/ops/whoami": ("Say who the caller is, and which roles hold", "Caller"),
    SIGN_IN: ("Say how a browser signs somebody in", "SignIn"),
    "/ops/status": ("Say what is deployed, and how many messages wait", "Status"),
    "/ops/pieces": ("List pieces, the newest first", "Pieces"),
    "/ops/pieces/{key}": ("Show one piece", "Piece"),
    "/ops/pieces/{key}/evidence/{digest}": ("Fetch evidence of a piece", None),
    OF_A_PIECE: ("List verdicts on a piece's execution, the newest first", "Verdicts"),
    "/ops/verdicts": ("List recent verdicts, the newest first, and count them by reason", "Verdicts"),
    "/ops/piece": ("Show one piece by its caller and its three ids", "Piece"),
    "/ops/tasks": ("List hired tasks, the newest first", "Tasks"),
    "/ops/tasks/{contract_id}": ("Show a contract's task, its money and its webhooks", "Task"),
    "/ops/contracts": ("List contracts, the newest first", "Contracts"),
    "/ops/ledger": ("Show what came and what became owed on a day", "Ledger"),
    "/ops/records": ("List what operators did, the newest first", "Records"),
    "/ops/pauses": ("List the pauses of doors and executors that hold", "Pauses"),
    "/ops/pause": ("Give a door or an executor no new work", "Paused"),
    "/ops/resume": ("Give a door or an executor work again", "Resumed"),
    FORGET_PIECE: ("Forget what a piece was about", "ForgottenPiece"),
    FORGET_TASK: ("Forget what a contract and its task were about", "ForgottenTask"),
    RESEND: ("Send a webhook again", "Resent"),
    EVIDENCE: ("Show what the chain says of a payment in doubt", "Doubt"),
    RESOLVE: ("Decide an unresolved payment, on evidence that was shown", "Resolved"),
    LOOK: ("Look at some dead letters of a queue", "Letters"),
    REDRIVE: ("Put dead letters back into their queue", "Redriven"),
}
NAMES: Final = {  # of operations whose path has the words of another
    "/ops/pieces/{key}": "piece_by_key",
    OF_A_PIECE: "piece_verdicts",
    "/ops/tasks/{contract_id}": "task",
    FORGET_PIECE: "forget_piece",
    FORGET_TASK: "forget_task",
    RESEND: "resend_webhook",
    EVIDENCE: "look_at_payment",
    RESOLVE: "resolve_payment",
    LOOK: "look_at_dead_letters",
    REDRIVE: "redrive_dead_letters",
}
PAGED: Final[Schema] = {
    "since_ms": TIME,
    "until_ms": TIME,
    "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE},
    "cursor": STRING,
}
PATH: Final[Mapping[str, Schema]] = {  # parameters of paths
    "key": KEY,
    "digest": KEY,
    "contract_id": CONTRACT_ID,
    "event_id": {"type": "string", "pattern": "^[A-Za-z0-9_.~-]{1,128}$"},
    "name": {"type": "string", "pattern": f"^({'|'.join(QUEUES)})$"},
}
COUNTED: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MOST_LETTERS, "default": MOST_LETTERS}
BODIES: Final[Mapping[str, Schema]] = {
    "/ops/pause": an_object({"scope": SCOPE, "reason": REASON}),
    "/ops/resume": an_object({"scope": SCOPE, "reason": REASON}),
    FORGET_PIECE: an_object({"reason": REASON}),
    FORGET_TASK: an_object({"reason": REASON}),
    RESEND: an_object({"reason": REASON}),
    EVIDENCE: an_object({}),
    RESOLVE: DECIDING,
    LOOK: an_object({}),
    REDRIVE: an_object({"reason": REASON, "count": COUNTED}, optional=("count",)),
}
REFUSING: Final = (FORGET_PIECE, FORGET_TASK, EVIDENCE, RESOLVE)  # where something else stands
OF_THE_WORKER: Final = ("/ops/tasks", "/ops/contracts", "/ops/ledger")
QUERIES: Final[Mapping[str, Mapping[str, Schema]]] = {
    "/ops/pieces": {
        "caller": STRING,
        "executor": STRING,
        "state": {"enum": [state.value for state in State]},
        **PAGED,
    },
    "/ops/tasks": {"state": TASK_IN_SHORT["state"], "payment": TASK_IN_SHORT["payment"], **PAGED},
    "/ops/contracts": {"state": {"enum": [NO_TASK, NOT_KEPT, *STATES]}, **PAGED},
    "/ops/ledger": {"day": {"anyOf": [{"const": ""}, DAY]}},  # an empty parameter counts as none
    "/ops/records": PAGED,
    "/ops/verdicts": {
        "status": {"enum": list(STATUSES)},
        "reason": {"type": "integer", "minimum": 0, "maximum": LARGEST_REASON},
        **dict.fromkeys((*BY_ID, "output_digest"), STRING),
        **PAGED,
    },
    OF_A_PIECE: {name: body for name, body in PAGED.items() if name in ("limit", "cursor")},
    "/ops/piece": dict.fromkeys(("caller", *IDS), STRING),
}
NEEDED: Final = {"/ops/piece": ("caller", *IDS)}
TAGS: Final = {  # the second words of the paths
    "kernel": "executions, approvals, agents and policy of the kernel door",
    "piece": "one piece of the runtime door",
    "pieces": "pieces of the runtime door",
    "pause": "a door or an executor that is paused",
    "pauses": "what is paused",
    "resume": "a door or an executor that is resumed",
    "records": "what operators did",
    "contracts": "contracts of the worker door",
    "dead-letters": "messages that could not be worked on",
    "health": "whether the door is alive",
    "ledger": "money of the worker door",
    "tasks": "hired tasks",
    "verdicts": "what the runtime door judged",
    "sign-in": "how people sign in",
    "status": "what is deployed, and how it stands",
    "whoami": "the caller",
}
ALWAYS: Final = (429, 500, 503)  # 429 is the edge's
GUARDED: Final = (401, 403)


def document() -> Schema:
    """The whole OpenAPI document."""
    paths = {
        path: {
            method.lower(): ops_kernel.made(method, path, operation, (*GUARDED, *ALWAYS), _failure)
            for method in methods
        }
        for path, methods in ROUTES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": info(
            "Piecework operator's door",
            "What the doors have stored, for operators. Roles: viewer and approver read, operator reads and writes. "
            "A parameter that is empty, and an optional member that is null or empty, count as absent.",
        ),
        "servers": servers(8790),
        "tags": tags({path.removeprefix("/ops"): {} for path in paths}, TAGS),
        "paths": paths,
        "components": {
            "schemas": ANSWERS | ops_kernel.SCHEMAS,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "user = token name, password = secret"},
                "bearer": {"type": "http", "scheme": "bearer", "description": "the secret, or a person's access token"},
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
        "operationId": NAMES.get(
            path, "_".join(word for word in path.removeprefix("/ops/").split("/") if word[0] != "{")
        ),
        "tags": [tag],
        "responses": {"200": _success(answer)},
    }
    if path in BODIES:
        content = {"application/json": {"schema": BODIES[path] | {"additionalProperties": False}}}
        made["requestBody"] = {"required": True, "description": f"At most {BODY_LIMIT} bytes.", "content": content}
    if parameters := _parameters(path):
        made["parameters"] = parameters
    failures = ALWAYS if path in PUBLIC else (*GUARDED, *ALWAYS, *([400] if path in QUERIES else []))
    failures = (*failures, 400, 413, 415) if path in BODIES else failures
    failures = (*failures, 409) if path in REFUSING else failures
    failures = (*failures, 404) if "{" in path or path in (*NEEDED, *OF_THE_WORKER, "/ops/verdicts") else failures
    made["responses"] |= {str(status): _failure(status) for status in sorted(failures)}
    if path in PUBLIC:
        made["security"] = [{}]
    return made


def _failure(status: int) -> Schema:
    codes = ", ".join(CODES_BY_STATUS[status])
    return {"description": f"code: {codes}", "content": {"application/json": {"schema": ref("Error")}}}


def _success(answer: str | None) -> Schema:
    if answer is None:
        return {"description": "The bytes, of the media type they were stored with", "content": {"*/*": {}}}
    return {"description": answer, "content": {"application/json": {"schema": ref(answer)}}}


def _parameters(path: str) -> list[Schema]:
    named = [path_parameter(name, PATH[name]["pattern"]) for name in re.findall(r"{(\w+)}", path)]
    needed = NEEDED.get(path, ())
    asked = QUERIES.get(path, {}).items()
    return named + [{"name": name, "in": "query", "required": name in needed, "schema": body} for name, body in asked]
