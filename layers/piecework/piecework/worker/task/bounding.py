"""Bounding work inside a request: it goes on in a thread of its own, and the request leaves it when its time is up.

Nothing stops the thread but its right to run (`right.py`), which it asks before each step and effect.
"""

import threading
from collections.abc import Callable

from piecework.worker.task.start import TookTooLong


def in_thread(work: Callable[[], None], seconds: float) -> None:
    """Run `work` for at most so many seconds.

    Raises:
        TookTooLong: it went on past them.
        BaseException: whatever the work raised.
    """
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            ended.append(None)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits
            ended.append(error)

    thread = threading.Thread(target=run, name="work", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if not ended:
        raise TookTooLong
    if ended[0] is not None:
        raise ended[0]
