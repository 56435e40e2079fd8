"""Names are looked up inside a deadline, which the system's resolver knows nothing of.

A look-up cannot be interrupted, so it has a thread of its own, and whoever asked stops waiting in time. Such a thread
ends when the resolver gives up (glibc: after 10 s, unless told otherwise). Until then everybody who asks for the same
name waits for the same look-up, and no more than `MOST_AT_ONCE` are under way: a name server that does not answer costs
a bounded number of threads, however often it is asked.
"""

from collections.abc import Sequence
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from typing import Final

from piecework.net.addresses import Resolve

MOST_AT_ONCE: Final = 32  # look-ups under way; a verification has 8

Key = tuple[Resolve, str, int]

_lock: Final = Lock()
_room: Final = BoundedSemaphore(MOST_AT_ONCE)
_under_way: Final[dict[Key, "_LookUp"]] = {}


class Deadline:
    """A moment that everything about one request must keep."""

    def __init__(self, seconds: float) -> None:
        self._ends = monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left. Raises TimeoutError when there are none."""
        left = self._ends - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def within(self, seconds: float | None) -> "Deadline":
        """The earlier one of this deadline and so many seconds from now."""
        left = self.remaining()
        return Deadline(left if seconds is None else min(left, seconds))


class Silence(Deadline):
    """Seconds that each wait may take by itself: for answers that go on as long as there is news."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._seconds = seconds

    def remaining(self) -> float:
        """The seconds, anew at each wait."""
        return self._seconds


def look_up(resolve: Resolve, host: str, port: int, deadline: Deadline) -> Sequence[str]:
    """The addresses of a name.

    Raises:
        TimeoutError: the resolver did not answer in time.
        OSError, ValueError: it knows no such name.
    """
    begun = _begun((resolve, host, port), deadline)
    begun.join(deadline.remaining())
    if begun.is_alive():
        raise TimeoutError("the name was not looked up in time")
    if begun.error is not None:
        raise begun.error
    return begun.found


def _begun(key: Key, deadline: Deadline) -> "_LookUp":
    with _lock:
        if (running := _under_way.get(key)) is not None:
            return running
    if not _room.acquire(timeout=deadline.remaining()):
        raise TimeoutError("too many names are being looked up")
    with _lock:
        if (running := _under_way.get(key)) is not None:  # somebody was faster
            _room.release()
            return running
        begun = _LookUp(key)
        try:
            begun.start()  # inside the lock: nobody may wait for a thread that has not started
        except RuntimeError as error:
            _room.release()
            raise OSError("there is no thread left for a look-up") from error
        _under_way[key] = begun
        return begun


class _LookUp(Thread):
    """One look-up; its outcome is there when the thread has ended."""

    def __init__(self, key: Key) -> None:
        super().__init__(name="look-up", daemon=True)
        self._key = key
        self.found: Sequence[str] = ()
        self.error: Exception | None = None

    def run(self) -> None:
        resolve, host, port = self._key
        try:
            self.found = resolve(host, port)
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            self.error = error
        finally:
            with _lock:
                del _under_way[self._key]
            _room.release()
