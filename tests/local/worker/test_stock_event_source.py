"""The stock EventSource follows a task to its end: it comes back where it was, and stops when the worker says so."""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from local.die_with_parent import dying_with_parent
from piecework.jsons import Json
from tests.support.machine import wait_until
from tests.support.worker.machine import running_worker
from tests.support.worker.seekers import NODE_HOME, STOCK, node

EVENTS = [(1, "progress"), (2, "progress"), (3, "progress"), (4, "item"), (5, "done")]
SECONDS = 60


@pytest.fixture(scope="module", params=[pytest.param("buffered", marks=pytest.mark.slow), "streaming"])
def worker(request, gateway):
    with running_worker(gateway, SSE_MODE=request.param) as running:
        yield running, request.param == "streaming"


@dataclass
class Followed:
    """What the client has seen so far."""

    lines: list[dict[str, Json]] = field(default_factory=list)

    def of(self, kind: str) -> list[Json]:
        return [line[kind] for line in self.lines if kind in line]

    @property
    def events(self) -> list[tuple[int, str]]:
        return [(int(event["id"]), event["kind"]) for event in self.of("event")]


@contextlib.contextmanager
def followed(url: str) -> Iterator[Followed]:
    """A client at work, reading this stream."""
    command = dying_with_parent("exec", node("eventsource"), str(STOCK / "eventsource.cjs"))
    process = subprocess.Popen(command, cwd=NODE_HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps({"url": url}))
    process.stdin.close()
    seen = Followed()
    reading = threading.Thread(target=lambda: seen.lines.extend(map(json.loads, process.stdout or ())))
    reading.start()
    try:
        yield seen
    finally:
        process.kill()
        process.wait()
        reading.join()
        process.stdout.close()


def test_a_stock_event_source_reads_every_event_once_and_stops_at_the_end(worker, tmp_path):
    worker, stays_open = worker
    gate = tmp_path / "gate"
    gate.write_text("2")
    hired = worker.hire("steady", {"gate": str(gate)})
    with followed(hired.answer.json()["stream_url"]) as seen:
        wait_until(lambda: seen.events == EVENTS[:2], SECONDS)
        if stays_open:  # the other kind of answer ends by itself
            assert worker.gateway.kill("worker.streams.app:app") == 1
        gate.write_text("4")
        wait_until(lambda: seen.of("ended"), SECONDS)

    assert seen.events == EVENTS
    assert seen.of("event")[-1]["data"]["status"] == "completed"
    connections = seen.of("connection")
    assert connections[0]["lastId"] is None
    assert {"lastId": "2", "status": 200} in connections
    assert connections[-1] == {"lastId": "5", "status": 204}
