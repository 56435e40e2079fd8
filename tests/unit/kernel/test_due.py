"""The kernel door's due function: what it does with the schedule's event and with messages."""

import importlib
import json
import sys

import pytest

from piecework.durable.due import Due
from piecework.errors import Unavailable
from piecework.kernel import wiring as kernel_wiring
from piecework.kernel.model.dues import EXECUTION_DUE, SWEEP
from piecework.kernel.rules import Rules
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store

RIPE = Due(START_MS, EXECUTION_DUE, "an execution")
COMING = Due(START_MS + 60_000, EXECUTION_DUE, "another")


class Telemetry:
    """Keeps what it is told."""

    def __init__(self):
        self.outcomes, self.bugs = [], []

    def outcome(self, name, counts, metrics):
        self.outcomes.append((name, counts, metrics))

    def bug(self, where):
        self.bugs.append(where)


@pytest.fixture
def due(monkeypatch):
    """The function over due times in memory; `fired` are those it looked at, `again` counts sweeps it asked for."""
    clock = FakeClock(START_MS)
    times = new_store(clock, Rules()).due_times
    fired, again = [], []

    def fire(one):
        if one.id == "out of reach":
            raise Unavailable("out of reach")
        fired.append(one)
        times.remove(one)

    made = kernel_wiring.KernelDueWiring(
        times, {EXECUTION_DUE: fire}, lambda: again.append(clock()), clock, Telemetry()
    )
    monkeypatch.setattr(kernel_wiring, "due_wiring", lambda: made)
    monkeypatch.delitem(sys.modules, "kernel.due.app", raising=False)
    app = importlib.import_module("kernel.due.app")
    app.fired, app.again, app.clock = fired, again, clock
    yield app
    sys.modules.pop("kernel.due.app", None)


def message(due, number="1"):
    return {"messageId": number, "body": json.dumps({"kind": due.kind, "id": due.id, "due_ms": due.at_ms})}


def test_the_schedule_has_everything_looked_at_that_has_come_and_another_sweep_follow(due):
    for one in (RIPE, COMING):
        due.wiring.times.put(one)

    assert due.handler({"source": "aws.events"}, None) == {"failed": 0, EXECUTION_DUE: 1}
    assert due.fired == [RIPE]
    assert due.again == [START_MS]


def test_the_sweep_that_follows_asks_for_no_further_one(due):
    due.wiring.times.put(RIPE)

    answer = due.handler({"Records": [message(Due(START_MS, SWEEP, ""))]}, None)

    assert answer == {"batchItemFailures": []}
    assert (due.fired, due.again) == ([RIPE], [])


def test_a_message_has_one_record_looked_at(due):
    due.wiring.times.put(RIPE)

    assert due.handler({"Records": [message(COMING)]}, None) == {"batchItemFailures": []}
    assert (due.fired, due.wiring.telemetry.outcomes) == ([COMING], [])


def test_a_message_that_cannot_be_looked_at_comes_again_and_the_others_do_not(due):
    lost = Due(START_MS, EXECUTION_DUE, "out of reach")

    answer = due.handler({"Records": [message(lost, "1"), message(RIPE, "2")]}, None)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert (due.fired, due.wiring.telemetry.bugs) == ([RIPE], ["due"])


def test_a_sweep_that_fails_in_part_says_so(due):
    due.wiring.times.put(Due(START_MS, EXECUTION_DUE, "out of reach"))

    assert due.handler({"source": "aws.events"}, None) == {"failed": 1}
    assert due.wiring.telemetry.outcomes == [("sweep", {"failed": 1}, {"DueTimesFailed": 1})]


def test_the_sweep_that_follows_comes_half_a_minute_later(monkeypatch):
    sent = []
    parts = type("Parts", (), {"due_times": None, "clock": staticmethod(lambda: START_MS)})
    parts.liveness = type("Liveness", (), {"fire": None, "nudge": staticmethod(lambda *told: sent.append(told))})
    monkeypatch.setattr(kernel_wiring, "kernel_parts", lambda: parts)

    kernel_wiring.due_wiring().sweep_again()

    assert sent == [(Due(START_MS + 30_000, SWEEP, ""), 30_000)]
