"""The streams function's hub: waking, replacing and losing open streams."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

from kernel.streams.serving import FULL, EventStream, StreamHub
from piecework.errors import Unavailable
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.hints import agent_key, monitor_key
from piecework.kernel.streams.push_streams import FULL_BYTES, PushStream, Step
from piecework.kernel.wire.frames import HEARTBEAT, PRELUDE
from tests.support.fakes import FakeClock
from tests.support.kernel.hints import FakeHints

KEY = agent_key("a", "c")
ENOUGH = 20.0


@dataclass(eq=False)
class Script:
    """A stream that brings what a test has laid out, then nothing."""

    steps: list[Step]
    log: list[str] = field(default_factory=list)
    is_out: threading.Event = field(default_factory=threading.Event)
    fails: bool = False
    heartbeat_ms: int = 5_000

    def step(self) -> Step:
        self.log.append("step")
        if self.steps:
            return self.steps.pop(0)
        self.is_out.set()
        return Step()

    def sent(self) -> None:
        self.log.append("sent")

    def closed(self) -> int:
        self.log.append("closed")
        if self.fails:
            raise Unavailable("the store")
        return 0


@dataclass
class Client:
    """The far end: what it was sent, and when it leaves."""

    leaves: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[Any] = field(default_factory=list)

    async def receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.got.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)


async def until(holds: Any) -> None:
    async with asyncio.timeout(ENOUGH):
        while not holds():  # noqa: ASYNC110  # some of it becomes true in another thread
            await asyncio.sleep(0.01)


def answer(hub: StreamHub, stream: Any, after_loss: Any = None) -> EventStream:
    return EventStream(hub, KEY, stream, {"X-Request-ID": "r1"}, after_loss)


def test_a_stream_that_ends_itself_closes_its_answer_cleanly():
    async def story() -> tuple[Client, Script]:
        client, stream = Client(), Script([Step((b"one",)), Step((HEARTBEAT, b"two"), ends=True)])
        await answer(StreamHub(FakeHints()), stream)({}, client.receive, client.send)
        return client, stream

    client, stream = asyncio.run(story())

    headers = dict(client.got[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream"
    assert (headers[b"cache-control"], headers[b"x-accel-buffering"]) == (b"no-cache", b"no")
    assert headers[b"x-request-id"] == b"r1"
    assert b"content-length" not in headers
    assert client.body == PRELUDE + b"one" + HEARTBEAT + b"two"
    assert [message["more_body"] for message in client.got[1:]] == [True, True, True, False]
    assert stream.log == ["step", "sent", "step"]


def test_a_client_that_leaves_is_noticed_and_its_grace_looked_after():
    async def story() -> tuple[Script, list[str]]:
        client, stream, looked = Client(), Script([]), list[str]()
        open_stream = asyncio.create_task(
            answer(StreamHub(FakeHints()), stream, lambda: looked.append("looked"))({}, client.receive, client.send)
        )
        await until(stream.is_out.is_set)
        client.leaves.set()
        await open_stream
        await until(lambda: looked)
        return stream, looked

    stream, looked = asyncio.run(story())

    assert stream.log[-1] == "closed"
    assert looked == ["looked"]


def test_frames_that_were_made_when_the_client_left_do_not_count_as_sent():
    async def story() -> Script:
        client, stream = Client(), Script([Step((b"one",))])
        client.leaves.set()
        stream_answer = answer(StreamHub(FakeHints()), stream)
        stream.steps.append(Step((b"two",)))
        await stream_answer({}, client.receive, client.send)
        return stream

    stream = asyncio.run(story())

    assert "sent" not in stream.log
    assert stream.log[-1] == "closed"


def test_a_loss_that_the_store_does_not_take_is_left_to_the_lease():
    async def story() -> Script:
        client, stream = Client(), Script([], fails=True)
        client.leaves.set()
        await answer(StreamHub(FakeHints()), stream)({}, client.receive, client.send)
        return stream

    assert asyncio.run(story()).log[-1] == "closed"


def test_hints_of_this_process_and_of_others_wake_the_streams_of_their_key_only():
    async def story() -> tuple[asyncio.Event, asyncio.Event]:
        hints = FakeHints()
        hub = StreamHub(hints)
        own, other = hub.enter(KEY, Script([])), hub.enter(monitor_key("e"), Script([]))
        await hub.look(lambda: None)
        await asyncio.to_thread(hub.wake, KEY)
        await until(own.is_set)
        own.clear()
        hints.send({KEY: None})
        await until(own.is_set)
        return own, other

    own, other = asyncio.run(story())

    assert own.is_set()
    assert not other.is_set()


def test_a_stream_whose_hint_was_lost_looks_by_itself(monkeypatch):
    monkeypatch.setattr("kernel.streams.serving.LOOK_SECONDS", 0.05)

    async def story() -> Client:
        client, stream = Client(), Script([Step(), Step(), Step((b"one",)), Step(ends=True)])
        await answer(StreamHub(FakeHints()), stream)({}, client.receive, client.send)
        return client

    assert asyncio.run(story()).body == PRELUDE + b"one"


def test_what_one_look_could_not_bring_is_looked_for_at_once(monkeypatch):
    monkeypatch.setattr("kernel.streams.serving.LOOK_SECONDS", 10 * ENOUGH)
    long = b"x" * FULL_BYTES

    async def story() -> Client:
        client = Client()
        stream = Script([Step((long,)), Step((b"one",) * FULL), Step((b"two",), ends=True)])
        async with asyncio.timeout(ENOUGH):
            await answer(StreamHub(FakeHints()), stream)({}, client.receive, client.send)
        return client

    assert asyncio.run(story()).body == PRELUDE + long + b"one" * FULL + b"two"


def test_a_consumers_second_stream_ends_the_first():
    async def story() -> Step:
        hub = StreamHub(FakeHints())
        older = PushStream(None, None, KernelSettings(), FakeClock())  # type: ignore[arg-type]  # never asked
        news = hub.enter(KEY, older)
        hub.enter(KEY, PushStream(None, None, KernelSettings(), FakeClock()))  # type: ignore[arg-type]
        assert news.is_set()
        return older.step()

    assert asyncio.run(story()).ends


def test_a_stream_that_waits_for_a_look_at_leisure_looks_at_once_when_its_bell_rings():
    async def story() -> None:
        hub, hangs = StreamHub(FakeHints()), threading.Event()
        events = [asyncio.Event() for _ in range(3)]
        waiting = [asyncio.create_task(hub.look_at_leisure(hangs.wait, "follow", event)) for event in events[:2]]
        last = asyncio.create_task(hub.look_at_leisure(lambda: "looked", "follow", events[2]))
        await asyncio.sleep(0.1)
        assert not last.done()

        events[2].set()

        async with asyncio.timeout(ENOUGH):
            assert await last == "looked"
            hangs.set()
            await asyncio.gather(*waiting)
            assert await hub.look_at_leisure(lambda: "again", "follow", asyncio.Event()) == "again"

    asyncio.run(story())


def test_a_stream_that_ends_while_it_waits_leaves_its_place_to_others():
    async def story() -> None:
        hub, hangs = StreamHub(FakeHints()), threading.Event()
        holding = [asyncio.create_task(hub.look_at_leisure(hangs.wait, "look", asyncio.Event())) for _ in range(2)]
        leaving = [asyncio.create_task(hub.look_at_leisure(list, "look", asyncio.Event())) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        hangs.set()
        await asyncio.gather(*holding)

        async with asyncio.timeout(ENOUGH):
            looks = await asyncio.gather(*(hub.look_at_leisure(list, "look", asyncio.Event()) for _ in range(6)))
        assert looks == [[]] * 6

    asyncio.run(story())


def test_a_bug_of_the_keeper_is_logged_and_leases_are_tried_again(monkeypatch, caplog):
    monkeypatch.setattr("kernel.streams.serving.KEEP_SECONDS", 0.01)
    tries: list[int] = []

    def keeper(streams: Any) -> tuple[Any, ...]:
        tries.append(len(streams))
        if len(tries) == 1:
            raise KeyError("a bug")
        return ()

    async def story() -> None:
        hub = StreamHub()
        hub.keep(keeper)
        hub.enter(KEY, object.__new__(PushStream))
        keeping = asyncio.create_task(hub._keep())
        await until(lambda: len(tries) > 1)
        keeping.cancel()

    monkeypatch.setattr(StreamHub, "_is_read", lambda hub, stream: True)
    asyncio.run(story())

    assert tries[:2] == [1, 1]
    assert [record.message for record in caplog.records if record.exc_info] == ["leases could not be renewed"]
