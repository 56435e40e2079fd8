"""Writing streams: many of them in one process, which share a few threads for what they ask of the store.

| path | what goes there | what may wait for it |
|---|---|---|
| the event loop | heartbeats | nothing: they do not ask the store |
| keep | renewing the leases of all open streams | a thread of its own |
| open | a new agent or runner stream | only others that open |
| look | looks of agents and runners; those with a hint go before those that only check whether a hint was lost | |
| follow, join | looks of monitors; new ones | |
| hear | the hints of other processes | a thread of its own |
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from piecework.errors import PieceworkError
from piecework.kernel.model.changes import Change
from piecework.kernel.streams.hints import Hints, Key, Named, concerned_by, monitor_key
from piecework.kernel.streams.listening import Listening
from piecework.kernel.streams.opening import Stream
from piecework.kernel.streams.push_streams import FULL_BYTES, PushStream, Step
from piecework.kernel.wire.frames import HEARTBEAT, PRELUDE

LOOK_SECONDS: Final = 2.0  # between a stream's own looks; hints may be lost
FULL: Final = 20  # frames after which there may be more at once
KEEP_SECONDS: Final = 0.5  # between looks for leases that are due; one that could not be renewed is tried again then
PATHS: Final = {"keep": 1, "open": 4, "look": 8, "follow": 4, "join": 2, "hear": 1}  # threads of each
LEISURE: Final = {"look": 2, "follow": 2}  # of them, those that looks which nobody rang for may take
UNREAD_BEATS: Final = 2  # heartbeats that a write may wait for its reader before the lease is left to lapse
REST: Final = 1.0  # times as long as such a look took, its place stays taken: the loop and the store serve others
SWITCH_SECONDS: Final = 0.0005  # after which a thread lets the loop in; it must, at every write of a heartbeat
HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")
Keeping = Callable[[Sequence[PushStream]], Sequence[PushStream]]  # renews; those that were replaced


class StreamHub:
    """The open streams of this process: wakes them, and ends one when its consumer has opened another."""

    def __init__(self, hints: Hints | None = None) -> None:
        self._hints, self._marks = hints, Listening()
        self._listening: asyncio.Task[None] | None = None
        self._threads = {name: ThreadPoolExecutor(most, thread_name_prefix=name) for name, most in PATHS.items()}
        self._leisure = {name: asyncio.Semaphore(most) for name, most in LEISURE.items()}
        self._keeper: Keeping | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[Key, dict[Stream, asyncio.Event]] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._written_since: dict[Stream, float] = {}  # of streams whose reader has not taken what is written

    def listen_to(self, hints: Hints) -> None:
        """Follow the hints of other processes."""
        self._hints = hints

    def keep(self, keeper: Keeping) -> None:
        """Have the leases of the open streams renewed."""
        self._keeper = keeper

    async def look(self, work: Callable[[], T], path: str = "look") -> T:
        """Do something with the store, off the loop and in the threads of a path."""
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._threads[path], work)

    async def look_at_leisure(self, work: Callable[[], T], path: str, news: asyncio.Event) -> T:
        """The same for a look without a hint: with many streams others go before, until there is news for it."""
        loop, places = asyncio.get_running_loop(), self._leisure[path]
        if not await _has_place(places, news):
            news.clear()
            return await self.look(work, path)
        began = loop.time()
        try:
            return await self.look(work, path)
        finally:
            loop.call_later((loop.time() - began) * REST, places.release)

    def enter(self, key: Key, stream: Stream) -> asyncio.Event:
        """A stream has opened; the event is set when there is news for it."""
        self._loop, news = asyncio.get_running_loop(), asyncio.Event()
        for older, its_bell in self._open.setdefault(key, {}).items():
            if isinstance(older, PushStream):
                older.supersede()
                its_bell.set()
        self._open[key][stream] = news
        self._marks.open(key, self._loop.time())
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen())
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())
        return news

    def leave(self, key: Key, stream: Stream) -> None:
        """A stream has ended."""
        self._open[key].pop(stream)
        if not self._open[key]:
            del self._open[key]
            self._marks.close(key)

    def wake(self, key: Key) -> None:
        """There is news for the streams of this key; may be called from any thread."""
        if self._loop is not None and key in self._open:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its streams with it
                self._loop.call_soon_threadsafe(self._rouse, key)

    def wake_for(self, change: Change) -> None:
        """The same for all that a change made in this process has news for."""
        for key in concerned_by(change) | {monitor_key(change.after.id)}:
            self.wake(key)

    @contextlib.contextmanager
    def writing(self, stream: Stream) -> Iterator[None]:
        """What is written inside the block waits for the stream's reader."""
        self._written_since[stream] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            del self._written_since[stream]

    def _is_read(self, stream: Stream) -> bool:
        """Whether a reader takes what is written; one that does not keeps no session, as one that has left."""
        now = asyncio.get_running_loop().time()
        return now - self._written_since.get(stream, now) < UNREAD_BEATS * stream.heartbeat_ms / 1000

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something with the store after a while, unless the process ends before."""
        task = asyncio.create_task(self._after(seconds, work))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _keep(self) -> None:
        """Have leases renewed, as long as a stream is open."""
        while self._open and self._keeper is not None:
            streams = [(key, stream) for key, held in self._open.items() for stream in held]
            pushing = {
                stream: key for key, stream in streams if isinstance(stream, PushStream) and self._is_read(stream)
            }
            try:
                replaced = await self.look(partial(self._keeper, list(pushing)), "keep") if pushing else ()
            except Exception:  # sessions must not end because of a bug that one of them meets
                LOG.exception("leases could not be renewed")
                replaced = ()
            for stream in replaced:
                self._wake(pushing[stream])
            await asyncio.sleep(KEEP_SECONDS)

    async def _listen(self) -> None:
        """Read the hints of other processes, as long as a stream is open."""
        loop = asyncio.get_running_loop()
        while self._open and self._hints is not None:
            if keys := self._marks.due(loop.time()):
                await self._hear(self._hints, keys)
            await asyncio.sleep(self._marks.pause(loop.time()))

    async def _hear(self, hints: Hints, keys: list[Key]) -> None:
        """Read marks, and wake the streams of those that have changed."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(PieceworkError):
            marks = await self.look(partial(hints.marks, keys), "hear")
            for key, named in self._marks.heard(keys, marks, loop.time()).items():
                self._wake(key, named)
        self._marks.over(keys, began, loop.time())

    def _rouse(self, key: Key) -> None:
        if self._loop is not None and key in self._open:
            self._marks.rouse(key, self._loop.time())
            self._wake(key)

    def _wake(self, key: Key, named: Named | None = None) -> None:
        for stream, news in self._open.get(key, {}).items():
            if isinstance(stream, PushStream):
                stream.told(named)
            news.set()

    async def _after(self, seconds: float, work: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(PieceworkError):  # its due time brings it up again
            await self.look(work)


class EventStream(Response):
    """An open stream as an answer; ends with the stream, or with its reader."""

    def __init__(
        self,
        hub: StreamHub,
        key: Key,
        stream: Stream,
        headers: Mapping[str, str],
        after_loss: Callable[[], None] | None,
    ) -> None:
        super().__init__(headers={**HEADERS, **headers})
        del self.headers["content-length"]
        self._hub, self._key, self._stream, self._after_loss = hub, key, stream, after_loss
        self._is_monitor = key[0] == "monitor"
        self._writing = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        news = self._hub.enter(self._key, self._stream)
        news.set()  # its first look is one that somebody waits for
        gone, beats = asyncio.create_task(_until_gone(receive)), None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._write(send, PRELUDE)
            beats = asyncio.create_task(self._beat(send))
            has_ended = await self._run(send, news, gone)
            beats.cancel()
            if has_ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._lost()
        finally:
            gone.cancel()
            if beats is not None:
                beats.cancel()
            self._hub.leave(self._key, self._stream)

    async def _beat(self, send: Send) -> None:
        """Write heartbeats from the loop: they wait for no look at the store."""
        loop, seconds = asyncio.get_running_loop(), self._stream.heartbeat_ms / 1000
        at = loop.time()
        while True:
            at = max(at + seconds, loop.time())
            await asyncio.sleep(at - loop.time())
            await self._write(send, HEARTBEAT)

    async def _write(self, send: Send, content: bytes) -> None:
        async with self._writing:
            with self._hub.writing(self._stream):
                await send({"type": "http.response.body", "body": content, "more_body": True})

    async def _run(self, send: Send, news: asyncio.Event, gone: "asyncio.Task[None]") -> bool:
        """Write until the stream ends, True, or its reader has left, False."""
        loop = asyncio.get_running_loop()
        look_at = loop.time() + LOOK_SECONDS
        while not gone.done():
            look_at = look_at if news.is_set() else loop.time() + LOOK_SECONDS
            step = await self._step(news)
            if step.frames:
                await self._write(send, b"".join(step.frames))
                await asyncio.sleep(0)  # a reader that has left is known by now
            if gone.done():
                break
            if step.ends:
                return True
            if step.frames:
                await self._hub.look(self._stream.sent)
            if len(step.frames) >= FULL or sum(map(len, step.frames)) >= FULL_BYTES:
                continue
            await _first_of(news, gone, look_at - loop.time())
        return False

    async def _step(self, news: asyncio.Event) -> Step:
        has_news = news.is_set()
        news.clear()
        path = "follow" if self._is_monitor else "look"
        if has_news:
            return await self._hub.look(self._stream.step, path)
        return await self._hub.look_at_leisure(self._stream.step, path, news)

    async def _lost(self) -> None:
        try:
            grace_ms = await self._hub.look(self._stream.closed)
        except PieceworkError:
            return  # its lease ends
        if self._after_loss is not None:
            self._hub.later(grace_ms / 1000, self._after_loss)


async def _has_place(places: asyncio.Semaphore, news: asyncio.Event) -> bool:
    """Wait for a place; False, without one, when there is news before."""
    place, woken = asyncio.create_task(places.acquire()), asyncio.create_task(news.wait())
    try:
        await asyncio.wait({place, woken}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        place.add_done_callback(partial(_given_back, places))
        raise
    finally:
        woken.cancel()
        if not place.done():
            place.cancel()
    return place.done()


def _given_back(places: asyncio.Semaphore, place: "asyncio.Task[bool]") -> None:
    if not place.cancelled():
        places.release()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(news: asyncio.Event, gone: "asyncio.Task[None]", seconds: float) -> None:
    """Until there may be news, or nobody to tell it to."""
    woken = asyncio.create_task(news.wait())
    await asyncio.wait({woken, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    woken.cancel()
