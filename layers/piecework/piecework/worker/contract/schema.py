"""The shape of a HIRE contract (worker specification 3.1) and what its own schemas may look like (3.5).

Unknown members are allowed: they are part of what was hashed and signed, and nothing here gives them a meaning.
"""

from functools import cache
from typing import Final

from piecework.jsons import Json, canonical
from piecework.schemas import Checker, compile_schema
from piecework.schemas.graph import SchemaRejected

SCHEMA_BYTES: Final = 32_768  # of each schema inside a contract, canonical
SCHEMA_DEPTH: Final = 20  # nested containers

_TEXT: Final[Json] = {"type": "string"}
_TIME: Final[Json] = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
}
_SCHEMA: Final[Json] = {"type": "object"}


def _members(required: dict[str, Json], optional: dict[str, Json] | None = None) -> Json:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


_PARTY: Final = _members({"agent_id": {"type": "string", "pattern": "^agent_[a-z0-9]+$"}, "wallet": _TEXT})
_PRICE: Final = _members({"amount": _TEXT, "currency": _TEXT, "network": _TEXT})
_FEE: Final = _members(
    {
        "percentage": {"type": "number", "minimum": 0, "maximum": 100},
        "wallet": {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"},
    }
)
_TERMS: Final = _members(
    {"price": _PRICE, "deadline": _TIME, "payment_trigger": _TEXT, "platform_fee": _FEE},
    {"accept_partial": {"type": "boolean"}},
)
_TASK: Final = _members(
    {"description": _TEXT},
    {"requirements": {"type": "array", "items": _TEXT}, "input_schema": _SCHEMA, "output_schema": _SCHEMA},
)
_REFUNDS: Final = ["deadline_missed", "output_schema_invalid", "no_response", "quality_rejected"]
_SLA: Final = _members(
    {},
    {
        "max_latency_ms": {"type": "integer"},
        "retry_policy": {"type": ["string", "integer"]},
        "refund_conditions": {"type": "array", "items": {"enum": _REFUNDS}},
    },
)
_CALLBACKS: Final = _members(
    {"webhook_url": _TEXT}, {"webhook_secret_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
)
CONTRACT: Final = _members(
    {
        "version": {"type": "string", "pattern": r"^HIRE/1\.[0-9]+$"},
        "contract_id": _TEXT,
        "created_at": _TIME,
        "parties": _members({"seeker": _PARTY, "worker": _PARTY}),
        "task": _TASK,
        "terms": _TERMS,
        "signatures": _members({"seeker": _TEXT, "worker": _TEXT, "timestamp": _TIME}),
        "hash": _TEXT,
    },
    {"sla": _SLA, "callbacks": _CALLBACKS},
)


@cache
def contract_checker() -> Checker:
    """The compiled shape."""
    return compile_schema(CONTRACT)


def compile_task_schema(schema: Json) -> Checker:
    """The checker of a schema out of a contract: local, bounded, run by the linear-time engine.

    Raises:
        SchemaRejected: we do not validate with it; the text says why.
    """
    _check_bounds(schema)
    return compile_schema(schema)


def _check_bounds(schema: Json) -> None:
    stack: list[tuple[Json, int]] = [(schema, 1)]
    while stack:
        value, depth = stack.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if depth > SCHEMA_DEPTH and isinstance(value, dict | list):
            raise SchemaRejected(f"the schema is nested over {SCHEMA_DEPTH} deep")
        stack.extend((child, depth + 1) for child in children)
    if len(canonical(schema)) > SCHEMA_BYTES:
        raise SchemaRejected(f"the schema is larger than {SCHEMA_BYTES} bytes")
