"""The contracts table: one item per contract, written once.

Attributes: `pk` (contract id), `document` (JSON text), `hash`, `webhook_secret`, `attempts`, `source`, `stored_at`
(ms), `write` (drawn anew for every put) and `expires_at` (s; the table's TTL).
TTL deletes late, so expired items count as absent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.clock import now_in_ms
from piecework.errors import Unavailable
from piecework.jsons import canonical, loads
from piecework.worker.contract.contracts import KEPT_MS, ContractConflict, ContractRecord, Contracts, record_of

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

NOTHING_STANDS: Final = "attribute_not_exists(pk) OR expires_at <= :now_s"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
THE_TABLE: Final = "the contracts table"


class ContractsTable(Contracts):
    """Contracts in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def put(self, record: ContractRecord) -> Literal["new", "same"]:
        item = to_item(record) | {"write": {"S": secrets.token_hex(8)}}
        standing = self._put(item)
        if standing is None or standing.get("write") == item["write"]:  # the latter: our first try's answer was lost
            return "new"
        if standing["hash"]["S"] != record.hash:
            raise ContractConflict
        return "same"

    def get(self, contract_id: str) -> ContractRecord | None:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key={"pk": {"S": contract_id}}, ConsistentRead=True)
        item = answer.get("Item")
        if item is None or int(item["expires_at"]["N"]) * 1000 <= self._clock():
            return None
        return from_item(item)

    def _put(self, item: Item) -> Mapping[str, Any] | None:
        """Put the item; what stands in its way, if something does."""
        with aws_errors(THE_TABLE):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=NOTHING_STANDS,
                    ExpressionAttributeValues={":now_s": {"N": str(self._clock() // 1000)}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return None
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
                standing: Any = error.response.get("Item")
        if not standing:
            raise Unavailable(f"{THE_TABLE} changed under this request; try again")
        return dict(standing)


def to_item(record: ContractRecord) -> Item:
    """A contract as it is stored."""
    secret = {"webhook_secret": {"S": record.webhook_secret}} if record.webhook_secret else {}
    return {
        "pk": {"S": record.contract_id},
        "document": {"S": canonical(record.document).decode("utf-8")},
        "hash": {"S": record.hash},
        "attempts": {"N": str(record.attempts)},
        "source": {"S": record.source},
        "stored_at": {"N": str(record.stored_at_ms)},
        "expires_at": {"N": str((record.deadline_ms + KEPT_MS) // 1000)},
        **secret,
    }


def from_item(item: Mapping[str, Any]) -> ContractRecord:
    """A stored contract; it was validated when it came in."""
    return record_of(
        loads(item["document"]["S"]),
        item["webhook_secret"]["S"] if "webhook_secret" in item else None,
        attempts=int(item["attempts"]["N"]),
        source="import" if item["source"]["S"] == "import" else "api",
        stored_at_ms=int(item["stored_at"]["N"]),
    )
