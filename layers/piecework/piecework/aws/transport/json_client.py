"""What the clients of services that speak JSON share: an endpoint, and a call by the name of its operation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from json import JSONEncoder
from typing import Any, ClassVar, Final

from piecework.aws.transport.caller import Caller, Request, json_answer
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import Endpoint, endpoint_of, region_of

ENCODER: Final = JSONEncoder(separators=(",", ":"))


class JsonClient:
    """A client for one endpoint. Every method raises ServiceRefused, NoAnswer or NotConfigured."""

    service: ClassVar[str]
    target: ClassVar[str]  # what stands before the operation in `x-amz-target`
    headers: ClassVar[Mapping[str, str]]
    answer_bytes: ClassVar[int] = 1024 * 1024
    encoder: ClassVar[JSONEncoder] = ENCODER

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env

    @cached_property
    def _region(self) -> str:
        return region_of(self._env)

    @cached_property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(self.service, self._env, self._region)

    def close(self) -> None:
        """Close the connections."""
        self._caller.connections.close()

    def _called(self, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        headers = {**self.headers, "x-amz-target": f"{self.target}.{operation}"}
        path, body = self._endpoint.path or "/", self.encoder.encode(given).encode("ascii")
        origin = self._endpoint.origin
        request = Request(operation, origin, self._region, self.service, path=path, headers=headers, body=body)
        found: dict[str, Any] = self._caller.call(request, self._read)
        return found

    def _read(self, request: Request, answer: Answer) -> dict[str, Any]:
        return json_answer(request, answer, self.answer_bytes)
