"""Webhook deliveries in the work table: `pk` = WEBHOOK#<contract id>, `sk` = the event's id, or STOP.

Attributes: `url`, `body` (bytes), `secret`, `state`, `attempt`, `expires_at` (s; the table's TTL). Every write is
conditional; the sender's role reaches items under WEBHOOK# only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.clock import now_in_ms
from piecework.worker.webhook.webhooks import KEPT_SECONDS, Deliveries, Delivery, DeliveryState

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

ABSENT: Final = "attribute_not_exists(pk)"
AS_READ: Final = "#state = :before AND attempt = :read"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
STOP: Final = "STOP"
STOP_SECONDS: Final = 200 * 86_400  # past the end of every contract's claims
THE_TABLE: Final = "the work table"


class DeliveriesTable(Deliveries):
    """Deliveries in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def put(self, delivery: Delivery) -> None:
        self._put_once(to_item(delivery, self._clock() // 1000 + KEPT_SECONDS))

    def read(self, contract_id: str, event_id: str) -> Delivery | None:
        item = self._get(contract_id, event_id)
        return from_item(item) if item else None

    def note(self, before: Delivery, after: Delivery) -> None:
        with aws_errors(THE_TABLE), _unless_moved_on():
            self._client.update_item(
                TableName=self._table,
                Key=_key(before.contract_id, before.event_id),
                UpdateExpression="SET #state = :after, attempt = :next",
                ConditionExpression=AS_READ,
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={
                    ":before": {"S": before.state},
                    ":read": {"N": str(before.attempt)},
                    ":after": {"S": after.state},
                    ":next": {"N": str(after.attempt)},
                },
            )

    def stop(self, contract_id: str) -> None:
        self._put_once(_key(contract_id, STOP) | {"expires_at": {"N": str(self._clock() // 1000 + STOP_SECONDS)}})

    def is_stopped(self, contract_id: str) -> bool:
        return self._get(contract_id, STOP) is not None

    def _get(self, contract_id: str, sort: str) -> Mapping[str, Any] | None:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key=_key(contract_id, sort), ConsistentRead=True)
        return answer.get("Item")

    def _put_once(self, item: Item) -> None:
        with aws_errors(THE_TABLE), _unless_moved_on():
            self._client.put_item(TableName=self._table, Item=item, ConditionExpression=ABSENT)


@contextmanager
def _unless_moved_on() -> Iterator[None]:
    """Let a failed condition pass: another try was faster, or the item is there."""
    try:
        yield
    except ClientError as error:
        if error_code(error) != CONDITION_FAILED:
            raise


def _key(contract_id: str, sort: str) -> Item:
    return {"pk": {"S": f"WEBHOOK#{contract_id}"}, "sk": {"S": sort}}


def to_item(delivery: Delivery, expires_at: int) -> Item:
    """A delivery as it is stored."""
    secret = {"secret": {"S": delivery.secret}} if delivery.secret else {}
    return {
        **_key(delivery.contract_id, delivery.event_id),
        "url": {"S": delivery.url},
        "body": {"B": delivery.body},
        "state": {"S": delivery.state},
        "attempt": {"N": str(delivery.attempt)},
        "expires_at": {"N": str(expires_at)},
        **secret,
    }


def from_item(item: Mapping[str, Any]) -> Delivery:
    """A stored delivery."""
    return Delivery(
        contract_id=item["pk"]["S"].partition("#")[2],
        event_id=item["sk"]["S"],
        url=item["url"]["S"],
        body=bytes(item["body"]["B"]),
        secret=item["secret"]["S"] if "secret" in item else None,
        state=DeliveryState(item["state"]["S"]),
        attempt=int(item["attempt"]["N"]),
    )
