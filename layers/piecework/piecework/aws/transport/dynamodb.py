"""DynamoDB's operations that we use, in its own words: members and answers are those of its API."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from json import JSONEncoder
from secrets import token_hex
from typing import Any, Final
from zlib import crc32

from piecework.aws.transport.caller import Caller, Request, json_answer
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import Endpoint, endpoint_of, region_of
from piecework.aws.transport.failures import NoAnswer

SERVICE: Final = "dynamodb"
ANSWER_BYTES: Final = 20 * 1024 * 1024  # a batch read's 16 MB, as JSON
TYPE: Final = "application/x-amz-json-1.0"


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} has no attribute")


ENCODER: Final = JSONEncoder(default=_text, separators=(",", ":"))


class DynamoDB:
    """A client for one endpoint. Bytes are given as they are; answers hold them in base64, as they are sent.

    Every method raises ServiceRefused, NoAnswer or NotConfigured.
    """

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env

    @cached_property
    def _region(self) -> str:
        return region_of(self._env)

    @cached_property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(SERVICE, self._env, self._region)

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

    def close(self) -> None:
        """Close the connections."""
        self._caller.connections.close()

    def _called(self, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"content-type": TYPE, "x-amz-target": f"DynamoDB_20120810.{operation}"}
        path, body = self._endpoint.path or "/", ENCODER.encode(given).encode("ascii")
        request = Request(
            operation, self._endpoint.origin, self._region, SERVICE, path=path, headers=headers, body=body
        )
        found: dict[str, Any] = self._caller.call(request, _read)
        return found


def _read(request: Request, answer: Answer) -> dict[str, Any]:
    stated = answer.headers.get("x-amz-crc32", "")
    if stated.isdecimal() and int(stated) != crc32(answer.body):
        raise NoAnswer(f"{request.operation}: the answer was damaged on its way")
    return json_answer(request, answer, ANSWER_BYTES)
