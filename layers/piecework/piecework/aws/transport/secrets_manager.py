"""Secrets Manager's one operation that we use, in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from json import dumps
from typing import Any, Final

from piecework.aws.transport.caller import Caller, Request, json_answer
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import Endpoint, endpoint_of, region_of

SERVICE: Final = "secretsmanager"
ANSWER_BYTES: Final = 1024 * 1024  # a secret has at most 64 KB
HEADERS: Final = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}


class SecretsManager:
    """A client for one endpoint."""

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env

    @cached_property
    def _region(self) -> str:
        return region_of(self._env)

    @cached_property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(SERVICE, self._env, self._region)

    def get_secret_value(self, **given: Any) -> dict[str, Any]:
        """Read one secret. Raises ServiceRefused, NoAnswer, NotConfigured."""
        path, body = self._endpoint.path or "/", dumps(given).encode()
        origin = self._endpoint.origin
        request = Request("GetSecretValue", origin, self._region, SERVICE, path=path, headers=HEADERS, body=body)
        found: dict[str, Any] = self._caller.call(request, _read)
        return found


def _read(request: Request, answer: Answer) -> dict[str, Any]:
    return json_answer(request, answer, ANSWER_BYTES)
