"""How a call to AWS can fail; the adapters translate all of these, so that no caller of theirs sees one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class AwsFailure(Exception):
    """Base of all; `retries` says how often the request was sent again before."""

    def __init__(self, message: str, *, retries: int = 0) -> None:
        super().__init__(message)
        self.retries = retries


class ServiceRefused(AwsFailure):
    """The service answered with an error: its code, and the answer's other members."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        operation: str = "",
        status: int = 400,
        request_id: str = "",
        answer: Mapping[str, Any] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
        retries: int = 0,
    ) -> None:
        super().__init__(f"{operation} {status} {code}: {message} (request {request_id or 'unknown'})", retries=retries)
        self.code = code
        self.status = status
        self.request_id = request_id
        self.answer = answer
        self.headers = headers


class NoAnswer(AwsFailure):
    """A whole answer did not come: the service may have acted, or not."""


class NotConfigured(AwsFailure):
    """The request cannot be sent: the region or the credentials are missing, or a value cannot be written."""
