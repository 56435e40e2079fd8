"""Counts how often a chain of messages comes to a function, and bounds it as Lambda does.

Lambda writes the count into the trace header of each invocation. The AWS SDK sends that header with every call, SQS
stores it with the message, and the next invocation starts from it. A function that is in one chain for the seventeenth
time is not invoked, unless it declares `RecursiveLoop: Allow`: its messages come back, and end as dead letters.

The embedded AWS does not store the header of a call. A port in front of it does so for functions that take messages.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable
from typing import Any, Final

import h11

from local.gateway.lambdas.port import Port, Up

LONGEST_CHAIN: Final = 16  # invocations of one function, from AWS's documentation: "approximately 16"
LINEAGE: Final = re.compile(r"(?:^|;)Lineage=([0-9a-f:,]+)")
ROOT: Final = re.compile(r"(?:^|;)(Root=[^;]+)")
SENDS: Final = frozenset({b"AmazonSQS.SendMessage", b"AmazonSQS.SendMessageBatch"})
TRACE_ATTRIBUTE: Final = "AWSTraceHeader"


def admitted(traces: Iterable[str], function: str, *, may_loop: bool) -> str | None:
    """The trace header of the invocation for these messages, or None if Lambda would not invoke the function."""
    headers = list(traces)
    counts = _merged(headers)
    mark = hashlib.sha256(function.encode()).hexdigest()[:8]
    if counts.get(mark, 0) >= LONGEST_CHAIN and not may_loop:
        return None
    counts[mark] = counts.get(mark, 0) + 1
    root = next((found[1] for header in headers if (found := ROOT.search(header))), _new_root())
    return f"{root};Lineage={','.join(f'{name}:{count}' for name, count in counts.items())}"


def _merged(headers: Iterable[str]) -> dict[str, int]:
    """The longest chain of each function among a batch's messages."""
    counts: dict[str, int] = {}
    for header in headers:
        found = LINEAGE.search(header)
        for part in found[1].split(",") if found else ():
            name, _, count = part.partition(":")
            counts[name] = max(counts.get(name, 0), int(count))
    return counts


def _new_root() -> str:
    return f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)}"


class TracePort(Port):
    """Stores with each message the trace header of its call."""

    def connected(self) -> Up:
        """As `Port.connected`."""
        return Stamping().feed


class Stamping:
    """Passes on the requests of one connection, and writes their trace header into the messages that they send."""

    def __init__(self) -> None:
        self._heads: list[h11.Request] = []  # of the request whose body is being read
        self._begin(b"")

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on for the received bytes."""
        self._reading.receive_data(data)
        out = b""
        while True:
            event = self._reading.next_event()
            if isinstance(event, h11.Request):
                self._trace = _sent_under(event)
                self._heads = [event] if self._trace else []
                out += b"" if self._trace else self._write(event)
            elif isinstance(event, h11.Data) and self._trace:
                self._body += bytes(event.data)
            elif isinstance(event, h11.Data):
                out += self._write(event)
            elif isinstance(event, h11.EndOfMessage):
                out += self._stamped() if self._trace else b""
                out += self._write(event)
                self._begin(self._reading.trailing_data[0])
            else:
                return out

    def _begin(self, data: bytes) -> None:
        """Start new state machines for each request, because the answers between requests are not read."""
        self._reading, self._writing = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)
        self._heads = []
        self._trace = ""
        self._body = b""
        if data:
            self._reading.receive_data(data)

    def _write(self, event: Any) -> bytes:
        written: bytes | None = self._writing.send(event)
        return written or b""

    def _stamped(self) -> bytes:
        [sent], body = self._heads, stamped(self._body, self._trace)
        kept = [(name, value) for name, value in sent.headers.raw_items() if name.lower() != b"content-length"]
        headers = [*kept, (b"Content-Length", str(len(body)).encode())]
        head = h11.Request(method=sent.method, target=sent.target, headers=headers)
        return self._write(head) + self._write(h11.Data(data=body))


def stamped(body: bytes, trace: str) -> bytes:
    """The JSON of SendMessage or SendMessageBatch with the trace header as the messages' system attribute."""
    document = json.loads(body)
    for message in document.get("Entries", [document]):
        attributes = message.setdefault("MessageSystemAttributes", {})
        attributes.setdefault(TRACE_ATTRIBUTE, {"DataType": "String", "StringValue": trace})
    return json.dumps(document).encode()


def _sent_under(head: h11.Request) -> str:
    headers = dict(head.headers)
    return headers.get(b"x-amzn-trace-id", b"").decode() if headers.get(b"x-amz-target") in SENDS else ""
