"""A loopback port before the embedded AWS, one for each function, which may read or change the requests."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

ENDPOINT: Final = "AWS_ENDPOINT_URL"
CHUNK_BYTES: Final = 65_536
BACKLOG: Final = 512

Up = Callable[[bytes], bytes]  # from the bytes that a function sent to the bytes to pass on


class Port:
    """A proxy between one function and the endpoint; `variables` are the function's, with this port as endpoint."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._above = urlsplit(variables[ENDPOINT])
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

    def connected(self) -> Up:
        """The filter for the bytes that a new connection sends; a plain port passes them on unchanged."""
        return bytes

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            above = await asyncio.open_connection(self._above.hostname, self._above.port)
        except OSError:
            writer.transport.abort()  # the function sees an endpoint that is out of reach
            return
        ways = {
            asyncio.create_task(_pass_on(reader, above[1], self.connected())),
            asyncio.create_task(_pass_on(above[0], writer, bytes)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        writer.close()
        above[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, through: Up) -> None:
    with contextlib.suppress(ConnectionError):  # one side is gone; the caller closes the other one
        while data := await reader.read(CHUNK_BYTES):
            writer.write(through(data))
            await writer.drain()
