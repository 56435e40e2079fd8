"""Seats of stream readers in the work table: `pk` = READERS#<contract or door>, `sk` = the seat's number.

Attributes: `token` (who holds it), `until` (s, 0 when it was given back), `expires_at` (s; the table's TTL).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.worker.stream.readers import Seat, Seats

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

THE_TABLE: Final = "the work table"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
FREE_OR_OURS: Final = "attribute_not_exists(pk) OR #until <= :now OR #token = :token"
OURS: Final = "#token = :token"
KEPT_SECONDS: Final = 3_600  # past its end, whatever the clocks say


class ReaderTable(Seats):
    """Seats in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def taken(self, scope: str) -> Mapping[int, int]:
        with aws_errors(THE_TABLE):  # at most a hundred small rows: one page
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": f"READERS#{scope}"}},
                ConsistentRead=True,
            )
        return {int(row["sk"]["S"]): int(row["until"]["N"]) for row in answer["Items"]}

    def take(self, seat: Seat, now_s: int) -> bool:
        names, values = {"#until": "until", "#token": "token"}, {":now": {"N": str(now_s)}}
        return self._put(seat, seat.until_s, FREE_OR_OURS, names, values)

    def leave(self, seat: Seat) -> None:
        self._put(seat, 0, OURS, {"#token": "token"}, {})

    def _put(self, seat: Seat, until_s: int, condition: str, names: dict[str, str], values: dict[str, Any]) -> bool:
        item: dict[str, Any] = {
            "pk": {"S": f"READERS#{seat.scope}"},
            "sk": {"S": f"{seat.number:04d}"},
            "token": {"S": seat.token},
            "until": {"N": str(until_s)},
            "expires_at": {"N": str(seat.until_s + KEPT_SECONDS)},
        }
        with aws_errors(THE_TABLE):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues={":token": {"S": seat.token}, **values},
                )
                return True
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
        return False
