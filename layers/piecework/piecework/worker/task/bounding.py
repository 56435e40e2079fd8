"""Bounding work inside a request: it goes on in a thread of its own, and the request leaves it when its time is up.

Nothing stops the thread but its right to run (`right.py`), which it asks before each step and effect.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from piecework.worker.task.start import TookTooLong

T = TypeVar("T")


def in_thread(work: Callable[[], T], seconds: float) -> T:
    """Run `work` for at most so many seconds.

    Raises:
        TookTooLong: it went on past them.
        BaseException: whatever the work raised.
    """
    made: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, name="work", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if raised:
        raise raised[0]
    if not made:
        raise TookTooLong
    return made[0]
