"""Renewal: a lease is kept while work runs, without a thread for work that ends soon."""

import threading
import time

import pytest

from piecework.durable.renewal import Renewal
from piecework.errors import LeaseLost, Unavailable

SOON = 0.001


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def wait_until(true) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.001)


def test_it_goes_on_through_an_outage_and_stops_when_the_lease_is_lost():
    calls: list[int] = []

    def renew() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise Unavailable("out of reach")
        if len(calls) == 3:
            raise LeaseLost("taken over")

    with Renewal(renew, every_seconds=SOON):
        wait_until(lambda: len(calls) == 3 and "renewal" not in names())
        time.sleep(20 * SOON)

    assert calls == [0, 1, 2]


def test_work_that_ends_before_its_first_renewal_starts_no_thread():
    renewed: list[None] = []
    with Renewal(lambda: renewed.append(None), every_seconds=60):
        pass
    before = names()
    for _ in range(20):
        with Renewal(lambda: renewed.append(None), every_seconds=60):
            assert names() == before

    assert renewed == []


def test_it_ends_with_the_work_even_when_that_fails():
    renewed: list[float] = []

    def failing_work() -> None:
        with Renewal(lambda: renewed.append(time.monotonic()), every_seconds=SOON):
            wait_until(lambda: renewed)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_work()
    count = len(renewed)
    time.sleep(20 * SOON)

    assert len(renewed) == count
    assert "renewal" not in names()


def test_a_renewal_under_way_has_ended_when_the_work_is_answered():
    entered, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def renew() -> None:
        entered.set()
        let_go.wait(60)
        ended.set()

    with Renewal(renew, every_seconds=SOON):
        assert entered.wait(60)
        threading.Timer(0.02, let_go.set).start()

    assert ended.is_set()


def test_several_pieces_at_once_are_all_renewed():
    counts = [0, 0, 0]

    def renewing(index: int) -> Renewal:
        def renew() -> None:
            counts[index] += 1

        return Renewal(renew, every_seconds=SOON)

    with renewing(0), renewing(1), renewing(2):
        wait_until(lambda: min(counts) >= 3)

    assert min(counts) >= 3
