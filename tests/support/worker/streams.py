"""Streams in memory; the log passes the same contract tests as its AWS adapter."""

import threading

from piecework.worker.record.values import Item
from piecework.worker.stream.readers import Seat, Seats
from piecework.worker.stream.streams import Event, Look, StreamLog, Tasks


class FakeStreamLog(StreamLog):
    """Events in dictionaries, each method atomic."""

    def __init__(self) -> None:
        self.events: dict[str, dict[int, Event]] = {}
        self.expires: dict[tuple[str, int], int] = {}
        self.lock = threading.Lock()

    def append(self, stream: str, event: Event, expires_at: int) -> bool:
        with self.lock:
            events = self.events.setdefault(stream, {})
            if event.seq in events:
                return False
            events[event.seq] = event
            self.expires[stream, event.seq] = expires_at
            return True

    def read(self, stream: str) -> list[Event]:
        with self.lock:
            return [event for _, event in sorted(self.events.get(stream, {}).items())]


class FakeTasks(Tasks):
    """Tasks by contract and id."""

    def __init__(self, looks: dict[tuple[str, str], Look]) -> None:
        self.looks = looks

    def look(self, contract_id: str, task_id: str) -> Look | None:
        return self.looks.get((contract_id, task_id))

    def item(self, item: Item) -> Item:
        return {name: value for name, value in item.items() if name != "key"} | {"url": "https://files.example/fresh"}


class FakeSeats(Seats):
    """Seats of readers in a dictionary, each method atomic."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], tuple[str, int]] = {}
        self.lock = threading.Lock()

    def taken(self, scope: str) -> dict[int, int]:
        with self.lock:
            return {number: until for (where, number), (_, until) in self.held.items() if where == scope}

    def take(self, seat: Seat, now_s: int) -> bool:
        with self.lock:
            token, until = self.held.get((seat.scope, seat.number), ("", 0))
            if until > now_s and token != seat.token:
                return False
            self.held[seat.scope, seat.number] = (seat.token, seat.until_s)
            return True

    def leave(self, seat: Seat) -> None:
        with self.lock:
            if self.held.get((seat.scope, seat.number), ("", 0))[0] == seat.token:
                self.held[seat.scope, seat.number] = (seat.token, 0)
