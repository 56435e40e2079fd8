"""The operator's door's OpenAPI document, from its routes and error table."""

import re
from collections.abc import Mapping
from typing import Final

from local.openapi import ops_kernel
from local.openapi.ops_answers import ANSWERS, IDS, KEY, SCOPE, TASK_IN_SHORT, TIME
from local.openapi.ops_parts import CONTRACT_ID, DAY, DECIDING, REASON, SAID_BACK, SAYING, SOUGHT
from local.openapi.parts import STRING, Schema, an_object, info, path_parameter, ref, servers, tags
from piecework.durable.pieces import State
from piecework.edge.http import BODY_LIMIT
from piecework.ops.door import HEALTH, PUBLIC, ROUTES, SIGN_IN, STATUS
from piecework.ops.listing import LARGEST_PAGE, PAGE
from piecework.ops.status import QUEUES
from piecework.ops.tasks import NO_TASK, NOT_KEPT, STATES
from piecework.ops.verbs import MOST_LETTERS
from piecework.ops.verdicts import BY_ID, LARGEST_REASON, STATUSES

CODES_BY_STATUS: Final = {
    status: sorted(code for code, found in STATUS.items() if found == status) for status in sorted(set(STATUS.values()))
} | {429: ["rate_limited"]}  # the edge's own
FORGET_PIECE: Final = "/ops/pieces/{key}/forget"
FORGET_TASK: Final = "/ops/tasks/{contract_id}/forget"
RESEND: Final = "/ops/tasks/{contract_id}/webhooks/{event_id}/resend"
EVIDENCE, RESOLVE, PAID_BACK, REFUND_EVIDENCE = (
    f"/ops/tasks/{{contract_id}}/payment/{verb}" for verb in ("evidence", "resolve", "refunded", "refunded/evidence")
)
RESEND_NOTICE: Final = "/ops/approvals/{execution_id}/webhooks/{event_id}/resend"
LOOK, REDRIVE = (f"/ops/dead-letters/{{name}}/{verb}" for verb in ("look", "redrive"))
OF_A_PIECE: Final = "/ops/pieces/{key}/verdicts"
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
    "/ops/find": ("Say what has an id", "Found"),
    "/ops/pauses": ("List the pauses of doors and executors that hold", "Pauses"),
    "/ops/pause": ("Give a door or an executor no new work", "Paused"),
    "/ops/resume": ("Give a door or an executor work again", "Resumed"),
    FORGET_PIECE: ("Forget what a piece was about", "ForgottenPiece"),
    FORGET_TASK: ("Forget what a contract and its task were about", "ForgottenTask"),
    RESEND: ("Send a webhook again", "Resent"),
    RESEND_NOTICE: ("Send a webhook about an approval again", "Resent"),
    EVIDENCE: ("Show what the chain says of a payment in doubt", "Doubt"),
    RESOLVE: ("Decide an unresolved payment, on evidence that was shown", "Resolved"),
    REFUND_EVIDENCE: ("Show what the chain says of a transaction that is said to pay a debt back", "RefundSeen"),
    PAID_BACK: ("Say that what was owed back was paid, on evidence that was shown", "Refunded"),
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
    RESEND_NOTICE: "resend_notice",
    EVIDENCE: "look_at_payment",
    RESOLVE: "resolve_payment",
    REFUND_EVIDENCE: "look_at_refund",
    PAID_BACK: "say_refunded",
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
    "execution_id": {"type": "string", "pattern": "^[A-Za-z0-9_.~-]{1,128}$"},
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
    RESEND_NOTICE: an_object({"reason": REASON}),
    EVIDENCE: an_object({}),
    RESOLVE: DECIDING,
    REFUND_EVIDENCE: an_object(SAID_BACK),
    PAID_BACK: SAYING,
    LOOK: an_object({}),
    REDRIVE: an_object({"reason": REASON, "count": COUNTED}, optional=("count",)),
}
REFUSING: Final = (
    FORGET_PIECE,
    FORGET_TASK,
    EVIDENCE,
    RESOLVE,
    REFUND_EVIDENCE,
    PAID_BACK,
)  # where something else stands
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
    "/ops/find": SOUGHT,
    "/ops/verdicts": {
        "status": {"enum": list(STATUSES)},
        "reason": {"type": "integer", "minimum": 0, "maximum": LARGEST_REASON},
        **dict.fromkeys((*BY_ID, "output_digest"), STRING),
        **PAGED,
    },
    OF_A_PIECE: {name: body for name, body in PAGED.items() if name in ("limit", "cursor")},
    "/ops/piece": dict.fromkeys(("caller", *IDS), STRING),
}
NEEDED: Final = {"/ops/piece": ("caller", *IDS), "/ops/find": ("id",)}
TAGS: Final = {  # the second words of the paths
    "approvals": "webhooks about approvals of the kernel door",
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
    "find": "what has an id",
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
    failures = (*failures, 404) if "{" in path or path in ("/ops/piece", *OF_THE_WORKER, "/ops/verdicts") else failures
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
