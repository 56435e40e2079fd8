"""Work in a thread of its own: its end, its errors, and what nobody waits for any more."""

import threading

import pytest

from piecework.errors import LeaseLost
from piecework.worker.task.bounding import in_thread
from piecework.worker.task.start import TookTooLong


def test_work_that_ends_in_time_returns_and_one_that_fails_raises_its_own_error(caplog):
    done = []
    in_thread(lambda: done.append(1), 5)

    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        in_thread(fails, 5)
    assert done == [1] and caplog.messages == []


@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("x"), ["work_failed_after_its_request"]), (LeaseLost("x"), []), (None, [])]
)
def test_a_bug_that_nobody_waits_for_any_more_is_logged_and_an_expected_end_is_not(caplog, error, told):
    go_on, threads = threading.Event(), []

    def late():
        threads.append(threading.current_thread())
        go_on.wait(5)
        if error:
            raise error

    with pytest.raises(TookTooLong):
        in_thread(late, 0.01)
    go_on.set()
    threads[0].join(5)

    assert caplog.messages == told
