"""The monitor stream: an execution's log, from a place in it to its end (specification section 3.1)."""

from collections.abc import Callable
from typing import Final

from piecework.errors import PieceworkError
from piecework.kernel.errors import NotFound
from piecework.kernel.model.events import TERMINAL, is_private
from piecework.kernel.model.ports.executions import Executions
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.push_streams import Step
from piecework.kernel.wire.frames import event_body, frame

PAGE: Final = 100  # events of one look; big ones come in smaller pages
LIFE_MS: Final = 885_000  # where streams rotate, the platform cuts at 900 s; a clean end is better than a cut


class Monitor:
    """One reader of a log; driven from outside like the other streams."""

    def __init__(
        self,
        execution_id: str,
        after: int,
        executions: Executions,
        settings: KernelSettings,
        clock: Callable[[], int],
        looked: Callable[[], None] | None = None,
    ) -> None:
        """Only an approver gives `looked`: it is called once, before private arguments are told; others get a mark.

        Raises:
            NotFound: no such execution.
        """
        execution = executions.read(execution_id).execution
        if execution is None:
            raise NotFound(f"execution {execution_id}")
        self._id, self._after, self._executions = execution_id, after, executions
        self._clock, self._to_approver, self._looked = clock, looked is not None, looked
        self.heartbeat_ms, self._next_round = settings.heartbeat_ms, clock() + settings.heartbeat_ms
        self._cut_at = clock() + LIFE_MS if settings.rotation_ms else None
        self._ends_at = execution.sequence if execution.status.is_terminal else None
        self.is_over = self._has_told_all  # there is nothing to open a stream for

    def step(self) -> Step:
        """What is new; what goes wrong with the store is left to the next look."""
        is_round = self._is_round()
        try:
            events = self._executions.events(self._id, self._after, PAGE)
            is_done = is_round and not events and self._has_no_more()
        except PieceworkError:
            return Step()
        if events:
            self._after = events[-1].sequence
        if self._looked and any(map(is_private, events)):
            self._looked()
            self._looked = None
        bodies = [event_body(event, to_approver=self._to_approver) for event in events]
        frames = [frame(event.type, body, event.sequence) for event, body in zip(events, bodies, strict=True)]
        is_over = self._has_told_all or is_done or (self._cut_at is not None and self._clock() >= self._cut_at)
        return Step(tuple(frames), is_over or any(event.type in TERMINAL for event in events))

    @property
    def _has_told_all(self) -> bool:
        """Whether the execution had ended when this reader came, and the reader knows the end."""
        return self._ends_at is not None and self._after >= self._ends_at

    def sent(self) -> None:
        """Nothing has to be remembered."""

    def closed(self) -> int:
        """Nobody waits for a reader."""
        return 0

    def _has_no_more(self) -> bool:
        """Whether the execution is gone, or ended before the place that was asked for."""
        execution = self._executions.read(self._id).execution
        return execution is None or (execution.status.is_terminal and execution.sequence <= self._after)

    def _is_round(self) -> bool:
        now = self._clock()
        if now < self._next_round:
            return False
        self._next_round = now + self.heartbeat_ms
        return True
