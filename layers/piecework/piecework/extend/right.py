"""The right to run: what a run asks before each step and each effect, at every door.

A run holds its piece, attempt or execution by a lease that is renewed while it works. One `Right` knows until when the
lease is surely ours; as long as that time has not come nobody can have taken over, and asking costs no request. Past
it, after a freeze or an outage, asking renews the lease first: a write that fails when another runner has it.

    runner A:  lease ──┤ frozen ........ thawed: asks, renews -> LeaseLost -> stops before its next step
    runner B:               takes over ─ runs ─────────── records

A run whose time in a request is up is asked to leave: it stops before the next step that nobody has recorded.
"""

import threading
from collections.abc import Callable
from typing import Final

from piecework.errors import LeaseLost

LEASE_MS: Final = 15_000  # three missed renewals; a killed runner is taken over within this
MARGIN_MS: Final = 1_000  # of a lease; an effect that was allowed has begun within it, and clocks differ by less
NEVER: Final = 10**15


class Stopped(BaseException):
    """Ends a run from inside. No `Exception`, so that an executor's own handlers let it pass."""


class RightLost(Stopped):
    """Another runner has the work, or its time is over: whatever this run still did would not count."""


class HandedOver(Stopped):
    """The rest is for the next run, which gets every recorded step at once."""


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
        self._ends_ms = ends_ms  # whoever holds the lease, nothing counts after this
        self._leaves_ms = leaves_ms  # no further step begins after this
        self._is_lost = False
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Move the lease on. Raises LeaseLost when another runner has taken over."""
        until_ms = self._clock() + self._lease_ms  # before the request, so that we never think it longer than it is
        try:
            self._renew(until_ms)
        except LeaseLost:
            self._is_lost = True
            raise
        self._until_ms = max(self._until_ms, until_ms)

    def check(self) -> None:
        """Return while this run holds its work.

        Raises:
            RightLost: it does not any more.
            Unavailable: its lease has lapsed and the store is out of reach, so nobody can tell.
        """
        if not self._is_held():
            with self._lock:  # of several threads that ask at once one renews
                if not self._is_held():
                    self._renew_or_stop()

    def check_step(self) -> None:
        """As `check`, before a step that nobody has recorded.

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
        """When a run was ended for its time: raises HandedOver if another run may go on with the same attempt."""
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
    """The right of a run that nobody can take over: in tests of an executor alone."""

    def __init__(self) -> None:
        super().__init__(lambda until_ms: None, NEVER, lambda: 0)
