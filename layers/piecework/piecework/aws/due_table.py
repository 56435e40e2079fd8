"""The due-time table: one row per due time, `pk` = kind and shard, `sk` = time and id; nothing else in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.clients import aws_errors
from piecework.durable.due import PORTION, Due, DueTimes, due_at, partitions

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

THE_TABLE: Final = "the due-time table"
PAGE: Final = 100  # rows of one query; a row is some 100 bytes


class DueTable(DueTimes):
    """Due times in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def put(self, due: Due) -> None:
        with aws_errors(THE_TABLE):
            self._client.put_item(TableName=self._table, Item=key_of(due))

    def remove(self, due: Due) -> None:
        with aws_errors(THE_TABLE):
            self._client.delete_item(TableName=self._table, Key=key_of(due))

    def ripe(self, kind: str, now_ms: int) -> Iterator[Due]:
        # They take turns: what fails again and again at the front of one partition holds up no other.
        shards = [self._ripe(partition, now_ms) for partition in partitions(kind)]
        while shards:
            fuller: list[Iterator[Due]] = []
            for shard in shards:
                if (yield from _some(shard)):
                    fuller.append(shard)
            shards = fuller

    def _ripe(self, partition: str, now_ms: int) -> Iterator[Due]:
        more: dict[str, Any] = {}
        while True:
            with aws_errors(THE_TABLE):
                answer = self._client.query(
                    TableName=self._table,
                    KeyConditionExpression="pk = :pk AND sk < :now",
                    ExpressionAttributeValues={":pk": {"S": partition}, ":now": {"S": f"{now_ms + 1:015d}"}},
                    Limit=PAGE,
                    ConsistentRead=True,
                    **more,
                )
            yield from (due for row in answer["Items"] if (due := due_at(row["pk"]["S"], row["sk"]["S"])))
            if "LastEvaluatedKey" not in answer:
                return
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def _some(shard: Iterator[Due]) -> Generator[Due, None, bool]:
    """The next few of a partition; whether there may be more."""
    for number, due in enumerate(shard, 1):
        yield due
        if number == PORTION:
            return True
    return False


def key_of(due: Due) -> dict[str, Any]:
    """A due time's row, all of which is key."""
    return {"pk": {"S": due.partition}, "sk": {"S": due.sort}}


def writes_between(table: str, before: Due | None, after: Due | None) -> list[dict[str, Any]]:
    """The writes of a transaction that moves a record's due time."""
    if before == after:
        return []
    gone = [{"Delete": {"TableName": table, "Key": key_of(before)}}] if before else []
    return gone + ([{"Put": {"TableName": table, "Item": key_of(after)}}] if after else [])
