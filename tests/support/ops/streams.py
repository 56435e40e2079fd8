"""A reader of a stream of the operator's door, in the test's own process."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode

SECONDS = 5


class Reader:
    """Reads what an ASGI application answers, as it comes."""

    def __init__(self, app: Any, path: str, name: str = "viewer", **query: Any) -> None:
        self.headers: dict[str, str] = {}
        self.status, self._app, self._path, self._query = 0, app, path, query
        self._sent = [(b"authorization", f"Bearer secret-of-{name}".encode())] if name else []
        self.parts: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._rest, self._gone = b"", asyncio.Event()

    async def open(self, method: str = "GET", *, begins: bool = True, **headers: str) -> Self:
        """Send the request, and wait for the answer's begin."""
        sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": method,
            "path": self._path,
            "query_string": urlencode(self._query).encode(),
            "headers": [*self._sent, *sent],
        }
        self.task = asyncio.create_task(self._app(scope, self._receive, self.parts.put))
        if not begins:
            return self
        begin = await asyncio.wait_for(self.parts.get(), SECONDS)
        self.status = begin["status"]
        self.headers = {name.decode(): value.decode() for name, value in begin["headers"]}
        return self

    async def block(self) -> str:
        """The next block, without the empty line behind it; empty at the end."""
        while b"\n\n" not in self._rest:
            part = await asyncio.wait_for(self.parts.get(), SECONDS)
            self._rest += part["body"]
            if not part["more_body"] and b"\n\n" not in self._rest:
                return self._rest.decode()
        block, _, self._rest = self._rest.partition(b"\n\n")
        return block.decode()

    async def event(self) -> dict[str, Any]:
        """The next event; what is not one is passed over. Empty at the end of the stream."""
        while True:
            block = await self.block()
            if not block:
                return {}
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in lines:
                return {"id": int(lines["id"]), "type": lines["event"], "data": json.loads(lines["data"])}

    async def rest(self) -> list[dict[str, Any]]:
        """All events until the end."""
        found = []
        while event := await self.event():
            found.append(event)
        return found

    async def leave(self) -> None:
        """Close the connection, which is seen."""
        self._gone.set()
        await asyncio.wait_for(self.task, SECONDS)

    async def _receive(self) -> Mapping[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}
