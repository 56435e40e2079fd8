"""Pieces over the fake table: replay, wait, take-over, conflict, release, overflow, and all orders of three actors."""

from collections.abc import Callable, Iterator

import pytest

from piecework.durable.pieces import INLINE_LIMIT, LEASE_MS, Claim, Pieces, Recorded, Result, Running, piece_key
from piecework.errors import InProgress, KeyConflict, LeaseLost, Retryable, Unavailable
from tests.support.fakes import FakeClock, FakeOverflow, FakePieceTable, no_renewal

KEY, PRINT = "k", "f"


class Bench:
    """Pieces with a moving clock and work that counts its runs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.table = FakePieceTable(self.clock)
        self.overflow = FakeOverflow()
        self.runs = 0
        self.on_sleep: Callable[[], None] = lambda: None
        self.pieces = Pieces(
            self.table, self.overflow, clock=self.clock, sleep=self.sleep, renewal=no_renewal, ttl_seconds=3600
        )

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.on_sleep()

    def work(self, claim: Claim) -> Result:
        self.runs += 1
        return Result(f"run {self.runs}".encode())

    def perform(self, work=None, fingerprint=PRINT, seconds=20.0, needs_ms=0):
        until_ms = self.clock() + int(seconds * 1000)
        return self.pieces.perform(KEY, fingerprint, work or self.work, until_ms=until_ms, needs_ms=needs_ms)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_second_call_gets_the_first_answer(bench):
    first, second = bench.perform(), bench.perform()

    assert (first.body, first.replayed) == (b"run 1", False)
    assert (second.body, second.replayed) == (b"run 1", True)
    assert bench.runs == 1


def test_another_payload_under_the_same_key_is_a_conflict_and_changes_nothing(bench):
    bench.perform()

    with pytest.raises(KeyConflict):
        bench.perform(fingerprint="other")
    assert bench.perform().body == b"run 1"


def test_a_duplicate_waits_for_the_running_piece(bench):
    claim = bench.pieces.claim(KEY, PRINT)
    bench.on_sleep = lambda: bench.pieces.record(claim, Result(b"late")) if bench.clock() % 2 else None

    answer = bench.perform()

    assert (answer.body, answer.waited, answer.replayed, bench.runs) == (b"late", True, True, 0)


def test_a_waiter_whose_time_is_up_says_so_and_the_piece_goes_on(bench):
    claim = bench.pieces.claim(KEY, PRINT)

    with pytest.raises(InProgress):
        bench.perform(seconds=3)
    bench.pieces.record(claim, Result(b"done"))
    assert bench.perform().body == b"done"


def test_a_dead_runner_is_taken_over_within_its_lease(bench):
    bench.pieces.claim(KEY, PRINT)

    answer = bench.perform()

    assert (answer.body, answer.took_over, answer.waited) == (b"run 1", True, True)


def test_a_lapsed_piece_is_left_alone_when_too_little_time_remains(bench):
    bench.pieces.claim(KEY, PRINT)

    with pytest.raises(InProgress):
        bench.perform(seconds=20, needs_ms=8_000)
    assert bench.runs == 0
    assert bench.perform(seconds=20, needs_ms=8_000).took_over


def test_a_transient_failure_releases_the_piece(bench):
    def busy(claim: Claim) -> Result:
        raise Retryable("the model is busy")

    with pytest.raises(Retryable):
        bench.perform(busy)

    assert bench.perform().body == b"run 1"


def test_a_bug_in_the_work_does_not_hold_the_piece_until_its_lease_lapses(bench):
    with pytest.raises(ZeroDivisionError):
        bench.perform(lambda claim: Result(str(1 / 0).encode()))

    assert bench.perform(seconds=1).body == b"run 1"


def test_waiters_share_the_transient_failure_of_the_run_they_waited_for(bench):
    claim = bench.pieces.claim(KEY, PRINT)
    bench.on_sleep = lambda: bench.pieces.release(claim, Retryable("the model is busy"))

    with pytest.raises(Exception, match="the model is busy") as caught:
        bench.perform()
    assert caught.value.code == "unavailable" and bench.runs == 0


def test_a_waiter_whose_key_went_to_another_payload_is_told_so(bench):
    claim = bench.pieces.claim(KEY, PRINT)

    def replace_payload() -> None:
        bench.on_sleep = lambda: None
        bench.pieces.release(claim, Retryable("busy"))
        bench.pieces.record(bench.pieces.claim(KEY, "other"), Result(b"another payload's answer"))

    bench.on_sleep = replace_payload
    with pytest.raises(KeyConflict):
        bench.perform()


def test_a_permanent_failure_is_an_answer(bench):
    answer = bench.perform(lambda claim: Result(b"never", ok=False))

    assert not answer.ok
    assert not bench.perform().ok and bench.perform().body == b"never" and bench.runs == 0


def test_a_long_reason_is_kept_short_enough_for_an_item(bench):
    def busy(claim: Claim) -> Result:
        raise Retryable("x" * 1_000_000)

    with pytest.raises(Retryable):
        bench.perform(busy)

    assert len(bench.table.read(KEY).reason) == 500


def test_a_failed_release_does_not_hide_the_first_failure(bench):
    def busy(claim: Claim) -> Result:
        bench.table.items.clear()
        raise Retryable("the model is busy")

    with pytest.raises(Retryable, match="the model is busy"):
        bench.perform(busy)


def test_a_runner_that_lost_its_lease_answers_with_what_stands(bench):
    def slow(claim: Claim) -> Result:
        bench.clock.move(LEASE_MS / 1000 + 1)
        other = bench.pieces.claim(KEY, PRINT)
        assert isinstance(other, Claim) and other.took_over
        bench.pieces.record(other, Result(b"the other's"))
        return Result(b"mine")

    answer = bench.perform(slow, seconds=60)

    assert answer.body == b"the other's"


@pytest.mark.parametrize(("size", "objects"), [(INLINE_LIMIT, 0), (INLINE_LIMIT + 1, 1)])
def test_large_answers_overflow_and_come_back_unchanged(bench, size, objects):
    bench.perform(lambda claim: Result(b"x" * size))

    assert bench.perform().body == b"x" * size and len(bench.overflow.objects) == objects


def test_a_late_runner_cannot_touch_the_bytes_that_were_recorded(bench):
    late = bench.pieces.claim(KEY, PRINT)
    bench.clock.move(LEASE_MS / 1000 + 1)
    bench.perform(lambda claim: Result(b"good" * INLINE_LIMIT))

    with pytest.raises(LeaseLost):
        bench.pieces.record(late, Result(b"evil" * INLINE_LIMIT))
    assert bench.perform().body == b"good" * INLINE_LIMIT


def test_an_expired_answer_is_absent_by_the_clock(bench):
    bench.perform()
    bench.clock.move(3601)

    assert bench.perform().body == b"run 2"


def test_a_store_out_of_reach_is_not_an_answer(bench):
    def unreachable(*_: object) -> None:
        raise Unavailable("the results table is out of reach; try again")

    bench.table.record = unreachable

    with pytest.raises(Unavailable):
        bench.perform()


def test_keys_keep_their_parts_apart():
    assert piece_key("d", "c", "a|b", "c") != piece_key("d", "c", "a", "b|c")
    assert piece_key("d", "c", "ab", "") != piece_key("d", "c", "a", "b")
    assert len(piece_key("d", "c", "x" * 10_000, "\n/#😀")) == 64


# Interleavings: every order of the actors' single calls, one actor being the clock that lapses a lease.

Actor = Iterator[None]


def a_runner(bench: Bench, name: str, recorded: list[str]) -> Actor:
    """Claim, renew, record; a yield before each call lets any other actor go first."""
    standing = bench.pieces.claim(KEY, PRINT)
    yield
    if isinstance(standing, Claim):
        try:
            bench.pieces.renew(standing)
            yield
            bench.pieces.record(standing, Result(name.encode()))
            recorded.append(name)
        except LeaseLost:
            pass
    yield


def a_failing_runner(bench: Bench, released: list[str]) -> Actor:
    standing = bench.pieces.claim(KEY, PRINT)
    yield
    if isinstance(standing, Claim):
        try:
            bench.pieces.release(standing, Retryable("busy"))
            released.append("released")
        except LeaseLost:
            pass
    yield


def the_clock(bench: Bench) -> Actor:
    bench.clock.move(LEASE_MS / 1000 + 1)
    yield


def orders(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every order of actors taking their steps, as indexes."""
    if not any(counts):
        yield ()
    for actor, left in enumerate(counts):
        if left:
            rest = (*counts[:actor], left - 1, *counts[actor + 1 :])
            yield from ((actor, *order) for order in orders(rest))


