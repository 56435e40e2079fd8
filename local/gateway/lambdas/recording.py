"""Records every call to AWS that a function makes, so that a test can compare it with the function's role.

A recorder is a loopback port in front of the endpoint, one for each function. Bytes pass unchanged both ways. The
requests are also read as HTTP/1.1, and each complete request becomes a JSON line for each permission that it needs:
`function`, `action`, `resource`. A name that the function got in a variable is written as `${VARIABLE}`.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import h11

from local.gateway.lambdas.permissions import Call, needed
from local.gateway.lambdas.port import ENDPOINT, Port, Up

RECORD_AWS_CALLS: Final = "PIECEWORK_RECORD_AWS_CALLS"  # a folder; unset turns recording off
NAMES: Final = (
    "TABLE",
    "BUCKET",
    "SECRET_ARN",
    "KEY_ARN",
    "QUEUE_URL",
    "LOG_GROUP",
)  # endings of variables whose value names a resource
OTHER_NAMES: Final = frozenset({"FACILITATOR_AUTH", "BASE_RPC_URL_SECRET_ARN"})  # and two of the worker's own

Variables = dict[str, str]


def recorders(functions: Mapping[str, Variables], folder: str | None) -> "dict[str, Recorder]":
    """A recorder for each function that has an endpoint, if a folder is given."""
    if not folder:
        return {}
    Path(folder).mkdir(parents=True, exist_ok=True)
    out = Path(folder) / f"{os.getpid()}.jsonl"
    return {name: Recorder(name, variables, out) for name, variables in functions.items() if ENDPOINT in variables}


FORM: Final = "application/x-www-form-urlencoded"  # of services that take no JSON


class Recorder(Port):
    """Writes a line for each permission that the passing requests need."""

    def __init__(self, function: str, variables: Variables, out: Path) -> None:
        super().__init__(variables)
        self._function = function
        self._out = out
        self._names = {value: name for name, value in variables.items() if _names_a_resource(name) and value}

    def connected(self) -> Up:
        """As `Port.connected`; the bytes stay as they are."""
        heard = Requests(self._note)

        def through(data: bytes) -> bytes:
            heard.feed(data)
            return data

        return through

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
    """Reads the requests from one connection's bytes, and passes each complete one to `hear`."""

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
                self._body += event.data if self._tells() else b""
            elif isinstance(event, h11.EndOfMessage):
                self._hear(self._call())
                self._begin(self._connection.trailing_data[0])
            else:
                return

    def _begin(self, data: bytes) -> None:
        """Start a new state machine for each request, because the answers between requests are not read."""
        self._connection = h11.Connection(h11.SERVER)
        self._head = None
        self._body = bytearray()
        if data:
            self._connection.receive_data(data)

    def _headers(self) -> dict[str, str]:
        found = self._head.headers if self._head else ()
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in found}

    def _tells(self) -> bool:
        """Whether the body describes the call; objects for S3 are not stored."""
        headers = self._headers()
        return "x-amz-target" in headers or headers.get("content-type", "").startswith(FORM)

    def _call(self) -> Call:
        head = self._head
        method, target = (head.method.decode(), head.target.decode("latin-1")) if head else ("", "")
        return Call(method, target, self._headers(), bytes(self._body))


def _names_a_resource(variable: str) -> bool:
    return variable in OTHER_NAMES or (variable.startswith("PIECEWORK_") and variable.endswith(NAMES))
