"""Writing streams: many of them in one process, which share one pool of threads for looks at the store."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from piecework.errors import PieceworkError
from piecework.kernel.bells import BellRows, Key, monitor_key, rung_by
from piecework.kernel.changes import Change
from piecework.kernel.frames import PRELUDE
from piecework.kernel.push_streams import PushStream
from piecework.kernel.streams import Stream

LISTEN_SECONDS: Final = 0.1  # between looks at the bells of all streams, one request for a hundred
LOOK_SECONDS: Final = 2.0  # between a stream's own looks; bells may be lost
FOLLOW_SECONDS: Final = 0.25  # between a monitor's looks; an execution that others drive has no bell
FULL: Final = 20  # frames after which there may be more at once
THREADS: Final = 10  # looks at the same time, as many as the AWS client keeps connections
HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

T = TypeVar("T")


class Hall:
    """The open streams of this process: wakes them, and ends one when its consumer has opened another."""

    def __init__(self, bells: BellRows | None = None) -> None:
        self._bells, self._marks = bells, dict[Key, str]()
        self._listening: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="look")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[Key, dict[Stream, asyncio.Event]] = {}
        self._later: set[asyncio.Task[None]] = set()

    def hear(self, bells: BellRows) -> None:
        """Listen to what other processes ring."""
        self._bells = bells

    async def look(self, work: Callable[[], T]) -> T:
        """Do something with the store, off the loop."""
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._threads, work)

    def enter(self, key: Key, stream: Stream) -> asyncio.Event:
        """A stream has opened; the event is set when there is news for it."""
        self._loop, bell = asyncio.get_running_loop(), asyncio.Event()
        for older, its_bell in self._open.setdefault(key, {}).items():
            if isinstance(older, PushStream):
                older.supersede()
                its_bell.set()
        self._open[key][stream] = bell
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen())
        return bell

    def leave(self, key: Key, stream: Stream) -> None:
        """A stream has ended."""
        self._open[key].pop(stream)
        if not self._open[key]:
            del self._open[key]

    def ring(self, key: Key) -> None:
        """There is news for whoever has this key; from any thread."""
        if self._loop is not None and key in self._open:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its streams with it
                self._loop.call_soon_threadsafe(self._ring, key)

    def ring_for(self, change: Change) -> None:
        """The same for all that a change made in this process has news for."""
        for key in rung_by(change) | {monitor_key(change.after.id)}:
            self.ring(key)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something with the store after a while, unless the process ends before."""
        task = asyncio.create_task(self._after(seconds, work))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _listen(self) -> None:
        """Hear what other processes ring, as long as a stream is open."""
        while self._open and self._bells is not None:
            keys = [key for key in self._open if key[0] != "monitor"]
            with contextlib.suppress(PieceworkError):
                marks = await self.look(partial(self._bells.rung, keys)) if keys else {}
                for key, mark in marks.items():
                    if self._marks.get(key) != mark:
                        self._ring(key)
                self._marks = dict(marks)
            await asyncio.sleep(LISTEN_SECONDS)

    def _ring(self, key: Key) -> None:
        for bell in self._open.get(key, {}).values():
            bell.set()

    async def _after(self, seconds: float, work: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(PieceworkError):  # its due time brings it up again
            await self.look(work)


class EventStream(Response):
    """An open stream as an answer; ends with the stream, or with its reader."""

    def __init__(
        self, hall: Hall, key: Key, stream: Stream, headers: Mapping[str, str], after_loss: Callable[[], None] | None
    ) -> None:
        super().__init__(headers={**HEADERS, **headers})
        del self.headers["content-length"]
        self._hall, self._key, self._stream, self._after_loss = hall, key, stream, after_loss

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bell = self._hall.enter(self._key, self._stream)
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _write(send, PRELUDE)
            if await self._run(send, bell, gone):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._lost()
        finally:
            gone.cancel()
            self._hall.leave(self._key, self._stream)

    async def _run(self, send: Send, bell: asyncio.Event, gone: "asyncio.Task[None]") -> bool:
        """Write until the stream ends, True, or its reader has left, False."""
        while not gone.done():
            bell.clear()
            step = await self._hall.look(self._stream.step)
            if step.frames:
                await _write(send, b"".join(step.frames))
                await asyncio.sleep(0)  # a reader that has left is known by now
            if gone.done():
                break
            if step.ends:
                return True
            if step.frames:
                await self._hall.look(self._stream.sent)
            if len(step.frames) >= FULL:
                continue
            await _first_of(bell, gone, FOLLOW_SECONDS if self._key[0] == "monitor" else LOOK_SECONDS)
        return False

    async def _lost(self) -> None:
        try:
            grace_ms = await self._hall.look(self._stream.closed)
        except PieceworkError:
            return  # its lease ends
        if self._after_loss is not None:
            self._hall.later(grace_ms / 1000, self._after_loss)


async def _write(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(bell: asyncio.Event, gone: "asyncio.Task[None]", seconds: float) -> None:
    """Until there may be news, or nobody to tell it to."""
    ringing = asyncio.create_task(bell.wait())
    await asyncio.wait({ringing, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    ringing.cancel()
