"""Recorded steps in the work table: `pk` = STEP#<key>, `sk` = STEP, each written once, gone with the table's TTL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.clock import now_in_ms
from piecework.durable.steps import StepTable
from piecework.errors import Unavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

NOT_YET_WRITTEN: Final = "attribute_not_exists(pk) OR expires_at <= :now_s"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
THE_TABLE: Final = "the work table"


class WorkSteps(StepTable):
    """Steps of hired work in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def find(self, key: str) -> bytes | None:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key=_key(key), ConsistentRead=True)
        item = answer.get("Item")
        if item is None or int(item["expires_at"]["N"]) * 1000 <= self._clock():
            return None
        return bytes(item["result"]["B"])

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        item = {**_key(key), "result": {"B": body}, "expires_at": {"N": str(expires_at)}}
        with aws_errors(THE_TABLE):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=NOT_YET_WRITTEN,
                    ExpressionAttributeValues={":now_s": {"N": str(self._clock() // 1000)}},
                )
                return body
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
        standing = self.find(key)
        if standing is None:
            raise Unavailable("the work table changed under this task; try again")
        return standing


def _key(key: str) -> dict[str, Any]:
    return {"pk": {"S": f"STEP#{key}"}, "sk": {"S": "STEP"}}
