"""Bounding work inside a request: it goes on in a thread of its own, and the request leaves it when its time is up.

Nothing stops the thread but its right to run (`right.py`), which it asks before each step and effect.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from piecework.errors import PieceworkError
from piecework.worker.task.start import TookTooLong

LOG: Final = logging.getLogger(__name__)


def in_thread(work: Callable[[], None], seconds: float) -> None:
    """Run `work` for at most so many seconds. A bug that it meets after that is logged, since nobody waits for it.

    Raises:
        TookTooLong: it went on past them.
        BaseException: whatever the work raised.
    """
    run = _Run(work)
    run.start()
    run.join(max(0.0, seconds))
    if not run.has_ended():
        raise TookTooLong
    if run.error is not None:
        raise run.error


class _Run(threading.Thread):
    """The work, how it ended, and whether somebody waits for that."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="work", daemon=True)
        self._work = work
        self._turn = threading.Lock()
        self._is_over = self._is_left = False
        self.error: BaseException | None = None

    def has_ended(self) -> bool:
        """Whether it has ended. A caller that hears "no" leaves, and does not ask again."""
        with self._turn:
            self._is_left = not self._is_over
            return self._is_over

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits, if one does
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        with self._turn:
            self._is_over, self.error = True, error
            is_left = self._is_left
        if is_left and error is not None and not isinstance(error, PieceworkError):
            LOG.error("work_failed_after_its_request", exc_info=error)
