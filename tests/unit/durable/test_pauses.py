"""What a process sees of pauses, and what a paused piece's door still does."""

import pytest

from piecework.durable.pauses import SCOPE, SEEN_MS, Admission, Pause
from piecework.durable.pieces import LEASE_MS, Claim, Pieces, Result
from piecework.errors import KeyConflict, Paused, RequestRejected, Retryable, Unavailable
from piecework.runtime.door import error_response
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, FakePieceTable, no_renewal
from tests.support.ops.pauses import FakePauses, Switch
from tests.support.quiet import QuietLog
from tests.support.runtime.flows import FlowBench, answering

KEY, PRINT = "k", "f"


class Watch:
    def __init__(self):
        self.clock, self.pauses, self.log = FakeClock(), FakePauses(), QuietLog()
        self.admission = Admission(self.pauses, self.clock, self.log.warning)

    def admits(self, door="runtime", executor="echo"):
        try:
            self.admission.check(door, executor)
        except Paused:
            return False
        return True


@pytest.fixture
def watch():
    return Watch()


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        ("door:runtime", {("runtime", "echo"), ("runtime", "other"), ("runtime", "")}),
        ("door:worker", {("worker", "echo"), ("worker", "other"), ("worker", "")}),
        ("door:kernel", {("kernel", "echo"), ("kernel", "other"), ("kernel", "")}),
        ("executor:echo", {("runtime", "echo"), ("worker", "echo"), ("kernel", "echo")}),
    ],
)
def test_a_pause_closes_its_own_scope_alone(watch, scope, refused):
    watch.pauses.begin(Pause(scope, START_MS, "mia", "x"))

    asked = {(door, name) for door in ("runtime", "worker", "kernel") for name in ("echo", "other", "")}
    assert {each for each in asked if not watch.admits(*each)} == refused


def test_a_pause_and_its_end_are_seen_within_the_stated_time_and_are_read_no_more_often(watch):
    assert watch.admits()
    watch.pauses.begin(Pause("door:runtime", START_MS, "mia", "x"))
    watch.clock.now_ms += SEEN_MS - 1
    assert watch.admits() and watch.pauses.reads == 1

    watch.clock.now_ms += 1
    assert not watch.admits() and not watch.admits() and watch.pauses.reads == 2
    watch.pauses.end("door:runtime")
    watch.clock.now_ms += SEEN_MS

    assert watch.admits() and watch.pauses.reads == 3


@pytest.mark.parametrize("error", [Unavailable("out of reach"), RequestRejected("no permission")])
def test_pauses_that_cannot_be_read_stop_nobody_and_are_logged_once_in_a_while(watch, error):
    watch.pauses.failure = error

    assert watch.admits() and watch.admits()
    assert [line[0] for line in watch.log.lines] == ["pauses_not_read"] and watch.pauses.reads == 1


def test_what_was_seen_last_counts_while_pauses_cannot_be_read(watch):
    watch.pauses.begin(Pause("door:runtime", START_MS, "mia", "x"))
    assert not watch.admits()
    watch.pauses.failure = Unavailable("out of reach")
    watch.clock.now_ms += SEEN_MS

    assert not watch.admits()


@pytest.mark.parametrize(
    "text", ["door:", "door:ops", "executor:", "executor:a b", "executor:" + "x" * 65, "echo", "door:runtime\n", "held"]
)
def test_other_texts_are_no_scope(text):
    assert SCOPE.fullmatch(text) is None


class Bench:
    def __init__(self):
        self.clock, self.switch, self.runs = FakeClock(), Switch(), 0
        self.table = FakePieceTable(self.clock)
        self.pieces = Pieces(self.table, FakeOverflow(), clock=self.clock, sleep=self.clock.sleep, renewal=no_renewal)

    def work(self, claim: Claim) -> Result:
        self.runs += 1
        return Result(b"made")

    def ask(self, fingerprint=PRINT, work=None):
        until_ms, admit = self.clock() + 20_000, lambda: self.switch.admission.check("runtime", "echo")
        return self.pieces.perform(KEY, fingerprint, work or self.work, until_ms=until_ms, admit=admit)


@pytest.fixture
def bench():
    return Bench()


def test_a_new_piece_is_not_begun_and_leaves_no_row_while_its_executor_is_paused(bench):
    bench.switch.pause("executor:echo")

    with pytest.raises(Paused):
        bench.ask()
    assert (bench.runs, bench.table.items) == (0, {})
    bench.switch.resume("executor:echo")

    assert bench.ask().body == b"made"


def test_a_piece_that_is_done_is_answered_while_the_door_is_paused(bench):
    bench.ask()
    bench.switch.pause("door:runtime")

    answer = bench.ask()
    assert (answer.body, answer.replayed, bench.runs) == (b"made", True, 1)
    with pytest.raises(KeyConflict):
        bench.ask("other")


def test_a_piece_that_runs_is_waited_for_and_one_whose_runner_died_is_finished_while_the_door_is_paused(bench):
    bench.pieces.claim(KEY, PRINT)
    bench.switch.pause("door:runtime")

    answer = bench.ask()  # waits until the lease lapses, and takes over

    assert (answer.body, answer.took_over, bench.runs) == (b"made", True, 1)
    assert bench.clock() >= START_MS + LEASE_MS


def test_a_piece_that_its_run_gave_up_or_whose_time_is_over_is_new_work(bench):
    def out_of_reach(claim):
        raise Retryable("out of reach")

    with pytest.raises(Retryable):
        bench.ask(work=out_of_reach)
    bench.switch.pause("door:runtime")
    with pytest.raises(Paused):
        bench.ask()
    bench.switch.resume("door:runtime")
    bench.ask()
    bench.switch.pause("door:runtime")
    bench.clock.move(86_401)

    with pytest.raises(Paused):
        bench.ask()


def test_the_runtime_door_asks_about_the_executor_that_would_work():
    bench, switch = FlowBench(answering()), Switch()
    bench.flow._admit = lambda executor: switch.admission.check("runtime", executor)
    switch.pause("executor:other")
    first = bench.execute()
    switch.pause("executor:probe")

    assert bench.execute().body == first.body
    bench.execution_id += "2"
    with pytest.raises(Paused):
        bench.execute()


def test_the_runtime_door_answers_503_with_the_seconds_to_wait():
    response = error_response(Paused("the runtime door is paused and takes no new work; try again later"))

    assert (response.status, dict(response.headers)) == (503, {"Retry-After": "30"})
    assert response.body == (
        b'{"error": "the runtime door is paused and takes no new work; try again later", "code": "unavailable"}'
    )
