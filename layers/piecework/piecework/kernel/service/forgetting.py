"""Forgetting an execution on request: what it was about goes, and a note stays of who asked for that, when and why.

| crash after | what is left, and what a repeat does |
|---|---|
| the note | GET shows no input and no output; the log still has bodies. A repeat erases them |
| some rows were erased | the same; erasing begins anew, and passes over what is done |
| all were erased | only the note says `complete: false`; a repeat finds nothing more, and corrects it |

Without a repeat the rest goes with the retention, as everything of an execution does.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from piecework.kernel.errors import Conflict, ServiceUnavailable
from piecework.kernel.model.ports.executions import Details, Executions, VersionConflict
from piecework.kernel.model.state import Forgotten
from piecework.values import replace

BUDGET_MS: Final = 15_000  # then it stops erasing: the edge gives up at 29 s
TRIES: Final = 5  # few write to what has ended
REASON: Final = 500  # characters


class Forgetting:
    """Forgets executions that have ended."""

    def __init__(self, executions: Executions, view: Callable[[str], Details], clock: Callable[[], int]) -> None:
        self._executions, self._view, self._clock = executions, view, clock

    def forget(self, execution_id: str, reason: str, by: str) -> None:
        """Note it, and erase; what is left after `BUDGET_MS` a repeat erases. Who asked first stays in the note.

        Raises:
            NotFound: no such execution.
            Conflict: it has not ended.
            ServiceUnavailable: too many write to it.
        """
        until = self._clock() + BUDGET_MS
        for _ in range(TRIES):
            view = self._view(execution_id)
            execution, forgotten = view.execution, view.execution.forgotten
            if not execution.status.is_terminal:
                raise Conflict("the execution has not ended; cancel it first, or wait for its end")
            if forgotten and forgotten.complete:
                return
            with suppress(VersionConflict):
                if forgotten is None:
                    note = Forgotten(self._clock(), by, reason, view.again_of)
                    self._executions.note_forgotten(execution, note)
                    continue
                if self._executions.erase(execution_id, lambda: self._clock() < until):
                    self._executions.note_forgotten(execution, replace(forgotten, complete=True))
                return
        raise ServiceUnavailable("too many writers on this execution; try again")
