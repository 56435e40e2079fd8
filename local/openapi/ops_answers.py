"""Schemas of what the operator's door answers; `ops_parts` has what they are made of."""

from typing import Final, get_args

from local.openapi.ops_parts import (
    ATOMIC,
    CONTRACT_ID,
    DEBT,
    DOUBT,
    HEX,
    LEDGER,
    MOVE,
    OBJECT_OR_NULL,
    REFUND_SEEN,
    REFUNDED,
    RESOLVED,
    SWITCH,
    TEXT_OR_NULL,
    VERDICTS,
    found,
)
from local.openapi.parts import COUNT, SHA256, STRING, Schema, an_object
from piecework.durable.pauses import MOST_PAUSES
from piecework.durable.pauses import SCOPE as SCOPES
from piecework.durable.pieces import State
from piecework.edge.roles import Role
from piecework.ops.finding.finder import BY, KINDS
from piecework.ops.pieces import MOST_STEPS
from piecework.ops.query import MOST_MS
from piecework.ops.standing import AGENTS_SHOWN, OLDEST
from piecework.ops.status import DOORS, QUEUES, SHOWN
from piecework.ops.tasks import MOST_DELIVERIES, MOST_MOVES, NO_TASK, NOT_KEPT, STATES
from piecework.ops.verbs import MOST_LETTERS
from piecework.webhooks.deliveries import MOST_TRIES
from piecework.worker.record.values import PaymentStatus

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
    **dict.fromkeys(("is_in_doubt", "is_owed_back"), SWITCH),
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
        "debts": {"type": "array", "maxItems": MOST_MOVES + 1, "items": DEBT},
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
    "Found": found(KINDS, BY),
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
    "RefundSeen": REFUND_SEEN,
    "Refunded": REFUNDED,
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
