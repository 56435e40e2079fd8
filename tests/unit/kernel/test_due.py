"""The kernel door's due function: what it does with the schedule's event and with messages."""

import json
from types import SimpleNamespace

import pytest

from piecework.aws import clients
from piecework.aws.transport.credentials import Credentials
from piecework.durable.due import Due
from piecework.errors import SettingsError, Unavailable
from piecework.kernel.model.due_times import EXECUTION_DUE, SWEEP
from piecework.kernel.settings import KernelSettings
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.functions import kernel_function

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
def due():
    """The function over due times in memory; `fired` are those it looked at, `again` counts sweeps it asked for."""
    clock = FakeClock(START_MS)
    times = new_store(clock, KernelSettings()).due_times
    fired, again = [], []

    def fire(one):
        if one.id == "out of reach":
            raise Unavailable("out of reach")
        fired.append(one)
        times.remove(one)

    parts = {
        "due_times": times,
        "liveness": SimpleNamespace(check=fire),
        "nudge": lambda *told: again.append(told),
        "clock": clock,
        "telemetry": Telemetry(),
    }
    with kernel_function("due", **parts) as app:
        app.fired, app.again, app.clock = fired, again, clock
        yield app


def message(due, number="1"):
    return {"messageId": number, "body": json.dumps({"kind": due.kind, "id": due.id, "due_ms": due.at_ms})}


def test_the_schedule_has_everything_looked_at_that_has_come_and_another_sweep_follow(due):
    for one in (RIPE, COMING):
        due.door.due_times.put(one)

    assert due.handler({"source": "aws.events"}, None) == {"failed": 0, EXECUTION_DUE: 1}
    assert due.fired == [RIPE]
    assert len(due.again) == 1


def test_the_sweep_that_follows_asks_for_no_further_one(due):
    due.door.due_times.put(RIPE)

    answer = due.handler({"Records": [message(Due(START_MS, SWEEP, ""))]}, None)

    assert answer == {"batchItemFailures": []}
    assert (due.fired, due.again) == ([RIPE], [])


def test_a_message_has_one_record_looked_at(due):
    due.door.due_times.put(RIPE)

    assert due.handler({"Records": [message(COMING)]}, None) == {"batchItemFailures": []}
    assert (due.fired, due.door.telemetry.outcomes) == ([COMING], [])


def test_a_message_that_cannot_be_looked_at_comes_again_and_the_others_do_not(due):
    lost = Due(START_MS, EXECUTION_DUE, "out of reach")

    answer = due.handler({"Records": [message(lost, "1"), message(RIPE, "2")]}, None)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert (due.fired, due.door.telemetry.bugs) == ([RIPE], ["due"])


def test_a_sweep_that_fails_in_part_says_so(due):
    due.door.due_times.put(Due(START_MS, EXECUTION_DUE, "out of reach"))

    assert due.handler({"source": "aws.events"}, None) == {"failed": 1}
    assert due.door.telemetry.outcomes == [("sweep", {"failed": 1}, {"DueTimesFailed": 1})]


def test_the_sweep_that_follows_comes_half_a_minute_later(due):
    due.handler({"source": "aws.events"}, None)

    assert due.again == [(Due(START_MS + 30_000, SWEEP, ""), 30_000)]


def test_a_broken_policy_stops_no_due_time(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [")
    settings = {"PIECEWORK_POLICY": str(policy)}

    for name in ("due", "streams"):
        with kernel_function(name, settings) as app:
            assert "policy" not in vars(app.door)
    with pytest.raises(SettingsError), kernel_function("http", settings):
        pass


def test_one_set_of_clients_serves_all_parts_of_a_hosted_run(monkeypatch):
    made = []
    monkeypatch.setattr(clients, "Credentials", lambda *given: made.append(1) or Credentials(*given))

    with kernel_function("hosted") as app:
        app.door.clients.sqs  # noqa: B018  # as its first wake-up does

    assert len(made) == 1
