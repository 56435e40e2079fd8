"""Schemas of the operator's door that its operations share, and those of payments, the ledger and verdicts."""

from collections.abc import Sequence
from typing import Final, get_args

from local.openapi.parts import COUNT, STRING, Schema, an_object
from piecework.ops.finding.answers import MOST_BYTES
from piecework.ops.listing import LARGEST_PAGE
from piecework.ops.money.payments import DECISIONS
from piecework.ops.query import MOST_MS
from piecework.ops.records import REASON_CHARACTERS
from piecework.ops.store.verdict_lines import TEXTS
from piecework.ops.tasks import MOST_LEDGER_ROWS, STATES, TOTALS
from piecework.ops.verdicts import STATUSES
from piecework.worker.payment.refunding import Verdict
from piecework.worker.record.debts import NAME
from piecework.worker.record.values import PaymentStatus

TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
OBJECT_OR_NULL: Final[Schema] = {"type": ["object", "null"]}
SWITCH: Final[Schema] = {"type": "boolean"}
SUM: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}
HEX: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
REASON: Final[Schema] = {"type": "string", "pattern": r"\S", "maxLength": REASON_CHARACTERS}
CONTRACT_ID: Final[Schema] = {"type": "string", "pattern": "^ctr_[A-Za-z0-9_-]{1,60}$"}
STANDING: Final[Schema] = {"state": {"enum": list(STATES)}, "payment": {"enum": list(get_args(PaymentStatus))}}
TRANSACTION: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
DIGEST: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
ANSWER: Final = an_object({"is_shown": SWITCH, "leads_to": {"enum": list(STATES)}, "then": STRING})
WOULD: Final[Schema] = {"nonce": STRING, "decision": STRING, "why": TEXT_OR_NULL}
AT_A_BLOCK: Final[Schema] = {
    "block": COUNT,
    "block_time": STRING,
    "seconds_behind": COUNT,
    "stale": TEXT_OR_NULL,
    "paid_by": TEXT_OR_NULL,
    "failed": {"type": "array", "items": STRING},
}
CHAIN: Final[Schema] = an_object(
    {**WOULD, "facilitator": TEXT_OR_NULL, **AT_A_BLOCK}, optional=("facilitator", *AT_A_BLOCK)
)
DOUBT: Final = an_object(
    {
        "contract_id": CONTRACT_ID,
        **STANDING,
        **dict.fromkeys(("created_at", "price", "payer", "pay_to", "nonce", "valid_before", "claim"), STRING),
        "atomic": SUM,
        **dict.fromkeys(("settle_calls", "refused_payments"), COUNT),
        "transactions_named": {"type": "array", "items": STRING},
        **dict.fromkeys(("receipt", "resolved"), OBJECT_OR_NULL),
        "chain": CHAIN,
        "answers": an_object(dict.fromkeys(DECISIONS, ANSWER)),
        "can_be_decided": SWITCH,
        "evidence": DIGEST,
    }
)
RESOLVED: Final = an_object({"record_id": HEX, **STANDING, "resolved": {"type": "object"}})
DECIDING: Final = an_object(
    {
        "decision": {"enum": list(DECISIONS)},
        "transaction": TRANSACTION,
        "evidence": DIGEST,
        "override": CONTRACT_ID,
        "reason": REASON,
    },
    optional=("transaction", "override"),
)
VERDICT: Final = an_object(
    {
        "at_ms": COUNT,
        "verification_status": {"enum": list(STATUSES)},
        "reason_codes": {"type": "array", "items": {"type": "integer"}},
        "score": {"type": ["number", "null"]},
        **dict.fromkeys(TEXTS, TEXT_OR_NULL),
    }
)
VERDICTS: Final = an_object(
    {
        "items": {"type": "array", "maxItems": LARGEST_PAGE, "items": VERDICT},
        "next": TEXT_OR_NULL,
        "window": an_object({"since_ms": COUNT, "until_ms": COUNT, "is_whole": {"type": "boolean"}}),
        "counts": an_object(dict.fromkeys(STATUSES, COUNT)),
        "reasons": {"type": "object", "additionalProperties": COUNT},
        "is_logged": {"type": "boolean"},
    }
)
ATOMIC: Final[Schema] = {"type": ["string", "null"], "pattern": "^[0-9]+$"}
MOVE: Final = an_object(
    {
        "contract_id": CONTRACT_ID,
        **dict.fromkeys(("generation", "version", "at_ms", "calls", "looks"), COUNT),
        **dict.fromkeys(("state", "payment", "claim", "payer", "transaction", "reason", "network"), STRING),
        "atomic": ATOMIC,
        "hashes": {"type": "array", "items": STRING},
        "resolution": OBJECT_OR_NULL,
    }
)
DEBT_NAME: Final[Schema] = {"type": "string", "pattern": f"^{NAME.pattern}$"}
WORD: Final = an_object({**dict.fromkeys(("transaction", "by", "operator", "reason"), STRING), "at_ms": COUNT})
WORD_OR_NULL: Final[Schema] = {"anyOf": [{"type": "null"}, WORD]}
OWED_BACK: Final[Schema] = {
    **dict.fromkeys(("network", "wallet", "transaction"), STRING),
    **dict.fromkeys(("generation", "at_ms"), COUNT),
    "atomic": SUM,
    "debt": DEBT_NAME,
    "refund": WORD_OR_NULL,
}
DEBT: Final = an_object(OWED_BACK)
BLOCK_OR_NULL: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
SEEN_OF_IT: Final[Schema] = {
    "atomic": ATOMIC,
    "from": {"type": "array", "items": STRING},
    "block": BLOCK_OR_NULL,
    "payments_block": BLOCK_OR_NULL,
    "read_at": STRING,
    "seconds_behind": COUNT,
}
REFUND_SEEN: Final = an_object(
    {
        "contract_id": CONTRACT_ID,
        "debt": DEBT_NAME,
        "owed_since_ms": COUNT,
        "atomic": SUM,
        **dict.fromkeys(("network", "wallet", "paid_by", "transaction"), STRING),
        "chain": an_object(
            {"verdict": {"enum": list(get_args(Verdict))}, "why": STRING, **SEEN_OF_IT}, optional=tuple(SEEN_OF_IT)
        ),
        **dict.fromkeys(("is_shown", "can_be_overridden"), SWITCH),
        "evidence": DIGEST,
    }
)
SAID_BACK: Final[Schema] = {"debt": DEBT_NAME, "transaction": TRANSACTION}
SAYING: Final = an_object(
    {**SAID_BACK, "evidence": DIGEST, "override": CONTRACT_ID, "reason": REASON}, optional=("override",)
)
REFUNDED: Final = an_object(
    {"record_id": HEX, "contract_id": CONTRACT_ID, "debt": DEBT_NAME, "atomic": SUM, "refund": WORD}
)
DAY: Final[Schema] = {"type": "string", "format": "date"}
OWED: Final = an_object(
    {
        **dict.fromkeys(("kind", "network", "wallet", "transaction"), STRING),
        "contract_id": CONTRACT_ID,
        **dict.fromkeys(("generation", "at_ms"), COUNT),
        "atomic": SUM,
        "debt": {"anyOf": [{"type": "null"}, DEBT_NAME]},
        "refund": WORD_OR_NULL,
    }
)
PAID_BACK: Final = an_object(
    {
        **dict.fromkeys(("kind", "network", "wallet", "transaction", "by", "operator", "reason"), STRING),
        "contract_id": CONTRACT_ID,
        **dict.fromkeys(("generation", "at_ms"), COUNT),
        "atomic": SUM,
        "debt": DEBT_NAME,
    }
)
LEDGER: Final = an_object(
    {
        "day": DAY,
        "received": {"type": "array", "maxItems": MOST_LEDGER_ROWS, "items": MOVE},
        "owed": {"type": "array", "maxItems": MOST_LEDGER_ROWS, "items": OWED},
        "refunds": {"type": "array", "maxItems": MOST_LEDGER_ROWS, "items": PAID_BACK},
        "totals_atomic": {"type": "object", "additionalProperties": an_object(dict.fromkeys(TOTALS, SUM))},
        "is_complete": {"type": ["boolean", "null"]},
        "complete_from": {"type": ["string", "null"], "format": "date"},
        "without_amount": COUNT,
    }
)


def found(kinds: Sequence[str], by: Sequence[str]) -> Schema:
    """What a search by an id answers."""
    named = {"kind": {"enum": list(kinds)}, "by": {"enum": list(by)}}
    return an_object(
        {
            "items": {
                "type": "array",
                "items": an_object(
                    {
                        **named,
                        "id": STRING,
                        "of": TEXT_OR_NULL,
                        "at_ms": {"type": ["integer", "null"]},
                        "is_whole": {"type": "boolean"},
                    }
                ),
            },
            "looked": {"type": "array", "items": an_object({**named, "since_ms": {"type": ["integer", "null"]}})},
        }
    )


SOUGHT: Final[Schema] = {
    "id": {"type": "string", "minLength": 1, "maxLength": MOST_BYTES, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$"},
    "until_ms": {"type": "integer", "minimum": 0, "maximum": MOST_MS},
}
