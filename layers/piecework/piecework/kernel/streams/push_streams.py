"""Agent and runner streams: one connection's messages and end (specification sections 3 and 10.4).

A stream is driven from outside: `step` returns what to write now, `sent` says that it was written, `closed` that the
client has left. Heartbeats and leases do not come from here: they wait for no look at the store (keeping.py). Nothing
here waits, so tests move the clock instead.

| crash or loss | what follows |
|---|---|
| a message was written to the outbox, no stream took it | the consumer's next stream takes it |
| an assignment or job was taken, perhaps not written | the successor finds it taken and still there, and undoes it |
| ... and no successor comes | the connection's lease ends, and `liveness.py` resets or requeues |
| another push was written, and perhaps not read | the successor writes it again: duplicates are harmless |
| the client left unseen, and came back after a rotation | nothing was assigned in the last 4 s before that |
"""

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from piecework.errors import PieceworkError, Unavailable
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Message, Outbox
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.service.meeting import met
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.hints import Named
from piecework.values import dataclass, replace

PAGE: Final = 100  # messages that are read at once
FULL_BYTES: Final = 1_000_000  # of frames that are written at once: a page of the longest ones would fill the memory
KEPT_MS: Final = 10_000  # how long a written message stays for a successor; two heartbeats. Assignments: until used
KEPT_MOST: Final = 50  # of them, so that new ones fit the page
SETTLE_MS: Final = 1_000  # a message in a predecessor's hand: it may be writing it just now
LAST_CALL_MS: Final = 4_000  # clients that lost a stream come back within 3 s; see the table above


Fetch = Callable[[Named], list[Message]]  # the message that a hint names, if it is still there


class Feed(Protocol):
    """What a kind of stream has of its own; see feeds.py."""

    owner: str
    consumer_id: str
    generation: int

    @property
    def kind(self) -> str: ...

    @property
    def lease(self) -> Consumer | RunnerConnection: ...

    def end(self, grace_until_ms: int) -> bool: ...

    def is_newest(self, message: Message | None = None) -> bool: ...

    def seek_work(self) -> bool: ...

    def is_once(self, message: Message) -> bool: ...

    def frame_of(self, message: Message) -> bytes | None: ...

    def is_settled(self, message: Message) -> bool: ...

    def undo(self, message: Message) -> None: ...

    def drop(self, message: Message) -> None: ...


