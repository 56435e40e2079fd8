"""Renewal of a lease in the background, while the work under it runs.

Most work ends before its first renewal, and starting a thread costs as much as the rest of such a piece. So one
sleeping thread per environment watches the clock, and starts a renewing thread only for work that still runs then.
"""

import threading
from collections.abc import Callable
from functools import cache
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

from piecework.errors import LeaseLost, PieceworkError

RENEW_SECONDS: Final = 5.0  # work that ends sooner is not renewed


class Renewal:
    """Renews a claim every few seconds between enter and exit; a renewal under way has ended when exit returns."""

    def __init__(self, renew: Callable[[], None], every_seconds: float = RENEW_SECONDS) -> None:
        self._renew = renew
        self._every_seconds = every_seconds
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the renewing thread."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, args=(self._stop,), name="renewal", daemon=True)
        self._thread.start()

    def _loop(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._renew()
            except LeaseLost:
                return  # from now on the table refuses to record this run
            except PieceworkError:
                pass  # the store is out of reach; the next round tries again until the lease lapses
            stop.wait(self._every_seconds)

    def __enter__(self) -> Self:
        _alarm(self._every_seconds).add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _alarm(self._every_seconds).discard(self)
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()


class _Alarm:
    """Starts every renewal that was added `after_seconds` ago and has not been discarded."""

    def __init__(self, after_seconds: float) -> None:
        self._after_seconds = after_seconds
        self._due: dict[Renewal, float] = {}  # ordered by time
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, renewal: Renewal) -> None:
        with self._lock:
            self._due[renewal] = monotonic() + self._after_seconds
            if self._thread is None or not self._thread.is_alive():  # a forked process has no threads but its own
                self._thread = threading.Thread(target=self._loop, name="renewals", daemon=True)
                self._thread.start()

    def discard(self, renewal: Renewal) -> None:
        with self._lock:
            self._due.pop(renewal, None)

    def _loop(self) -> None:
        while True:
            sleep(self._ring())

    def _ring(self) -> float:
        """Start the due renewals; returns the seconds until the next can be due (new ones are due later)."""
        with self._lock:
            now = monotonic()
            for renewal in [found for found, due in self._due.items() if due <= now]:
                del self._due[renewal]
                renewal.start()
            return min(self._due.values(), default=now + self._after_seconds) - now


@cache
def _alarm(after_seconds: float) -> _Alarm:
    return _Alarm(after_seconds)
