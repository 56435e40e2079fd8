"""Agent and runner streams step by step: what is written once, what again, and how a stream ends."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from piecework.errors import Unavailable
from piecework.kernel.model.changes import Push
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Beside, Message
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.hints import Named
from piecework.kernel.streams.push_streams import (
    FULL_BYTES,
    KEPT_MOST,
    KEPT_MS,
    LAST_CALL_MS,
    PAGE,
    SETTLE_MS,
    PushStream,
)
from tests.support.fakes import FakeClock

ROTATING = KernelSettings(rotation_ms=45_000)


@dataclass
class Box:
    """One consumer's outbox."""

    rows: dict[str, Message] = field(default_factory=dict)
    fails: bool = False
    looks: int = 0

    def put(self, kind: str, ref: str = "") -> str:
        key = f"{len(self.rows):04d}-{kind}-{ref}"
        self.rows[key] = Message(key, Push(kind, "a", "c", "e", "s", ref), 0)
        return key

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]:
        if self.fails:
            raise Unavailable("the outbox")
        self.looks += 1
        return [self.rows[key] for key in sorted(self.rows)][:limit]

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        message = self.rows.get(key)
        if message is None or message.taken_by not in (0, generation):
            return False
        self.rows[key] = Message(key, message.push, generation)
        return True

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Any) -> None:
        for key in keys:
            self.rows.pop(key, None)


@dataclass
class Feed:
    """A connection that notes what is asked of it."""

    generation: int = 1
    newest: int = 1
    kind: str = "agent"
    owner: str = "a"
    consumer_id: str = "c"
    ended: list[int] = field(default_factory=list)
    sought: int = 0
    more: int = 0  # how often there is more work than was sought
    undone: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    untrue: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    box: Box = field(default_factory=Box)  # what hints name is read from here
    fetched: list[str] = field(default_factory=list)

    @property
    def lease(self) -> Consumer:
        return Consumer(self.owner, self.consumer_id, self.generation, 0, is_open=True)

    def end(self, grace_until_ms: int) -> bool:
        self.ended.append(grace_until_ms)
        return self.is_newest()

    def is_newest(self, message: Message | None = None) -> bool:
        if message and message.beside and message.beside.consumer:
            return self.generation == message.beside.consumer.generation
        return self.generation == self.newest

    def fetch(self, named: Named) -> list[Message]:
        if self.box.fails:
            raise Unavailable("the outbox")
        self.fetched.append(named.key)
        newest = Consumer(self.owner, self.consumer_id, self.newest, 0, is_open=True)
        found = self.box.rows.get(named.key)
        return [replace(found, beside=Beside(newest, None))] if found else []

    def seek_work(self) -> bool:
        self.sought += 1
        return self.sought <= self.more

    def is_once(self, message: Message) -> bool:
        return message.push.kind == "execution.assigned"

    def frame_of(self, message: Message) -> bytes | None:
        return None if message.key in self.untrue else message.key.encode()

    def is_settled(self, message: Message) -> bool:
        return message.key in self.settled

    def undo(self, message: Message) -> None:
        self.undone.append(message.key)

    def drop(self, message: Message) -> None:
        self.dropped.append(message.key)


@pytest.fixture
def clock():
    return FakeClock()


def written(stream: PushStream) -> list[str]:
    """One look whose frames reach the client."""
    step = stream.step()
    stream.sent()
    return [frame.decode() for frame in step.frames]


def test_a_push_is_written_once_by_a_stream_and_again_by_its_successor_while_it_may_have_been_lost(clock):
    box, key = Box(), ""
    first = PushStream(Feed(), box, KernelSettings(), clock)
    key = box.put("tool.result")

    assert written(first) == [key]
    assert written(first) == []
    second = PushStream(Feed(generation=2, newest=2), box, KernelSettings(), clock)
    assert written(second) == [key]


def test_a_push_leaves_the_outbox_after_its_interval(clock):
    box = Box()
    stream = PushStream(Feed(), box, KernelSettings(), clock)
    box.put("tool.result")
    written(stream)

    clock.move(KEPT_MS / 1000 - 0.1)
    written(stream)
    assert box.rows
    clock.move(0.2)
    written(stream)
    assert not box.rows


def looking(clock, **feed) -> tuple[Box, Feed, PushStream]:
    """A stream that has looked through its outbox before."""
    box = Box()
    fed = Feed(box=box, **feed)
    stream = PushStream(fed, box, KernelSettings(), clock, fed.fetch)
    written(stream)
    assert box.looks == 1
    return box, fed, stream


def test_a_message_that_a_hint_names_is_written_without_a_look_through_the_outbox(clock):
    box, feed, stream = looking(clock)
    key = box.put("execution.assigned")

    stream.told(Named(key, "e"))

    assert written(stream) == [key]
    assert (box.looks, feed.fetched, box.rows) == (1, [key], {})
    stream.told(Named(key, "e"))
    assert written(stream) == []  # it has gone
    assert feed.undone == feed.dropped == []


