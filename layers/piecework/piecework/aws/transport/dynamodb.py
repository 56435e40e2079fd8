"""DynamoDB's operations that we use, in its own words: members and answers are those of its API."""

from base64 import b64encode
from json import JSONEncoder
from secrets import token_hex
from typing import Any, ClassVar
from zlib import crc32

from piecework.aws.transport.caller import Request
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.failures import NoAnswer
from piecework.aws.transport.json_client import JsonClient


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} has no attribute")


class DynamoDB(JsonClient):
    """A client for one endpoint. Bytes are given as they are; answers hold them in base64, as they are sent."""

    service = "dynamodb"
    target = "DynamoDB_20120810"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.0"}
    answer_bytes = 20 * 1024 * 1024  # a batch read's 16 MB, as JSON
    encoder = JSONEncoder(default=_text, separators=(",", ":"))

    def get_item(self, **given: Any) -> dict[str, Any]:
        """Read one row."""
        return self._called("GetItem", given)

    def batch_get_item(self, **given: Any) -> dict[str, Any]:
        """Read up to 100 rows."""
        return self._called("BatchGetItem", given)

    def query(self, **given: Any) -> dict[str, Any]:
        """Read a page of a partition."""
        return self._called("Query", given)

    def put_item(self, **given: Any) -> dict[str, Any]:
        """Write one row."""
        return self._called("PutItem", given)

    def update_item(self, **given: Any) -> dict[str, Any]:
        """Change one row."""
        return self._called("UpdateItem", given)

    def delete_item(self, **given: Any) -> dict[str, Any]:
        """Remove one row."""
        return self._called("DeleteItem", given)

    def batch_write_item(self, **given: Any) -> dict[str, Any]:
        """Write or remove up to 25 rows, each on its own."""
        return self._called("BatchWriteItem", given)

    def transact_write_items(self, **given: Any) -> dict[str, Any]:
        """Write up to 100 rows, all or nothing; the token makes a repeated request one with the first."""
        return self._called("TransactWriteItems", {"ClientRequestToken": token_hex(16), **given})

    def _read(self, request: Request, answer: Answer) -> dict[str, Any]:
        stated = answer.headers.get("x-amz-crc32", "")
        if stated and stated != str(crc32(answer.body)):
            raise NoAnswer(f"{request.operation}: the answer was damaged on its way")
        return super()._read(request, answer)
