"""One connection of a function's process to its Runtime API: HTTP/1.1, one request at a time, each with its length."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

BLANK_LINE: Final = b"\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Requests(Protocol):
    """Takes the requests of a connection."""

    def asked(self, connection: "Connection", path: str, body: bytes) -> None:
        """Answer a request, now or later."""

    def left(self, connection: "Connection") -> None:
        """Do not write to this connection any more."""


class Connection(asyncio.Protocol):
    """Reads requests, and writes each answer at once: else the peer's delayed acknowledgement holds it up."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._received = bytearray()
        self._path = ""
        self._begin = 0  # of the body; 0 while the head is incomplete
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio's protocols."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # of a stream, as asyncio says

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio's protocols; with the default `eof_received`, a peer that has closed its side is gone."""
        self._requests.left(self)

    def data_received(self, data: bytes) -> None:
        """As asyncio's protocols."""
        self._received += data
        if (self._begin or self._read_head()) and len(self._received) >= self._end:
            body = bytes(self._received[self._begin : self._end])
            del self._received[: self._end]
            self._begin = 0
            self._requests.asked(self, self._path, body)

    def answer(self, status: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Write one answer with a JSON body."""
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
        self._transport.write("\r\n".join(lines).encode("latin-1") + BLANK_LINE + body)

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def _read_head(self) -> bool:
        length = self._received.find(BLANK_LINE)
        if length < 0:
            return False
        request, *lines = self._received[:length].decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value for name, _, value in (line.partition(":") for line in lines)}
        self._path = request.split(" ")[1]
        self._begin = length + len(BLANK_LINE)
        self._end = self._begin + int(fields.get("content-length", 0))
        if fields.get("expect", "").strip().lower() == "100-continue":
            self._transport.write(CONTINUE)
        return True
