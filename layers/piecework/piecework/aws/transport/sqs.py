"""SQS's operations that we use, in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from json import dumps
from typing import Any, Final

from piecework.aws.transport.caller import Caller, Request, json_answer
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import Endpoint, endpoint_of, region_of

SERVICE: Final = "sqs"
ANSWER_BYTES: Final = 1024 * 1024
HEADERS: Final = {"content-type": "application/x-amz-json-1.0", "x-amzn-query-mode": "true"}


class SQS:
    """A client for one endpoint. Every method raises ServiceRefused, NoAnswer or NotConfigured."""

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env

    @cached_property
    def _region(self) -> str:
        return region_of(self._env)

    @cached_property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(SERVICE, self._env, self._region)

    def send_message(self, **given: Any) -> dict[str, Any]:
        """Send one message."""
        return self._called("SendMessage", given)

    def send_message_batch(self, **given: Any) -> dict[str, Any]:
        """Send up to 10 messages, each on its own."""
        return self._called("SendMessageBatch", given)

    def close(self) -> None:
        """Close the connections."""
        self._caller.connections.close()

    def _called(self, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        headers = {**HEADERS, "x-amz-target": f"AmazonSQS.{operation}"}
        path = self._endpoint.path or "/"
        request = Request(
            operation,
            self._endpoint.origin,
            self._region,
            SERVICE,
            path=path,
            headers=headers,
            body=dumps(given).encode(),
        )
        found: dict[str, Any] = self._caller.call(request, _read)
        return found


def _read(request: Request, answer: Answer) -> dict[str, Any]:
    return json_answer(request, answer, ANSWER_BYTES)
