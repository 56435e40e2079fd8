"""Sweeps: bounded in time, fair between kinds, and not held up by a record that cannot be read."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.durable.due import Due
from piecework.errors import Unavailable
from piecework.kernel.model.due_times import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE, message_of
from piecework.worker.record.execution import TASK_DUE
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.functions import kernel_function
from tests.support.kernel.stage import KernelStage
from tests.support.worker.door_fakes import FakeDueTimes
from tests.support.worker.handlers import worker_function

SCHEDULE = {"source": "aws.events"}
KINDS = (EXECUTION_DUE, AGENT_DUE, RUNNER_DUE)


class Telemetry:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes, self.bugs = list[Any](), 0

    def outcome(self, *told: Any) -> None:
        self.outcomes.append(told)

    def bug(self, where: str) -> None:
        self.bugs += 1


class Sweeper:
    """The kernel door's due function over due times in memory."""

    def __init__(self, open_functions: ExitStack, forward: Any = None) -> None:
        self.clock, self.times, self.fired = FakeClock(START_MS), FakeDueTimes(), list[Due]()
        self.broken, self.takes_seconds, self.telemetry = set[str](), 0.0, Telemetry()
        parts = {"due_times": self.times, "liveness": SimpleNamespace(check=self._fire), "clock": self.clock}
        parts |= {"forward": forward, "telemetry": self.telemetry}
        self.app = open_functions.enter_context(kernel_function("due", **parts))

    def _fire(self, due: Due) -> None:
        self.clock.move(self.takes_seconds)
        if due.id in self.broken:
            raise KeyError("a member that this version does not know")
        self.fired.append(due)
        self.times.remove(due)

    def put(self, kind: str, *names: str) -> None:
        for number, name in enumerate(names):
            self.times.put(Due(START_MS - 1_000 + number, kind, name))

    def sweep(self) -> dict[str, int]:
        answer: dict[str, int] = self.app.handler(SCHEDULE, None)
        return answer


@pytest.fixture
def functions() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def sweeper(functions) -> Sweeper:
    return Sweeper(functions)


def names(count: int) -> list[str]:
    return [f"execution-{number:03d}" for number in range(count)]


def test_a_record_that_cannot_be_read_holds_up_none_of_the_fifteen_others(sweeper):
    sweeper.put(EXECUTION_DUE, *names(16))
    sweeper.broken = {"execution-000"}

    counts = sweeper.sweep()

    assert [due.id for due in sweeper.fired] == names(16)[1:]
    assert counts == {"failed": 1, EXECUTION_DUE: 15}
    assert sweeper.telemetry.bugs == 1


def test_a_sweep_ends_in_time_and_the_next_one_goes_on(sweeper):
    sweeper.put(EXECUTION_DUE, *names(40))
    sweeper.takes_seconds = 1.5
    began = sweeper.clock()

    counts = sweeper.sweep()

    assert sweeper.clock() - began <= 35_000
    assert counts["left"] == 1
    assert 10 <= counts[EXECUTION_DUE] < 40
    while "left" in sweeper.sweep():
        pass
    assert sorted(due.id for due in sweeper.fired) == names(40)


def test_kinds_take_turns_however_much_has_come_of_one(sweeper):
    sweeper.put(EXECUTION_DUE, *names(300))
    sweeper.put(AGENT_DUE, "an agent")
    sweeper.put(RUNNER_DUE, "a runner")

    sweeper.sweep()

    places = {due.kind: place for place, due in reversed(list(enumerate(sweeper.fired)))}
    assert places[AGENT_DUE] <= 10 and places[RUNNER_DUE] <= 11


def test_a_sweep_has_its_work_done_by_messages_ten_in_one_request(functions):
    sent: list[list[Due]] = []

    def forward(portion: Any) -> int:
        sent.append(list(portion))
        return 1 if len(sent) == 2 else 0

    sweeper = Sweeper(functions, forward)
    sweeper.put(EXECUTION_DUE, *names(25))

    counts = sweeper.sweep()

    assert [len(portion) for portion in sent] == [10, 10, 5]
    assert counts == {"failed": 1, EXECUTION_DUE: 24}
    assert sweeper.fired == []


def test_a_sweep_sends_no_more_than_a_thousand_of_a_kind_and_says_that_there_is_more(functions):
    sent: list[Due] = []

    def forward(portion: Any) -> int:
        sent.extend(portion)
        return 0

    sweeper = Sweeper(functions, forward)
    sweeper.put(EXECUTION_DUE, *names(1_030))
    sweeper.put(AGENT_DUE, *(f"agent-{number}" for number in range(50)))

    counts = sweeper.sweep()

    assert counts == {"failed": 0, EXECUTION_DUE: 1_000, AGENT_DUE: 50, "left": 1}
    assert len(sent) == 1_050


class Broken(FakeDueTimes):
    """Due times one kind of which cannot be read."""

    def ripe(self, kind: str, now_ms: int) -> Iterator[Due]:
        if kind == EXECUTION_DUE:
            raise Unavailable("the due-time table")
        yield from super().ripe(kind, now_ms)


def test_a_kind_that_is_out_of_reach_holds_up_no_other(monkeypatch, functions):
    monkeypatch.setattr(sys.modules[__name__], "FakeDueTimes", Broken)
    sweeper = Sweeper(functions)
    sweeper.put(EXECUTION_DUE, "one")
    sweeper.put(AGENT_DUE, "an agent")

    assert sweeper.sweep() == {"failed": 1, AGENT_DUE: 1}