def play(actors: list[Actor], order: tuple[int, ...]) -> None:
    for actor in order:
        next(actors[actor], None)


@pytest.mark.parametrize("runners", [2, 3])
def test_in_every_order_of_claims_renewals_and_records_one_answer_stands(runners):
    played = 0
    for order in orders((*[3] * runners, 1)):
        bench, recorded = Bench(), []
        play([*(a_runner(bench, f"r{n}", recorded) for n in range(runners)), the_clock(bench)], order)
        bench.clock.move(LEASE_MS / 1000 + 1)
        final = bench.perform(lambda claim: Result(b"recovered"))
        assert len(recorded) <= 1, order
        assert final.body == (recorded[0].encode() if recorded else b"recovered"), order
        assert isinstance(bench.pieces.claim(KEY, PRINT), Recorded), order
        played += 1
    assert played == (140 if runners == 2 else 16_800)


def an_acting_runner(bench: Bench, acts: list[tuple[str, str]]) -> Actor:
    """Claims, then twice asks for its right and acts; what it notes is its own token and the one that stands."""
    from piecework.extend.right import RightLost

    standing = bench.pieces.claim(KEY, PRINT)
    yield
    if isinstance(standing, Claim):
        try:
            for _ in range(2):
                standing.right.check()
                acts.append((standing.token, bench.table.read(KEY).token))
                yield
            bench.pieces.record(standing, Result(standing.token.encode()))
        except (LeaseLost, RightLost):
            pass
    yield


@pytest.mark.parametrize("lapses", [1, 2])
def test_in_every_order_only_the_runner_that_holds_the_piece_acts(lapses):
    for order in orders((4, 4, *[1] * lapses)):
        bench, acts = Bench(), []
        clocks = [the_clock(bench) for _ in range(lapses)]
        play([an_acting_runner(bench, acts), an_acting_runner(bench, acts), *clocks], order)
        assert all(own == standing for own, standing in acts), order


def test_in_every_order_a_release_never_undoes_an_answer():
    for order in orders((3, 2, 3, 1)):
        bench, recorded, released = Bench(), [], []
        actors = [
            a_runner(bench, "r0", recorded),
            a_failing_runner(bench, released),
            a_runner(bench, "r2", recorded),
            the_clock(bench),
        ]
        play(actors, order)
        assert len(recorded) <= 1, order
        if recorded:
            assert bench.perform().body == recorded[0].encode(), order


def test_a_running_piece_is_seen_as_such(bench):
    claim = bench.pieces.claim(KEY, PRINT)

    assert isinstance(claim, Claim) and bench.pieces.claim(KEY, PRINT) == Running(claim.token)
