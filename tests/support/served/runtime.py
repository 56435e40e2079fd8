"""A runtime door behind a URL, as its cases ask it: over the wire alone, nothing of ours decides an answer."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.machine import RunningGateway
from tests.support.runtime.requests import a_nonce_request, an_execute_request
from tests.support.runtime.verification import Judge
from tests.support.served import url_run


@dataclass(frozen=True)
class ServedRuntime:
    """The door at the URL."""

    url: str
    http: httpx.Client


class ServedVerifier(Judge):
    """POST /verify of the door at the URL."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def send(self, raw: bytes) -> tuple[int, bytes]:
        answer = self._http.post("/verify", content=raw, headers={"content-type": "application/json"})
        return answer.status_code, answer.content


class Runs:
    """Requests whose runs are counted, at a gateway with the nonce executor."""

    def __init__(self, runtime: RunningGateway) -> None:
        self._runtime = runtime

    def request(self, seconds: float = 0, **inputs: Any) -> dict[str, Any]:
        """A request whose answer no other run can give."""
        return a_nonce_request(seconds, **inputs)

    def are(self, request: dict[str, Any], times: int) -> None:
        """The executor ran so often for it."""
        assert self._runtime.runs(request["execution_id"]) == times

    def differ(self, first: httpx.Response, second: httpx.Response) -> None:
        """Two runs have given two answers."""
        assert first.content != second.content


class UncountedRuns:
    """The same over a URL, where nobody sees how often an executor runs."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def request(self, seconds: float = 0, **inputs: Any) -> dict[str, Any]:
        return an_execute_request("swarm", {"prompt": "hello", **inputs})

    def are(self, request: dict[str, Any], times: int) -> None:
        url_run.held_back(self._node.config, "how often an executor ran", self._node)

    def differ(self, first: httpx.Response, second: httpx.Response) -> None:
        url_run.held_back(self._node.config, "how often an executor ran", self._node)
