"""Records of what operators did: a row for each, with who, why, and what came of it.

The row is written before the act, so that no act is without one, and completed after it. One that is not complete
stands for an act of which nobody knows how far it came.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from piecework.edge.roles import Caller
from piecework.edge.tokens import ANONYMOUS
from piecework.errors import BadRequest, PieceworkError
from piecework.jsons import Json
from piecework.ops.access import READS, WRITES, require
from piecework.ops.listing import AHEAD_MS, DAY_MS, LARGEST_PAGE, PAGE, Place, Row, Rows, page_of
from piecework.ops.query import MOST_MS, number, texts

REASON_CHARACTERS: Final = 500
KEPT_SECONDS: Final = 400 * 86_400  # longer than a year, so that the same month can be compared
LONGEST_LIFE_MS: Final = KEPT_SECONDS * 1000


class Record(NamedTuple):
    """One act of an operator; `outcome` is None while nobody knows what came of it."""

    record_id: str  # hex
    at_ms: int
    by: str
    verb: str
    target: str
    reason: str
    outcome: Json = None


class RecordRows(Rows, Protocol):
    """Keeps records."""

    def put(self, record: Record, expires_at: int) -> None:
        """Write a record that is not there yet."""

    def complete(self, record: Record, outcome: Json) -> None:
        """Say what came of it, once."""

    def find(self, rows: Sequence[Row]) -> Sequence[Record | None]:
        """The records of these rows of the index; None for one that is gone."""


class Records:
    """Does what an operator asks for, and keeps a record of it."""

    def __init__(self, rows: RecordRows, clock: Callable[[], int], new_id: Callable[[], str]) -> None:
        self._rows, self._clock, self._new_id = rows, clock, new_id

    def done(
        self, caller: Caller, verb: str, target: str, body: Mapping[str, Json], act: Callable[[], dict[str, Json]]
    ) -> dict[str, Json]:
        """As `noted`, for an act that does not need its record."""
        return self.noted(caller, verb, target, body, lambda _: act())

    def noted(
        self, caller: Caller, verb: str, target: str, body: Mapping[str, Json], act: Callable[[Record], dict[str, Json]]
    ) -> dict[str, Json]:
        """What `act` made of it, under the record's id.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the body has no reason; nothing was done.
            PieceworkError: the failure of `act`. The record has it too if it is final; what a repeat may mend may have
                happened all the same, so such a record stays without an outcome.
        """
        require(caller, WRITES)
        reason = reason_in(body)
        record = Record(self._new_id(), self._clock(), caller.name or ANONYMOUS, verb, target, reason)
        self._rows.put(record, record.at_ms // 1000 + KEPT_SECONDS)
        try:
            outcome = act(record)
        except PieceworkError as error:
            if not error.retryable:
                self._rows.complete(record, {"failed": error.code})
            raise
        self._rows.complete(record, outcome)
        return {"record_id": record.record_id, **outcome}

    def page(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A page of records, the newest first.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: a parameter has no meaning.
        """
        require(caller, READS)
        asked = texts(query, "since_ms", "until_ms", "limit", "cursor")
        now_ms = self._clock()
        until_ms = min(number(asked, "until_ms", MOST_MS, MOST_MS), now_ms + AHEAD_MS)
        since_ms = max(number(asked, "since_ms", now_ms - 30 * DAY_MS, MOST_MS), now_ms - LONGEST_LIFE_MS)
        size = number(asked, "limit", PAGE, LARGEST_PAGE, least=1)

        def look(rows: Sequence[Row]) -> list[Json | None]:
            return [record._asdict() if record else None for record in self._rows.find(rows)]

        return page_of(self._rows, Place.of(asked.get("cursor", ""), until_ms), since_ms, size, look).to_json()


def reason_in(body: Mapping[str, Json]) -> str:
    """The reason of an act. Raises BadRequest unless it is a text that says something."""
    reason = body.get("reason")
    if not isinstance(reason, str) or not reason.strip() or len(reason) > REASON_CHARACTERS:
        raise BadRequest(f"reason must be a text of 1 to {REASON_CHARACTERS} characters: why you do this")
    return reason.encode("utf-8", "replace").decode("utf-8").strip()