@dataclass(frozen=True, slots=True)
class Step:
    """What to write now, and whether the stream ends with it."""

    frames: tuple[bytes, ...] = ()
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A message that this connection has written, and when."""

    message: Message
    at_ms: int
    is_once: bool


class Replaced(Exception):
    """A newer connection of the consumer is open."""


class LastCall(Exception):
    """An assignment comes so near to the rotation that a client which had left could come back without it."""


class PushStream:
    """One open connection of an agent's consumer or a runner's; without `fetch`, every hint leads to the outbox."""

    def __init__(
        self,
        feed: Feed,
        outbox: Outbox,
        settings: KernelSettings,
        clock: Callable[[], int],
        fetch: Fetch | None = None,
    ) -> None:
        self._fetch = fetch
        self._feed, self._outbox, self._settings, self._clock = feed, outbox, settings, clock
        now = clock()
        self.heartbeat_ms, self.lease_due_ms = settings.heartbeat_ms, now + settings.heartbeat_ms
        self._next_round = now + settings.heartbeat_ms
        self._rotates_at = now + settings.rotation_ms if settings.rotation_ms else None
        self._margin_ms = min(LAST_CALL_MS, settings.rotation_ms // 4)
        self._last_call = now + settings.rotation_ms - self._margin_ms
        self._seeks = True
        self._is_replaced = False
        self._told = deque[Named | None]()  # what is new, since the last step
        self._is_behind = True  # there may be other messages than those that the next hint is about
        self._unwritten: list[Message] = []  # in this step's frames
        self._written: dict[str, Written] = {}
        self._inherited: dict[str, int] = {}  # in a predecessor's hand, since when we know
        self._left: set[str] = set()  # of executions that could not be read in this round

    @property
    def lease(self) -> Consumer | RunnerConnection:
        """The connection that this stream keeps alive."""
        return self._feed.lease

    def kept(self, at_ms: int) -> None:
        """Its lease was renewed then."""
        self.lease_due_ms = at_ms + self.heartbeat_ms

    def supersede(self) -> None:
        """A newer connection of the same consumer is open: the next step ends the stream."""
        self._is_replaced = True

    def told(self, named: Named | None) -> None:
        """There is news: one message, or who knows what; from any thread."""
        self._told.append(named)

    def step(self) -> Step:
        """One look; what goes wrong with the store is left to the next one."""
        now, frames = self._clock(), list[bytes]()
        told = [self._told.popleft() for _ in range(len(self._told))]
        if self._is_replaced:
            return Step(ends=True)
        if self._rotates_at is not None and now >= self._rotates_at:
            return self._rotate()
        is_round = now >= self._next_round
        if is_round:
            self._next_round = now + self.heartbeat_ms
            self._left.clear()
        try:
            if is_round or self._seeks:
                self._seeks, self._is_behind = self._feed.seek_work(), True
            self._tidy(now, is_round=is_round)
            self._collect(now, self._new(told), frames)
        except Replaced:
            return Step(tuple(frames), ends=True)
        except LastCall:
            return self._rotate(frames)
        except PieceworkError:
            pass  # the store is out of reach; the lease ends if it stays so
        return Step(tuple(frames))

    def sent(self) -> None:
        """The frames of the last step were written."""
        now = self._clock()
        once = [message.key for message in self._unwritten if self._feed.is_once(message)]
        written = [replace(message, beside=None) for message in self._unwritten]
        self._written |= {each.key: Written(each, now, each.key in once) for each in written}
        self._unwritten.clear()
        if once and not self._is_unsure:
            with contextlib.suppress(PieceworkError):  # then it goes with the others
                self._remove(once)

    def closed(self) -> int:
        """The client has left, or a write failed; returns how long a successor has, in milliseconds."""
        for message in self._unwritten:
            if self._feed.is_once(message):
                self._feed.undo(message)
        self._unwritten.clear()
        self._feed.end(self._clock() + self._settings.lost_grace_ms)
        return self._settings.lost_grace_ms

    @property
    def _is_unsure(self) -> bool:
        """Whether writes succeed although the client has left: behind a front end that makes us rotate."""
        return self._rotates_at is not None

    def _rotate(self, frames: Sequence[bytes] = ()) -> Step:
        """End on purpose. What was written is read by the client before the end, so it is not taken for lost."""
        if not self._feed.is_newest():
            return Step(tuple(frames), ends=True)
        self.sent()
        once = [key for key, written in self._written.items() if written.is_once]
        if once:
            self._remove(once)
        self._feed.end(self._clock() + self._settings.rotation_grace_ms)
        return Step(tuple(frames), ends=True)

    def _new(self, told: Sequence[Named | None]) -> list[Message]:
        """The messages to look at: all that are in the outbox, unless one hint is all that there is to look after."""
        was_behind, self._is_behind = self._is_behind, True
        match told:
            case [Named() as named] if self._fetch and not was_behind:
                return self._fetch(named)
        return self._outbox.messages(self._feed.kind, self._feed.owner, self._feed.consumer_id, PAGE)

    def _collect(self, now: int, messages: Sequence[Message], frames: list[bytes]) -> None:
        """Add the frames of new messages.

        Raises:
            Replaced, LastCall: the frames so far are still to be written.
        """
        for message in messages:
            if message.key in self._written or message.key in self._left:
                continue
            if sum(map(len, frames)) >= FULL_BYTES:
                return
            if self._is_mine(message, now):
                self._go_on(message, partial(self._write, message, frames))
        self._is_behind = len(messages) >= PAGE

    def _is_mine(self, message: Message, now: int) -> bool:
        """Whether to write a message; one that must be written once is taken first."""
        feed = self._feed
        if not feed.is_once(message) or message.taken_by == feed.generation:
            return True
        if message.taken_by:
            self._inherit(message, now)
            return False
        if self._rotates_at is not None and now >= self._last_call:
            if self._has_just_assigned(now):
                return False  # an end at once would come too near to that one; this waits for the rotation
            raise LastCall
        if not feed.is_newest(message):
            raise Replaced
        return self._outbox.take(feed.kind, feed.owner, feed.consumer_id, message.key, feed.generation)

    def _has_just_assigned(self, now: int) -> bool:
        return any(each.is_once and now < each.at_ms + self._margin_ms for each in self._written.values())

    def _write(self, message: Message, frames: list[bytes]) -> None:
        content = self._feed.frame_of(message)
        if content is None:
            self._feed.drop(message)
            self._remove([message.key])
        else:
            frames.append(content)
            self._unwritten.append(message)

    def _inherit(self, message: Message, now: int) -> None:
        """A predecessor took the message and has not removed it: it may never have been read."""
        if now - self._inherited.setdefault(message.key, now) >= SETTLE_MS:
            self._go_on(message, partial(self._give_up, message))

    def _give_up(self, message: Message) -> None:
        self._feed.undo(message)
        self._remove([message.key])
        del self._inherited[message.key]

    def _go_on(self, message: Message, work: Callable[[], None]) -> None:
        """Do something with a message; one of an execution that cannot be read is left until the next round."""
        self._left.add(message.key)
        try:
            with met("a message was left"):
                work()
                self._left.discard(message.key)
        except Unavailable:
            self._left.discard(message.key)
            raise

    def _tidy(self, now: int, *, is_round: bool) -> None:
        """Remove messages that a successor does not need: written long ago, acted upon, or the oldest of too many."""
        surplus = len(self._written) - KEPT_MOST
        old = [
            key
            for place, (key, written) in enumerate(self._written.items())
            if place < surplus
            or (self._is_settled(written) if written.is_once and is_round else self._is_old(written, now))
        ]
        if old:
            self._remove(old)

    def _is_old(self, written: Written, now: int) -> bool:
        return now >= written.at_ms + KEPT_MS and not (written.is_once and self._is_unsure)

    def _is_settled(self, written: Written) -> bool:
        """Whether an assignment has certainly reached its client, or is out of date."""
        is_settled = False
        with met("a message was kept"):
            is_settled = self._feed.is_settled(written.message)
        return is_settled

    def _remove(self, keys: list[str]) -> None:
        self._outbox.remove(self._feed.kind, self._feed.owner, self._feed.consumer_id, keys)
        for key in keys:
            self._written.pop(key, None)
