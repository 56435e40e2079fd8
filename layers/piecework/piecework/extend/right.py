"""The right to run: a run checks it before each step and each effect, at every door.

A run holds its piece, attempt or execution by a lease that is renewed while it works. A `Right` knows until when the
lease surely holds; before that time another runner cannot have taken over, and the check does not need a request. After
it, past a freeze or an outage, the check renews the lease first, by a write that fails when another runner has it.

    runner A:  lease ──┤ frozen ........ thawed: checks, renews -> LeaseLost -> stops before its next step
    runner B:               takes over ─ runs ─────────── records

A run whose time in a request is up is asked to leave: it stops before the next step that is not recorded yet.
"""

import threading
from collections.abc import Callable
from typing import Final

from piecework.errors import LeaseLost

LEASE_MS: Final = 15_000  # three missed renewals; a killed runner is taken over within this
MARGIN_MS: Final = 1_000  # of a lease; an allowed effect begins within it, and clocks differ by less
NEVER: Final = 10**15


class Stopped(BaseException):
    """Ends a run from inside. It is not an `Exception`, so an executor's own handlers let it pass."""


class RightLost(Stopped):
    """Another runner has the work, or its time is over: further work of this run would not count."""


class HandedOver(Stopped):
    """The next run does the rest; it gets every recorded step at once."""


class Right:
    """The right of one run, by a lease that `renew` moves to a time in epoch milliseconds or raises LeaseLost."""

    def __init__(
        self,
        renew: Callable[[int], None],
        until_ms: int,
        clock: Callable[[], int],
        *,
        lease_ms: int = LEASE_MS,
        ends_ms: int = NEVER,
        leaves_ms: int = NEVER,
    ) -> None:
        self._renew = renew
        self._until_ms = until_ms
        self._clock = clock
        self._lease_ms = lease_ms
        self._ends_ms = ends_ms  # work after this time does not count, even under a lease
        self._leaves_ms = leaves_ms  # a new step does not begin after this time
        self._is_lost = False
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Move the lease on. Raises LeaseLost when another runner has taken over."""
        until_ms = self._clock() + self._lease_ms  # before the request: never longer than the lease
        try:
            self._renew(until_ms)
        except LeaseLost:
            self._is_lost = True
            raise
        self._until_ms = max(self._until_ms, until_ms)

    def check(self) -> None:
        """Return while this run holds its work.

        Raises:
            RightLost: this run does not hold its work any more.
            Unavailable: its lease has lapsed, and the store is out of reach.
        """
        if not self._is_held():
            with self._lock:  # of several threads that check at once, one renews
                if not self._is_held():
                    self._renew_or_stop()

    def check_step(self) -> None:
        """As `check`, before a step that is not recorded yet.

        Raises:
            HandedOver: the run was asked to leave.
        """
        self.check()
        if self._clock() >= self._leaves_ms:
            raise HandedOver

    def leave(self) -> None:
        """Ask the run to leave before its next step."""
        self._leaves_ms = 0

    def check_time_up(self) -> None:
        """Called when a run's time is up: raises HandedOver if another run may go on with the same attempt."""
        if self._leaves_ms != NEVER:
            raise HandedOver

    def _is_held(self) -> bool:
        now_ms = self._clock()
        if self._is_lost or now_ms >= self._ends_ms:
            raise RightLost("another runner has this work, or its time is over")
        return now_ms + MARGIN_MS < self._until_ms

    def _renew_or_stop(self) -> None:
        try:
            self.renew()
        except LeaseLost as lost:
            raise RightLost(lost.message) from None


class Unleased(Right):
    """The right of a run that cannot be taken over: for tests of an executor alone."""

    def __init__(self) -> None:
        super().__init__(lambda until_ms: None, NEVER, lambda: 0)
