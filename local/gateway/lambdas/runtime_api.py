"""The Lambda Runtime API of one environment: a loopback port from which its process takes invocations.

awslambdaric speaks HTTP/1.1 to it: `GET …/invocation/next` blocks until there is work, `POST …/response` and `…/error`
end an invocation.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final

from local.gateway.lambdas.connection import Connection
from local.template import ACCOUNT, REGION

MAX_RESPONSE_BYTES: Final = 6 * 1024 * 1024 + 100  # Lambda's limit for a response; a little over 6 MiB


@dataclass(frozen=True, slots=True)
class Invocation:
    """One event on its way to a function."""

    request_id: str
    trace_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """A function's answer to an event: its response, or an error document with `failed` set."""

    payload: bytes
    failed: bool = False

    def error_message(self) -> str:
        """The text of the function's exception."""
        return str(json.loads(self.payload).get("errorMessage", ""))


def failure(kind: str, message: str) -> Answer:
    """The answer of an invocation that the function itself did not answer."""
    return Answer(json.dumps({"errorType": kind, "errorMessage": message}).encode(), failed=True)


class RuntimeApi:
    """Gives one invocation at a time to the process that polls it."""

    def __init__(self, function: str, timeout_seconds: float) -> None:
        self._arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._submitted: Invocation | None = None  # and not yet taken
        self._polling: Connection | None = None  # on it the process waits for work
        self._server: asyncio.Server | None = None
        self.ready = asyncio.Event()  # the process has initialised, or is gone
        self.taken: asyncio.Future[None] = self._loop.create_future()
        self.delivered = False
        self.answer: asyncio.Future[Answer] = self._loop.create_future()

    async def open(self) -> str:
        """Listen on a free loopback port; returns its address."""
        self._server = await self._loop.create_server(lambda: Connection(self), "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Stop listening, and end the wait for work of a process that is gone."""
        self.ready.set()
        if self._polling is not None:
            self._polling.close()
        if self._server is not None:
            self._server.close()

    def submit(self, invocation: Invocation) -> "asyncio.Future[Answer]":
        """Give an invocation to the process when it next asks; the future gets the function's answer."""
        self.taken = self._loop.create_future()
        self.delivered = False
        self.answer = self._loop.create_future()
        self._submitted = invocation
        self._deliver()
        return self.answer

    def settle(self, answer: Answer) -> None:
        """End the running invocation, unless it has already ended."""
        self._submitted = None
        if not self.taken.done():
            self.taken.set_result(None)
        if not self.answer.done():
            self.answer.set_result(answer)

    def asked(self, connection: Connection, path: str, body: bytes) -> None:
        """As `Requests.asked`."""
        if path.endswith("/invocation/next"):
            self.ready.set()
            self._polling = connection
            self._deliver()
        elif path.endswith("/response") and len(body) > MAX_RESPONSE_BYTES:
            self.settle(failure("Function.ResponseSizeTooLarge", "Response payload size exceeded maximum allowed"))
            connection.answer("413 Payload Too Large", b'{"errorType":"RequestEntityTooLarge"}')
        elif path.endswith(("/response", "/error")):
            self.settle(Answer(body, failed=path.endswith("/error")))
            connection.answer("202 Accepted", b'{"status":"OK"}')
        else:
            connection.answer("404 Not Found", b"{}")

    def left(self, connection: Connection) -> None:
        """As `Requests.left`; another process may take the next invocation."""
        if self._polling is connection:
            self._polling = None

    def _deliver(self) -> None:
        """Pass the invocation on, if there is one and the process waits for it."""
        polling, invocation = self._polling, self._submitted
        if polling is None or invocation is None:
            return
        self._polling = self._submitted = None
        self.delivered = True
        self.taken.set_result(None)
        deadline_ms = int((time.time() + self._timeout_seconds) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self._arn,
            "Lambda-Runtime-Trace-Id": invocation.trace_id,
        }
        polling.answer("200 OK", invocation.payload, headers)
