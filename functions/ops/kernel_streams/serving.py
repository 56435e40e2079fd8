"""Answers requests for streams: refusals in the door's own shape, or events until the stream or its reader ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from piecework.edge.http import Request, Response
from piecework.edge.ports import Telemetry
from piecework.errors import Internal, NotFound, PieceworkError, Unavailable
from piecework.kernel.wire.frames import HEARTBEAT
from piecework.ops.access import Access
from piecework.ops.door import NO_STORE, admitted, error_response
from piecework.ops.kernel.watching import HEARTBEAT_SECONDS, LIFE_SECONDS, Watch, Watches
from piecework.ops.kernel_routes import KERNEL, STREAM

MOST_OPEN: Final = 64  # streams of one process; an environment of Lambda has one
THREADS: Final = 4  # a look takes some milliseconds
OPENERS: Final = 4  # threads of their own: no stream waits while an issuer is asked for its keys
FULL: Final = 100  # frames after which there may be more at once
UNREAD_SECONDS: Final = 30.0  # beyond its life, for a reader who does not take what is written
PRELUDE: Final = b"retry: 1000\n\n"
HEADERS: Final = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
NAME: Final = "ops_kernel_streams"

T = TypeVar("T")
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Streams:
    """The open streams of this process."""

    def __init__(
        self, access: Callable[[], Access], watches: Callable[[], Watches], telemetry: Callable[[], Telemetry]
    ) -> None:
        self._access, self._watches, self._telemetry = access, watches, telemetry
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="look")
        self._openers = ThreadPoolExecutor(OPENERS, thread_name_prefix="open")
        self._open = 0

    async def serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        loop = asyncio.get_running_loop()
        opened = await loop.run_in_executor(self._openers, self._opened, request_of(scope), loop.time())
        if isinstance(opened, Response):
            await answer(send, opened)
            return
        self._open += 1
        gone = asyncio.create_task(_until_gone(receive))
        try:
            async with asyncio.timeout(LIFE_SECONDS + UNREAD_SECONDS):
                await self._follow(opened, gone, send)
        except TimeoutError:
            pass
        finally:
            self._open -= 1
            gone.cancel()

    def _opened(self, request: Request, now: float) -> Watch | Response:
        """The stream that is asked for, or the answer that refuses it; one line in the log."""
        facts: dict[str, Any] = {"trace_id": request.trace_id}
        opened: Watch | None = None
        try:
            route, asked = admitted(request, self._access(), facts)
            if route != STREAM:
                raise NotFound("only streams are served here")
            if self._open >= MOST_OPEN:
                raise Unavailable("too many streams are open; try again")
            opened = self._watches().open(asked, now)
            response = Response(204 if opened.is_over else 200, b"")
        except PieceworkError as error:
            response = error_response(error)
        except Exception:  # noqa: BLE001  # the door's outer edge: a bug is logged and answered without its text
            self._telemetry().bug(NAME)
            response = error_response(Internal("internal error; the function's log has it"))
        self._telemetry().outcome(NAME, {**facts, **response.facts, "status": response.status}, {})
        return opened if opened and not opened.is_over else response

    async def _follow(self, watch: Watch, gone: "asyncio.Task[None]", send: Send) -> None:
        """Write events as they come, until the stream ends or its reader has left."""
        loop = asyncio.get_running_loop()
        await send(_start(200, {**HEADERS, **NO_STORE}))
        await send(_part(PRELUDE))
        beat_at = loop.time() + HEARTBEAT_SECONDS
        while not gone.done():
            step = await self._look(partial(watch.look, loop.time()))
            if step.frames:
                await send(_part(b"".join(step.frames)))
                beat_at = loop.time() + HEARTBEAT_SECONDS
            if step.ends:
                await send(_part(b"", is_last=True))
                return
            if len(step.frames) >= FULL:
                continue
            await asyncio.wait({gone}, timeout=watch.gap(loop.time()))
            if loop.time() >= beat_at:
                await send(_part(HEARTBEAT))
                beat_at = loop.time() + HEARTBEAT_SECONDS

    async def _look(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def request_of(scope: Mapping[str, Any]) -> Request:
    """The request as the door reads it; a stage or a base path before it is left out."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    path = str(scope["path"])
    begin = max(path.find(f"{KERNEL}/"), 0)
    return Request(
        method=str(scope["method"]),
        resource="/{proxy+}",
        path=path,
        headers=headers,
        path_params={"proxy": path[begin:].removeprefix("/")},
        query=parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True),
        context={},
        remaining_ms=lambda: int(LIFE_SECONDS * 1000),
        text=None,
        is_base64=False,
    )


async def answer(send: Send, response: Response) -> None:
    """Send a whole answer."""
    has_body = {"Content-Type": "application/json"} if response.body else {}
    await send(_start(response.status, {**has_body, **NO_STORE, **response.headers}))
    await send(_part(response.body, is_last=True))


def _start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}


def _part(content: bytes, *, is_last: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": not is_last}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
