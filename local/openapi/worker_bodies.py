"""Schemas of the worker door's bodies: contracts, results, demands for payment, failures and the manifest."""

from typing import Any, Final

from local.openapi.parts import COUNT, SHA256, STRING, Schema, an_object, ref
from piecework.worker.answer.outputs import MOST_ITEMS
from piecework.worker.chain.networks import NETWORKS
from piecework.worker.contract.schema import CONTRACT
from piecework.worker.door import MESSAGE_CHARACTERS
from piecework.worker.errors import CODES
from piecework.worker.ids import CONTRACT_ID, TASK_ID

CONTRACT_PATTERN: Final = f"^{CONTRACT_ID.pattern}$"
TASK_PATTERN: Final = f"^{TASK_ID.pattern}$"
CONTRACT_NAME: Final[Schema] = {"type": "string", "pattern": CONTRACT_PATTERN}
TASK_NAME: Final[Schema] = {"type": "string", "pattern": TASK_PATTERN}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
ADDRESS: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}
UNITS: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$", "description": "atomic units of the token"}
STATUSES: Final = (
    "authorized",
    "settling",
    "settled",
    "settled_unconfirmed",
    "unresolved",
    "not_charged",
    "failed",
)

FILE: Final = an_object(
    {
        "type": {"const": "file"},
        "name": STRING,
        "url": {"type": "string", "format": "uri"},
        "mime": STRING,
        "size": COUNT,
        "checksum": SHA256,
        "withheld": {"type": "boolean", "description": "true: not paid yet; else it is absent"},
    },
    optional=("url", "withheld"),
)
CONTENT: Final[dict[str, Schema]] = {
    "TextOutput": an_object({"type": {"const": "text"}, "content": STRING}),
    "JsonOutput": an_object({"type": {"const": "json"}, "content": {}}),
    "FileOutput": FILE,
}
ITEM: Final[Schema] = {"anyOf": [ref(name) for name in CONTENT]}
WITHHELD: Final = an_object({"type": {"enum": ["file", "text", "json"]}, "withheld": {"const": True}})  # not paid
MULTIPLE: Final = an_object(
    {
        "type": {"const": "multiple"},
        "items": {
            "type": "array",
            "items": {"anyOf": [*ITEM["anyOf"], ref("WithheldOutput")]},
            "maxItems": MOST_ITEMS,
        },
    }
)
DELIVERABLE: Final = an_object(
    {name: schema for name, schema in FILE["properties"].items() if name != "type"}
    | {"expires_at": TIME, "details": {"type": "object"}},
    optional=("name", "url", "mime", "size", "checksum", "withheld", "expires_at", "details"),
)
PAYMENT: Final = an_object(
    {
        "status": {"enum": list(STATUSES)},
        "transaction": {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"},
        "network": {"enum": [network.caip2 for network in NETWORKS.values()]},
        "payer": ADDRESS,
        "amount": UNITS,
        "refund_due": UNITS,  # the seeker paid for work that failed for good
    },
    optional=("transaction", "network", "payer", "amount", "refund_due"),
)
METADATA: Final = an_object(
    {
        "execution_time_ms": COUNT,
        "executor": STRING,
        "model_used": STRING,
        "attempt": COUNT,
        "sla_met": {"type": "boolean"},
        "completed_at": TIME,
    },
    optional=("completed_at",),
)
ERROR: Final = an_object(
    {
        "code": {"enum": sorted(CODES)},
        "message": {"type": "string", "maxLength": MESSAGE_CHARACTERS},
        "details": {"type": "object"},
        "retryable": {"type": "boolean"},
        "retries_remaining": COUNT,
    },
    optional=("retries_remaining",),
)


def _task(status: str, members: Schema, optional: tuple[str, ...] = ()) -> Schema:
    ids: Schema = {"status": {"const": status}, "contract_id": CONTRACT_NAME, "task_id": TASK_NAME}
    return an_object({**ids, **members}, optional)


_RESULT: Final[Schema] = {
    "output": {"anyOf": [*ITEM["anyOf"], ref("MultipleOutput")]},
    "deliverables": {"type": "array", "items": ref("Deliverable")},
    "metadata": ref("Metadata"),
    "payment": ref("Payment"),
}
_PLAN: Final[Schema] = {"poll_url": STRING, "estimated_completion": TIME, "stream_url": STRING}
_ENTRY: Final[Schema] = {
    "scheme": {"const": "exact"},
    "network": {"enum": list(NETWORKS)},
    "maxAmountRequired": UNITS,
    "asset": ADDRESS,
    "payTo": ADDRESS,
    "resource": STRING,
    "description": {"type": "string", "maxLength": 500},
    "mimeType": STRING,
    "outputSchema": {"type": "null"},
    "maxTimeoutSeconds": COUNT,
    "extra": {"type": "object", "additionalProperties": STRING},
}
_FAILED: Final = an_object(
    {
        "status": {"const": "failed"},
        "contract_id": CONTRACT_NAME,
        "task_id": TASK_NAME,
        "error": ref("Error"),
        "metadata": ref("Metadata"),
        "payment": ref("Payment"),
    },
    optional=("contract_id", "task_id", "metadata", "payment"),
)
_DEMAND: Final = an_object(
    {
        "status": {"const": "failed"},
        "contract_id": CONTRACT_NAME,
        "task_id": TASK_NAME,
        "x402Version": {"const": 1},
        "error": {"type": "string"},
        "accepts": {"type": "array", "items": an_object(_ENTRY), "minItems": 1},
        "code": {"enum": ["PAYMENT_REQUIRED", "PAYMENT_INVALID", "PAYMENT_FAILED"]},
        "details": {"type": "object"},
        "payment": ref("Payment"),
    },
    optional=("task_id", "payment"),
)
_MANIFEST: Final = an_object(
    {
        "version": STRING,
        "agent_id": STRING,
        "wallets": {"type": "array", "items": ADDRESS, "minItems": 1},
        "endpoint": an_object({"url": STRING, "protocol": {"const": "https"}}),
        "capabilities": {
            "type": "array",
            "items": an_object(
                {
                    "name": STRING,
                    "task_types": {"type": "array", "items": STRING},
                    "profiles": {"type": "array", "items": STRING},
                    "default": {"type": "boolean"},
                }
            ),
        },
        "pricing": {"type": "object"},
        "limits": {"type": "object", "additionalProperties": COUNT},
    }
)


def schemas() -> dict[str, Any]:
    """Every named schema."""
    return {
        **CONTENT,
        "WithheldOutput": WITHHELD,
        "MultipleOutput": MULTIPLE,
        "Deliverable": DELIVERABLE,
        "Payment": PAYMENT,
        "Metadata": METADATA,
        "Error": ERROR,
        "Contract": CONTRACT,
        "Registration": an_object({"contract": ref("Contract"), "webhook_secret": STRING}, ("webhook_secret",))
        | {"additionalProperties": False},
        "Registered": an_object(
            {"contract_id": CONTRACT_NAME, "hash": SHA256, "state": STRING, "execute_url": STRING, "expires_at": TIME}
        ),
        "ContractState": an_object(
            {"contract_id": CONTRACT_NAME, "hash": SHA256, "state": {"enum": ["SIGNED", "EXECUTING", "COMPLETED"]}}
        ),
        "Completed": _task("completed", _RESULT),
        "Partial": _task("partial", {**_RESULT, **_PLAN, "final": {"type": "boolean"}}, optional=(*_PLAN, "metadata")),
        "Pending": _task("pending", {**_PLAN, "payment": ref("Payment")}, optional=("stream_url",)),
        "Failed": _FAILED,
        "PaymentRequired": _DEMAND,
        "Manifest": _MANIFEST,
        "Health": an_object({"ok": {"const": True}}),
    }
