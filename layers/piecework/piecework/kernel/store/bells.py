"""Bells in the kernel table: one row per connection, `pk` = `BELL#` and a hash, overwritten by each ring."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.clients import aws_errors
from piecework.kernel.streams.bells import BellRows, Key

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

THE_TABLE: Final = "the kernel table"
AT_ONCE: Final = 100  # keys of one request
SORT: Final = "-"
KEPT_SECONDS: Final = 86_400  # a connection that lives on is rung again


class KernelBells(BellRows):
    """Bells in DynamoDB; reads are eventually consistent, which is enough for a hint."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client, self._table = client, table

    def ring(self, keys: Iterable[Key]) -> None:
        for key in keys:
            expires = {"N": str(int(time.time()) + KEPT_SECONDS)}
            item: dict[str, Any] = {**_row(key), "mark": {"S": secrets.token_hex(6)}, "expires_at": expires}
            with aws_errors(THE_TABLE):
                self._client.put_item(TableName=self._table, Item=item)

    def rung(self, keys: Collection[Key]) -> Mapping[Key, str]:
        named = {_row(key)["pk"]["S"]: key for key in keys}
        marks: dict[Key, str] = {}
        rows = list(named)
        for start in range(0, len(rows), AT_ONCE):
            wanted: Any = {
                "Keys": [{"pk": {"S": row}, "sk": {"S": SORT}} for row in rows[start : start + AT_ONCE]],
                "ProjectionExpression": "pk, mark",
            }
            with aws_errors(THE_TABLE):
                answer = self._client.batch_get_item(RequestItems={self._table: wanted})
            found = answer["Responses"].get(self._table, [])
            marks |= {named[row["pk"]["S"]]: row["mark"]["S"] for row in found}
        return marks


def _row(key: Key) -> dict[str, Any]:
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    return {"pk": {"S": f"BELL#{name}"}, "sk": {"S": SORT}}
