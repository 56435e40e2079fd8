"""The Lambda Runtime API of one environment: a loopback port from which its process takes invocations.

awslambdaric speaks HTTP/1.1 to it: `GET …/invocation/next` blocks until there is work, `POST …/response` and `…/error`
end an invocation. Every answer is one write; else each call would wait for the peer's delayed acknowledgement.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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


class RuntimeApi:
    """Gives one invocation at a time to the process that polls it."""

    def __init__(self, function: str, timeout_seconds: float) -> None:
        self._arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
        self._timeout_seconds = timeout_seconds
        self._waiting: asyncio.Queue[Invocation | None] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self.ready = asyncio.Event()  # the process has initialised, or is gone
        self.taken = asyncio.Event()
        self.delivered = False
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    async def open(self) -> str:
        """Listen on a free loopback port; returns its address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Stop listening, and end the wait for work of a process that is gone."""
        self.ready.set()
        self._waiting.put_nowait(None)
        if self._server is not None:
            self._server.close()

    def submit(self, invocation: Invocation) -> "asyncio.Future[Answer]":
        """Queue an invocation; the future gets the function's answer."""
        self.taken.clear()
        self.delivered = False
        self.answer = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(invocation)
        return self.answer

    def settle(self, answer: Answer) -> None:
        """End the running invocation, unless it has already ended."""
        self.taken.set()
        if not self.answer.done():
            self.answer.set_result(answer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request, headers = _parse(head)
                if headers.get("expect") == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                writer.write(await self._reply(request, body, reader))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the process is gone; its watcher ends the invocation
        finally:
            writer.close()

    async def _reply(self, request: str, body: bytes, reader: asyncio.StreamReader) -> bytes:
        _, path, _ = request.split(" ", 2)
        if path.endswith("/invocation/next"):
            self.ready.set()
            invocation = await self._waiting.get()
            if invocation is None or reader.at_eof():  # the process is gone, and another one may take the invocation
                raise ConnectionResetError
            return self._deliver(invocation)
        if path.endswith("/response"):
            if len(body) > MAX_RESPONSE_BYTES:
                self.settle(_error("Function.ResponseSizeTooLarge", "Response payload size exceeded maximum allowed"))
                return _message(413, "Payload Too Large", {}, b'{"errorType":"RequestEntityTooLarge"}')
            self.settle(Answer(body))
        elif path.endswith("/error"):
            self.settle(Answer(body, failed=True))
        else:
            return _message(404, "Not Found", {}, b"{}")
        return _message(202, "Accepted", {}, b'{"status":"OK"}')

    def _deliver(self, invocation: Invocation) -> bytes:
        self.delivered = True
        self.taken.set()
        deadline_ms = int((time.time() + self._timeout_seconds) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self._arn,
            "Lambda-Runtime-Trace-Id": invocation.trace_id,
        }
        return _message(200, "OK", headers, invocation.payload)


def _error(kind: str, message: str) -> Answer:
    return Answer(json.dumps({"errorType": kind, "errorMessage": message}).encode(), failed=True)


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    request, *lines = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return request, {name.strip().lower(): value.strip().lower() for name, _, value in pairs}


def _message(status: int, reason: str, headers: Mapping[str, str], body: bytes) -> bytes:
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