def test_a_message_that_a_sweep_has_sent_is_looked_at_as_any_other(sweeper):
    due = Due(START_MS, EXECUTION_DUE, "one")
    sweeper.times.put(due)
    message = {"messageId": "m", "body": json.dumps(message_of(due))}

    assert sweeper.app.handler({"Records": [message]}, None) == {"batchItemFailures": []}
    assert sweeper.fired == [due]


def test_an_execution_that_cannot_be_read_holds_up_no_timeout_of_another(monkeypatch, functions):
    stage = KernelStage()
    executions = [stage.create({"n": number}) for number in range(16)]
    stage.store.kept[executions[3]].execution = None  # what a version that cannot read it meets
    parts = {"due_times": stage.store.due_times, "liveness": stage.liveness, "clock": stage.clock}
    app = functions.enter_context(kernel_function("due", telemetry=Telemetry(), **parts))
    monkeypatch.setattr(type(stage.store.executions), "read", reading(type(stage.store.executions).read, executions[3]))
    stage.clock.move(3_601)

    app.handler(SCHEDULE, None)

    ended = [stage.status(name).value for name in executions if name != executions[3]]
    assert ended == ["failed"] * 15


class Watch:
    """The kernel door's due function over a stage; with a queue, what a sweep sends on is looked at at once."""

    def __init__(self, open_functions: ExitStack, *, has_queue: bool) -> None:
        self.stage, self.telemetry = KernelStage(), Telemetry()
        parts = {"due_times": self.stage.store.due_times, "liveness": self.stage.liveness, "clock": self.stage.clock}
        parts |= {"telemetry": self.telemetry, "forward": self.forward if has_queue else None}
        self.app = open_functions.enter_context(kernel_function("due", **parts))

    def forward(self, portion: Any) -> int:
        for due in portion:
            body = json.dumps(message_of(due))
            assert self.app.handler({"Records": [{"messageId": "m", "body": body}]}, None) == {"batchItemFailures": []}
        return 0

    def sweep_for(self, seconds: int) -> int:
        """Streams and sweeps take turns, second by second; how many due times the sweeps met."""
        met = 0
        for _ in range(seconds):
            self.stage.clock.move(1)
            for line in self.stage.lines:
                line.look()
            met += sum(self.app.handler(SCHEDULE, None).values())
        return met

    @property
    def told(self) -> list[dict[str, Any]]:
        return [{"line": name, **facts} for name, facts, _ in self.telemetry.outcomes]


@pytest.fixture(params=[False, True], ids=["alone", "with a queue"])
def watch(request, functions) -> Watch:
    return Watch(functions, has_queue=request.param)


def test_looks_at_connections_that_live_leave_no_line_in_the_log(watch):
    watch.stage.agent()
    watch.stage.runner()

    assert watch.sweep_for(40) >= 4

    assert watch.told == []


def test_a_look_that_ends_something_leaves_a_line_with_its_ids(watch):
    agent = watch.stage.agent()
    watch.stage.runner()
    execution_id = watch.stage.create()
    agent.look()
    agent.has_ended = True  # its process was killed

    watch.sweep_for(40)

    assert watch.stage.status(execution_id).value == "pending"
    assert {"line": "due", "kind": AGENT_DUE, "agent_id": "triage", "consumer_id": "one"} in watch.told
    assert all(line["line"] == "due" and line["kind"] == AGENT_DUE for line in watch.told)

    watch.stage.clock.move(3_600)
    watch.app.handler(SCHEDULE, None)
    assert {"line": "due", "kind": EXECUTION_DUE, "execution_id": execution_id} in watch.told


def reading(read: Any, unreadable: str) -> Any:
    def found(self: Any, execution_id: str, **more: Any) -> Any:
        if execution_id == unreadable:
            raise TypeError("a member that this version does not know")
        return read(self, execution_id, **more)

    return found


@pytest.mark.parametrize(("failed", "lines"), [(0, []), (1, [("sweep", {"failed": 1}, {"DueTimesFailed": 1})])])
def test_a_sweep_of_the_worker_door_leaves_a_line_only_where_something_failed(failed, lines):
    times, telemetry, sent = FakeDueTimes(), Telemetry(), list[Due]()

    def look_all(portion: Any) -> int:
        sent.extend(portion)
        return failed

    clock = FakeClock(START_MS)
    parts = {"due_times": times, "forward_all": look_all, "clock": clock, "telemetry": telemetry}
    times.put(Due(START_MS - 1, TASK_DUE, "ctr_a"))

    with worker_function("due", **parts) as app:
        app.handler(SCHEDULE, None)

    assert [due.id for due in sent] == ["ctr_a"]
    assert telemetry.outcomes == lines


class Renewing:
    """A store's connections, the stream of one of which renews its lease just before it is forgotten."""

    def __init__(self, port: Any, renew: Any) -> None:
        self._port, self._renew = port, renew

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def forget(self, found: Any) -> bool:
        self._renew(found)
        return bool(self._port.forget(found))


@pytest.mark.parametrize("kind", ["agents", "runners"])
def test_a_connection_that_shows_itself_in_the_last_moment_is_looked_at_again(kind):
    stage = KernelStage()
    line = stage.agent() if kind == "agents" else stage.runner()
    port = getattr(stage.store, kind)
    until_ms = START_MS + 300_000
    late = replace(stage.liveness.stores, **{kind: Renewing(port, lambda found: port.refresh(found, until_ms))})
    stage.liveness = replace(stage.liveness, stores=late)
    line.is_lost = line.has_ended = True  # its process hangs, and comes back

    for _ in range(6):
        stage.clock.move(6)
        stage.sweep()

    due_kind = AGENT_DUE if kind == "agents" else RUNNER_DUE
    assert [due.at_ms for due in stage.store.due_times.ripe(due_kind, until_ms)], "nobody would notice its loss"
