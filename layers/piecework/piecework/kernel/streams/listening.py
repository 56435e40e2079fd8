"""When a process reads the marks of its open streams: often after news, less often without any.

Keys that are due at the same time share a request, so their times lie on one grid. Keys with news and keys without are
read apart: a hundred idle streams do not hold up the one that is busy. With very many streams all keys of a kind are
read later, those first that have waited longest.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from piecework.kernel.streams.hints import NO_MARK, Key, Mark, Named
from piecework.values import dataclass

AT_ONCE: Final = 100  # keys of one request
IDLE_SECONDS: Final[Mapping[str, float]] = {
    "agent": 0.05,
    "runner": 0.05,
    "monitor": 0.15,
}  # between two reads of a key
BUSY_SECONDS: Final[Mapping[str, float]] = {"agent": 0.021, "runner": 0.021, "monitor": 0.05}  # ... after news
BUSY_FOR_SECONDS: Final = 5.0
SHARE: Final = 0.25  # of a process's time, for reading busy keys, and as much for idle ones: the store has other guests
LONGEST_PAUSE: Final = 0.05  # a stream that opens meanwhile does not wait longer


@dataclass(slots=True)
class _Heard:
    """What is known of a key."""

    read_at: float
    due_at: float
    busy_until: float = 0.0
    number: int | None = None  # of its mark; None: not read yet


class Listening:
    """The keys of a process's open streams, and when each is read again. Times are those of one clock, in seconds."""

    def __init__(self) -> None:
        self._keys: dict[Key, _Heard] = {}
        self._rest_until = {True: 0.0, False: 0.0}  # of busy keys, and of idle ones
        self._asks_busy = False  # which of them the last request is for

    def open(self, key: Key, now: float) -> None:
        """A stream has opened: its key is due."""
        self._keys.setdefault(key, _Heard(now, now))

    def close(self, key: Key) -> None:
        """The last stream of a key has ended."""
        self._keys.pop(key, None)

    def rouse(self, key: Key, now: float) -> None:
        """Something has happened to the owner of this key; more is likely to follow."""
        heard = self._keys[key]
        heard.busy_until = now + BUSY_FOR_SECONDS
        heard.due_at = min(heard.due_at, _next(key, heard, now))

    def due(self, now: float) -> list[Key]:
        """The keys of the next request, all busy or all idle."""
        for is_busy, rest_until in self._rest_until.items():
            late = self._late(now, is_busy=is_busy) if rest_until <= now else []
            if late:
                self._asks_busy = is_busy
                return [key for _, key in sorted(late, reverse=True)[:AT_ONCE]]
        return []

    def heard(self, keys: Iterable[Key], marks: Mapping[Key, Mark], now: float) -> dict[Key, Named | None]:
        """The marks that these keys had; returns the keys that may have news, with the only message that is new."""
        news: dict[Key, Named | None] = {}
        for key in keys:
            heard = self._keys.get(key)
            if heard is None:
                continue  # its stream has ended meanwhile
            mark, known = marks.get(key, NO_MARK), heard.number
            heard.number = mark.number
            if mark.number != (known or 0):
                news[key] = mark.named if known is not None and mark.number == known + 1 else None
                if known is not None:  # else nobody knows how old it is
                    self.rouse(key, now)
        return news

    def over(self, keys: list[Key], began: float, now: float) -> None:
        """A request for these keys has been made, whatever came of it."""
        self._rest_until[self._asks_busy] = now + (now - began) * (1 / SHARE - 1)
        for key in keys:
            if heard := self._keys.get(key):
                heard.read_at, heard.due_at = began, _next(key, heard, began)

    def pause(self, now: float) -> float:
        """How long there is nothing to read."""
        next_at = now + LONGEST_PAUSE
        for heard in self._keys.values():
            next_at = min(next_at, max(heard.due_at, self._rest_until[now < heard.busy_until]))
        return max(0.0, next_at - now)

    def _late(self, now: float, *, is_busy: bool) -> list[tuple[float, Key]]:
        return [
            ((now - heard.read_at) / _interval(key, heard, now), key)
            for key, heard in self._keys.items()
            if heard.due_at <= now and (now < heard.busy_until) is is_busy
        ]


def _interval(key: Key, heard: _Heard, now: float) -> float:
    return (BUSY_SECONDS if now < heard.busy_until else IDLE_SECONDS)[key[0]]


def _next(key: Key, heard: _Heard, now: float) -> float:
    """The next point on the grid of the key's interval that is not just ahead."""
    interval = _interval(key, heard, now)
    return (now / interval + 1.5) // 1 * interval
