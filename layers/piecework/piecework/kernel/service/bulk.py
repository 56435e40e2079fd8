"""Cancelling many executions at once: counted first, then done in bounded parts with that count confirmed.

Lists are eventually consistent, so a count may lag behind for about a second; each execution is cancelled by its own
conditional command, which one that has ended meanwhile refuses.

| crash after | what a repeat sees |
|---|---|
| some of a part were cancelled | they have left the list, so the count is another: 409 with the new one |
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from piecework.jsons import Json
from piecework.kernel.errors import CountChanged, ExecutionTerminal, NotFound
from piecework.kernel.model.ports.executions import Filter, Summary
from piecework.kernel.model.state import Status
from piecework.kernel.wire.cursors import cursor_at, cursor_of, place_of

OPEN: Final = (Status.PENDING, Status.RUNNING, Status.BLOCKED)
COUNTED: Final = 1_000  # executions at most that one request finds
LOOKED_AT: Final = 3_000  # open executions at most that one request reads
AT_ONCE: Final = 100  # executions at most that one request cancels
BUDGET_MS: Final = 15_000  # then it stops cancelling: the edge gives up at 29 s
PAGE: Final = 500
BETWEEN: Final = "."  # the two places of a cursor

Page = tuple[list[Summary], str]


class Found(NamedTuple):
    """The executions that a request is about, newest first, and where a further one goes on; empty at the end."""

    ids: list[str]
    next_cursor: str


class Bulk:
    """Cancels open executions that a filter names."""

    def __init__(
        self,
        page: Callable[[Filter, str, int], Page],
        cancel: Callable[[str, str], None],  # an execution's id, and who asks for it
        clock: Callable[[], int],
    ) -> None:
        self._page, self._cancel, self._clock = page, cancel, clock

    def cancel(self, which: Filter, cursor: str, confirmed: int | None, by: str) -> dict[str, Json]:
        """What would be cancelled; with its count confirmed, some of it is.

        `cursor` is where the count begins, in the order of lists: executions that were created later do not change it.
        The answer has the end beside it where there may be more: nothing from behind comes up for what has ended.

        Raises:
            Invalid: this door did not give the cursor out.
            CountChanged: another number was confirmed.
        """
        begins, (first, _, end) = self._clock(), cursor.partition(BETWEEN)
        first = first or cursor_at(begins)
        found = self._find(which, first, end)
        more, behind = bool(found.next_cursor), BETWEEN + found.next_cursor if found.next_cursor else ""
        place: dict[str, Json] = {"cursor": first + behind, "next_cursor": found.next_cursor, "more": more}
        if confirmed is None:
            return {"count": len(found.ids), **place}
        if confirmed != len(found.ids):
            raise CountChanged({"count": len(found.ids), **place})
        cancelled = gone = 0
        for execution_id in found.ids[:AT_ONCE]:
            if self._clock() - begins > BUDGET_MS:
                break
            try:
                self._cancel(execution_id, by)
                cancelled += 1
            except (ExecutionTerminal, NotFound):
                gone += 1
        return {"cancelled": cancelled, "remaining": len(found.ids) - cancelled - gone, **place}

    def _find(self, which: Filter, cursor: str, end: str) -> Found:
        """One that has changed its status meanwhile may be read twice; it counts once."""
        until = place_of(end)
        statuses = (which.status,) if which.status else OPEN
        rows = heapq.merge(*(self._rows(status, cursor) for status in statuses), key=_place, reverse=True)
        ids, last = dict[str, None](), None
        for number, row in enumerate(rows):
            if until and _place(row) < until:
                return Found(list(ids), end)
            if last and (number >= LOOKED_AT or len(ids) >= COUNTED):
                return Found(list(ids), cursor_of(last))
            if which.agent_id in ("", row.agent_id) and which.labels.items() <= row.labels.items():
                ids[row.id] = None
            last = row
        return Found(list(ids), end)

    def _rows(self, status: Status, cursor: str) -> Iterator[Summary]:
        """The executions of a status after that place; by status alone, so that what is read is what is bounded."""
        while cursor:
            page, cursor = self._page(Filter(status), cursor, PAGE)
            yield from page


def _place(row: Summary) -> tuple[int, str]:
    return row.created_at_ms, row.id
