"""Stream events in the work table: `pk` = STREAM#<task>/<generation>, `sk` = the event's number, each written once.

Attributes: `kind`, `data` (JSON text), `write` (drawn anew for every event, so that a repeated request recognises its
own first try), `expires_at` (s; the table's TTL).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.jsons import canonical, loads
from piecework.worker.stream.streams import Event, StreamLog

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ABSENT: Final = "attribute_not_exists(pk)"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
THE_TABLE: Final = "the work table"


class StreamTable(StreamLog):
    """Events in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def append(self, stream: str, event: Event, expires_at: int) -> bool:
        item: dict[str, Any] = {
            "pk": {"S": f"STREAM#{stream}"},
            "sk": {"S": f"{event.seq:09d}"},
            "kind": {"S": event.kind},
            "data": {"S": canonical(dict(event.data)).decode()},
            "write": {"S": secrets.token_hex(8)},
            "expires_at": {"N": str(expires_at)},
        }
        with aws_errors(THE_TABLE):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=ABSENT,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return True
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
                standing: Any = error.response.get("Item") or {}
        return bool(standing.get("write") == item["write"])

    def read(self, stream: str) -> list[Event]:
        events: list[Event] = []
        more: dict[str, Any] = {}
        while True:
            with aws_errors(THE_TABLE):
                answer = self._client.query(
                    TableName=self._table,
                    KeyConditionExpression="pk = :pk",
                    ExpressionAttributeValues={":pk": {"S": f"STREAM#{stream}"}},
                    ConsistentRead=True,
                    **more,
                )
            events += [Event(int(row["sk"]["S"]), row["kind"]["S"], loads(row["data"]["S"])) for row in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return events
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