def test_a_named_assignment_that_stays_until_it_is_used_is_not_written_twice(clock):
    box = Box()
    feed = Feed(box=box)
    stream = PushStream(feed, box, ROTATING, clock, feed.fetch)
    written(stream)
    key = box.put("execution.assigned")

    stream.told(Named(key, "e"))
    assert written(stream) == [key]
    stream.told(Named(key, "e"))
    assert written(stream) == written(stream) == []
    assert box.rows[key].taken_by == 1


def test_a_stream_that_was_replaced_leaves_a_named_assignment_to_its_successor(clock):
    box, feed, stream = looking(clock)
    key, feed.newest = box.put("execution.assigned"), 2

    stream.told(Named(key, "e"))

    assert stream.step().ends
    assert box.rows[key].taken_by == 0


def test_a_stream_that_can_fetch_nothing_looks_through_its_outbox_for_what_a_hint_names(clock):
    box = Box()
    stream = PushStream(Feed(), box, KernelSettings(), clock)
    written(stream)
    key = box.put("job.assigned")

    stream.told(Named(key, "e"))

    assert written(stream) == [key]


@pytest.mark.parametrize("told", [[None], [], ["first", "second"], ["second", None]])
def test_whatever_else_there_may_be_is_looked_for_in_the_outbox(clock, told):
    box, feed, stream = looking(clock)
    keys = [box.put("execution.assigned", ref) for ref in ("first", "second")]

    for ref in told:
        stream.told(ref and Named(next(key for key in keys if ref in key), "e"))

    assert written(stream) == keys
    assert (box.looks, feed.fetched) == (2, [])


def test_a_hint_does_not_hide_what_an_earlier_look_has_left(clock):
    box, _feed, stream = looking(clock)
    lost = box.put("tool.result")
    box.fails = True
    stream.told(None)
    assert written(stream) == []
    box.fails = False
    key = box.put("execution.assigned")

    stream.told(Named(key, "e"))
    assert written(stream) == [lost, key]

    box.fails, key = True, box.put("execution.assigned", "named while the store was out of reach")
    stream.told(Named(key, "e"))
    assert written(stream) == []
    box.fails, other = False, box.put("execution.assigned", "zz")
    stream.told(Named(other, "e"))
    assert written(stream) == [key, other]


def test_a_hint_does_not_hide_what_one_look_could_not_bring(clock):
    box, feed, stream = looking(clock)
    keys = [box.put("tool.result", f"{number:04d}") for number in range(PAGE + 1)]
    stream.told(None)
    assert written(stream) == keys[:PAGE]
    clock.move(KEPT_MS / 1000 / 4)
    named = box.put("execution.assigned")

    stream.told(Named(named, "e"))
    seen = [*written(stream), *written(stream)]

    assert {*keys[PAGE:], named} <= set(seen)
    assert feed.fetched == []


