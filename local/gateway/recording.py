"""Writes down every call to AWS that a function makes, so that a test can hold it against the function's role.

A recorder is a loopback port in front of the endpoint, one for each function. Bytes pass unchanged both ways; what goes
up is read as HTTP/1.1 besides, and each complete request becomes a JSON line for each permission it needs: `function`,
`action`, `resource`. A name that the function got in a variable is written as `${VARIABLE}`.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import h11

from local.gateway.permissions import Call, needed

RECORD_AWS_CALLS: Final = "PIECEWORK_RECORD_AWS_CALLS"  # a folder; unset means that nothing is recorded
ENDPOINT: Final = "AWS_ENDPOINT_URL"
CHUNK_BYTES: Final = 65_536
BACKLOG: Final = 512
NAMES: Final = (
    "TABLE",
    "BUCKET",
    "SECRET_ARN",
    "KEY_ARN",
    "QUEUE_URL",
)  # how variables end whose value names a resource
OTHER_NAMES: Final = frozenset({"FACILITATOR_AUTH", "BASE_RPC_URL_SECRET_ARN"})  # and two of the worker's own

Variables = dict[str, str]


def recorders(functions: Mapping[str, Variables], folder: str | None) -> "dict[str, Recorder]":
    """A recorder for each function that has an endpoint, when a folder is given."""
    if not folder:
        return {}
    Path(folder).mkdir(parents=True, exist_ok=True)
    out = Path(folder) / f"{os.getpid()}.jsonl"
    return {name: Recorder(name, variables, out) for name, variables in functions.items() if ENDPOINT in variables}


class Recorder:
    """Stands between one function and the endpoint; `variables` are the function's, with this port as endpoint."""

    def __init__(self, function: str, variables: Variables, out: Path) -> None:
        self._function = function
        self._out = out
        self._endpoint = urlsplit(variables[ENDPOINT])
        self._names = {value: name for name, value in variables.items() if _names_a_resource(name) and value}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._server: asyncio.Server | None = None
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.variables = {**variables, ENDPOINT: self.endpoint}

    async def open(self) -> None:
        """Start to take connections."""
        self._server = await asyncio.start_server(self._serve, sock=self._listener)

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            above = await asyncio.open_connection(self._endpoint.hostname, self._endpoint.port)
        except OSError:
            writer.transport.abort()  # the function sees an endpoint that is out of reach
            return
        heard = Requests(self._note)
        ways = {
            asyncio.create_task(_pass_on(reader, above[1], heard.feed)),
            asyncio.create_task(_pass_on(above[0], writer)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        writer.close()
        above[1].close()

    def _note(self, call: Call) -> None:
        lines = (
            json.dumps({"function": self._function, "action": action, "resource": resource})
            for action, resource in needed(call, self._named)
        )
        with self._out.open("a", encoding="utf-8") as out:
            out.write("".join(f"{line}\n" for line in lines))

    def _named(self, name: str) -> str:
        return f"${{{self._names[name]}}}" if name in self._names else name


class Requests:
    """Reads the requests of one connection out of its bytes, and hands each complete one to `hear`."""

    def __init__(self, hear: Callable[[Call], None]) -> None:
        self._hear = hear
        self._head: h11.Request | None = None
        self._begin(b"")

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._connection.receive_data(data)
        while True:
            event = self._connection.next_event()
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data if self._is_json() else b""
            elif isinstance(event, h11.EndOfMessage):
                self._hear(self._call())
                self._begin(self._connection.trailing_data[0])
            else:
                return

    def _begin(self, data: bytes) -> None:
        """Each request gets a state machine of its own: the answers between them are not looked at."""
        self._connection = h11.Connection(h11.SERVER)
        self._head = None
        self._body = bytearray()
        if data:
            self._connection.receive_data(data)

    def _headers(self) -> dict[str, str]:
        found = self._head.headers if self._head else ()
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in found}

    def _is_json(self) -> bool:
        """Whether the body says what the call is about; objects on their way to S3 are not kept."""
        return "x-amz-target" in self._headers()

    def _call(self) -> Call:
        head = self._head
        method, target = (head.method.decode(), head.target.decode("latin-1")) if head else ("", "")
        return Call(method, target, self._headers(), bytes(self._body))


def _names_a_resource(variable: str) -> bool:
    return variable in OTHER_NAMES or (variable.startswith("PIECEWORK_") and variable.endswith(NAMES))


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], None] | None = None
) -> None:
    try:
        while data := await reader.read(CHUNK_BYTES):
            if look:
                look(data)
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # one side is gone; the other one is closed by whoever waits for this
