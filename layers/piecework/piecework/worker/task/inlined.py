"""Work inside a request: one run that the request waits for, and leaves when it must answer.

The run has ten seconds of the request for itself. After them it hands the attempt over before its next step, so that
nothing is begun twice. A run that comes to no step, and has not ended when the request must be answered, keeps its
lease: it ends or hands over by itself where its process goes on, and is taken over where that was frozen.
"""

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final

from piecework.errors import PieceworkError
from piecework.extend.executors import Log
from piecework.extend.right import HandedOver, Right
from piecework.values import dataclass, field
from piecework.worker.answer.failures import Ended
from piecework.worker.payment.cases import Case
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.work import Made

WORK_MS: Final = 10_000  # of a request's budget
ANSWER_MS: Final = 1_000  # before a request must be answered it leaves a run that goes on


class Without(Enum):
    """Ends of a run that made nothing."""

    HANDED_OVER = "handed_over"


Done = Made | Ended | Without


@dataclass
class InlineRun:
    """One run, which belongs to its request until that leaves it."""

    attempts: Attempts
    case: Case
    right: Right
    until_ms: int
    tell: Callable[[Case], None]
    log: Log
    _done: Done | None = None
    _is_left: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> None:
        """Run; then the end is the request's to record, or the run's own when the request has left."""
        try:
            done: Done = self.attempts.run(self.case, self.until_ms, is_fresh=True, right=self.right)
        except HandedOver:
            done = Without.HANDED_OVER
        with self._lock:
            self._done = done
            if not self._is_left:
                return
        self._end_alone(done)

    def leave(self) -> Done | None:
        """How the run ended; None when it goes on, and has been asked to hand over before its next step."""
        with self._lock:
            if self._done is None:
                self._is_left = True
                self.right.leave()
            return self._done

    def end(self, done: Done, settle_seconds: float | None) -> Case:
        """Record how the run ended. Raises Moved."""
        if isinstance(done, Without):
            return self.attempts.hand_over(self.case)
        return self.attempts.finish(self.case, done, settle_seconds)

    def _end_alone(self, done: Done) -> None:
        try:
            self.tell(self.end(done, None))
        except PieceworkError:  # taken over meanwhile, or a store is out of reach: the record's due time goes on
            self.log.warning("left_run_not_recorded", contract_id=self.case.contract.contract_id)
