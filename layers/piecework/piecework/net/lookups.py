"""Name look-ups inside a deadline, which the system's resolver does not support.

A look-up cannot be interrupted, so it has a thread of its own, and the caller stops waiting in time. The thread ends
when the resolver gives up (glibc: after 10 s by default). Until then all callers for the same name wait for the same
look-up, and at most `MOST_AT_ONCE` look-ups run at a time. So a name server that does not answer costs a bounded number
of threads.
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
    """The moment by which all parts of one request must end."""

    def __init__(self, seconds: float) -> None:
        self._ends = monotonic() + seconds

    def remaining(self) -> float:
        """The remaining seconds. Raises TimeoutError when the deadline has passed."""
        left = self._ends - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def within(self, seconds: float | None) -> "Deadline":
        """This deadline, or `seconds` from now if that is earlier."""
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
        OSError, ValueError: the resolver does not know the name.
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
        if (running := _under_way.get(key)) is not None:  # another caller was faster
            _room.release()
            return running
        begun = _LookUp(key)
        try:
            begun.start()  # inside the lock: a caller must not wait for a thread that has not started
        except RuntimeError as error:
            _room.release()
            raise OSError("a thread for the name look-up could not be started") from error
        _under_way[key] = begun
        return begun


class _LookUp(Thread):
    """One look-up; its outcome is set when the thread has ended."""

    def __init__(self, key: Key) -> None:
        super().__init__(name="look-up", daemon=True)
        self._key = key
        self.found: Sequence[str] = ()
        self.error: Exception | None = OSError("the name look-up ended without an answer")  # until there is one

    def run(self) -> None:
        resolve, host, port = self._key
        try:
            self.found, self.error = resolve(host, port), None
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            self.error = error
        finally:
            with _lock:
                del _under_way[self._key]
            _room.release()
