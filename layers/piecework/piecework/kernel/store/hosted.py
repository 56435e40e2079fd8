"""Leases of hosted runs in the kernel table: `pk` = HOSTED#<execution id>, `sk` = "-", one request per step of a run.

Attributes: `claim` (a token, while somebody runs), `lease_until` (ms), `tries` (runs in a row that came to nothing),
`again` (somebody came meanwhile), `released` (the token that gave the lease back last), `expires_at` (s; the table's
TTL). A repeated request recognises its own first try by the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.errors import LeaseLost, Unavailable
from piecework.kernel.hosted.runs import Leases

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

FREE: Final = "attribute_not_exists(pk) OR lease_until <= :now"
HELD: Final = "lease_until > :now"
MINE: Final = "claim = :token"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
THE_TABLE: Final = "the kernel table"
KEPT_MS: Final = 86_400_000  # beyond its lease; an execution lives an hour
ROUNDS: Final = 5  # of claiming and leaving a mark, while the holder comes and goes
FALSE: Final = {"BOOL": False}


class HostedLeases(Leases):
    """Leases in DynamoDB; every write is conditional."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client, self._table = client, table

    def claim(self, execution_id: str, token: str, now_ms: int, until_ms: int) -> int | None:
        values = {":token": {"S": token}, ":now": _number(now_ms), ":until": _number(until_ms), ":false": FALSE}
        values |= {":expires": _number((until_ms + KEPT_MS) // 1000), ":one": _number(1)}
        update = "SET claim = :token, lease_until = :until, again = :false, expires_at = :expires ADD tries :one"
        marking = {":now": _number(now_ms), ":true": {"BOOL": True}}
        for _ in range(ROUNDS):
            is_ours, row = self._update(execution_id, update, FREE, values)
            if is_ours or row.get("claim") == {"S": token}:
                return int(row["tries"]["N"])
            if self._update(execution_id, "SET again = :true", HELD, marking)[0]:
                return None
        raise Unavailable("the run's lease changed under this look; try again")

    def renew(self, execution_id: str, token: str, until_ms: int) -> None:
        values = {":token": {"S": token}, ":until": _number(until_ms)}
        if not self._update(execution_id, "SET lease_until = :until", MINE, values)[0]:
            raise LeaseLost("another run has taken this execution over")

    def release(self, execution_id: str, token: str) -> bool:
        values: Item = {":token": {"S": token}, ":zero": _number(0), ":false": FALSE}
        update = "SET lease_until = :zero, tries = :zero, released = :token REMOVE claim"
        is_released, row = self._update(execution_id, update, f"{MINE} AND again = :false", values)
        if is_released or row.get("released") == {"S": token}:
            return True
        values = {":token": {"S": token}, ":false": FALSE}
        if not self._update(execution_id, "SET again = :false", MINE, values)[0]:
            raise LeaseLost("another run has taken this execution over")
        return False

    def give_up(self, execution_id: str, token: str) -> None:
        values = {":token": {"S": token}, ":zero": _number(0)}
        self._update(execution_id, "SET lease_until = :zero REMOVE claim", MINE, values)

    def _update(self, execution_id: str, update: str, condition: str, values: Item) -> tuple[bool, Item]:
        """Whether the condition held, and the row as it is now."""
        with aws_errors(THE_TABLE):
            try:
                answer = self._client.update_item(
                    TableName=self._table,
                    Key={"pk": {"S": f"HOSTED#{execution_id}"}, "sk": {"S": "-"}},
                    UpdateExpression=update,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
                standing: Any = error.response.get("Item") or {}
                return False, dict(standing)
        return True, dict(answer["Attributes"])


def _number(value: int) -> Item:
    return {"N": str(value)}