def test_one_look_brings_no_more_long_frames_than_fit_the_memory_and_the_next_one_the_others(clock):
    class Long(Feed):
        def frame_of(self, message: Message) -> bytes | None:
            return message.key.encode().ljust(FULL_BYTES * 2 // 5)

    box = Box()
    stream = PushStream(Long(), box, KernelSettings(), clock)
    keys = [box.put("tool.result", f"{number}") for number in range(7)]

    assert [[key.strip() for key in written(stream)] for _ in range(4)] == [keys[:3], keys[3:6], keys[6:], []]


def test_many_written_pushes_do_not_hide_new_ones(clock):
    box = Box()
    stream = PushStream(Feed(), box, KernelSettings(), clock)
    for number in range(3 * PAGE):
        box.put("tool.result", f"{number:04d}")

    seen = [key for _ in range(8) for key in written(stream)]

    assert len(seen) == len(set(seen)) == 3 * PAGE
    assert seen == sorted(seen)
    assert len(box.rows) <= KEPT_MOST


def test_an_assignment_that_was_written_is_not_written_by_the_successor(clock):
    box = Box()
    box.put("execution.assigned")
    written(PushStream(Feed(), box, KernelSettings(), clock))
    feed = Feed(generation=2, newest=2)

    assert written(PushStream(feed, box, KernelSettings(), clock)) == []
    assert feed.undone == []


def test_an_assignment_that_was_taken_and_perhaps_not_written_is_undone_once_by_the_successor(clock):
    box = Box()
    key = box.put("execution.assigned")
    PushStream(Feed(), box, KernelSettings(), clock).step()  # and its process dies here
    feed = Feed(generation=2, newest=2)
    successor = PushStream(feed, box, KernelSettings(), clock)

    assert written(successor) == []
    assert feed.undone == []  # the predecessor may be writing it just now
    clock.move(SETTLE_MS / 1000)
    written(successor)
    written(successor)
    assert feed.undone == [key]


def test_a_client_that_leaves_while_an_assignment_is_written_does_not_keep_it(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, KernelSettings(), clock)
    key = box.put("execution.assigned")
    box.put("tool.result")

    stream.step()
    grace_ms = stream.closed()

    assert feed.undone == [key]
    assert grace_ms == 1_000
    assert feed.ended == [clock() + 1_000]


def test_where_writes_always_succeed_a_replaced_streams_last_assignment_is_undone(clock):
    box = Box()
    key = box.put("execution.assigned")
    written(PushStream(Feed(), box, ROTATING, clock))
    feed = Feed(generation=2, newest=2)
    successor = PushStream(feed, box, ROTATING, clock)

    written(successor)
    clock.move(SETTLE_MS / 1000)
    written(successor)

    assert feed.undone == [key]


def test_where_writes_always_succeed_an_assignment_stays_until_its_agent_has_acted(clock):
    box, feed = Box(), Feed()
    key = box.put("execution.assigned")
    stream = PushStream(feed, box, ROTATING, clock)
    written(stream)

    clock.move(30)
    written(stream)
    assert key in box.rows
    feed.settled = {key}
    clock.move(5)
    written(stream)
    assert box.rows == {}


def test_a_replaced_stream_that_rotates_takes_no_assignment_along(clock):
    box, feed = Box(), Feed()
    key = box.put("execution.assigned")
    stream = PushStream(feed, box, ROTATING, clock)
    written(stream)
    feed.newest = 2
    clock.move(45)

    assert stream.step().ends
    assert key in box.rows
    assert feed.ended == []


def test_a_rotation_ends_the_stream_cleanly_and_undoes_nothing(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, ROTATING, clock)
    clock.move(40)
    box.put("execution.assigned")
    again = box.put("tool.result")
    written(stream)

    clock.move(5)
    step = stream.step()

    assert step.ends
    assert feed.ended == [clock() + 10_000]
    successor = Feed(generation=2, newest=2)
    stream = PushStream(successor, box, ROTATING, clock)
    assert written(stream) == [again]
    clock.move(SETTLE_MS / 1000)
    written(stream)
    assert successor.undone == []


def test_near_its_rotation_a_stream_ends_rather_than_assign(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, ROTATING, clock)
    clock.move(45 - LAST_CALL_MS / 1000)
    result, assigned = box.put("tool.result"), box.put("execution.assigned")

    step = stream.step()

    assert (step.frames[-1].decode(), step.ends) == (result, True)
    assert box.rows[assigned].taken_by == 0
    assert feed.ended


def test_a_stream_that_has_just_assigned_does_not_end_before_its_time(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, ROTATING, clock)
    clock.move(45 - LAST_CALL_MS / 1000 - 0.25)
    box.put("execution.assigned", "first")
    written(stream)
    clock.move(0.25)
    second = box.put("execution.assigned", "second")

    assert not stream.step().ends
    assert box.rows[second].taken_by == 0
    clock.move(LAST_CALL_MS / 1000)
    assert stream.step().ends


def test_a_replaced_stream_takes_nothing_and_leaves_the_connection_alone(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, KernelSettings(), clock)
    written(stream)
    key = box.put("execution.assigned")
    feed.newest = 2

    step = stream.step()

    assert (step.frames, step.ends) == ((), True)
    assert box.rows[key].taken_by == 0
    assert feed.ended == []


def test_a_stream_that_was_found_to_be_replaced_ends_with_its_next_look(clock):
    stream = PushStream(Feed(), Box(), KernelSettings(), clock)
    stream.step()
    assert not stream.step().ends

    stream.supersede()

    assert stream.step().ends


def test_work_is_sought_when_a_stream_opens_and_every_five_seconds(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, KernelSettings(), clock)
    for number in range(120):
        if number % 7 == 0:
            box.put("tool.result", f"{number:03d}")
        stream.step()
        stream.sent()
        clock.move(0.25)

    assert feed.sought == 1 + 5


def test_work_is_sought_again_at_once_while_there_may_be_more(clock):
    feed = Feed(more=2)
    stream = PushStream(feed, Box(), KernelSettings(), clock)

    for _ in range(5):
        stream.step()

    assert feed.sought == 3


def test_a_message_that_is_no_longer_true_is_dropped(clock):
    box, feed = Box(), Feed()
    key = box.put("execution.assigned")
    feed.untrue = {key}
    stream = PushStream(feed, box, KernelSettings(), clock)

    assert written(stream) == []
    assert (feed.dropped, feed.undone, box.rows) == ([key], [], {})


def test_a_store_out_of_reach_delays_messages(clock):
    box, feed = Box(), Feed()
    stream = PushStream(feed, box, KernelSettings(), clock)
    key, box.fails = box.put("tool.result"), True

    clock.move(5)
    assert stream.step().frames == ()
    stream.sent()
    box.fails = False
    assert written(stream) == [key]
