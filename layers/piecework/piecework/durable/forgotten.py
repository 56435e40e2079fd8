"""The note in place of what was forgotten on request: who asked for it, when, and under which record is the reason."""

from piecework.jsons import Json, canonical, loads
from piecework.jsons.stored import known, record_of
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Who had it forgotten; times in epoch milliseconds."""

    at_ms: int
    by: str
    record_id: str  # of the operators' records, which has the reason
    complete: bool = False  # False while payloads may be left that a repeat erases
    was: str = ""  # a piece's state before
    ended_at_ms: int = 0  # when a task ended, 0 for one that never began

    def to_json(self) -> dict[str, Json]:
        """What operators see of it."""
        return {"at_ms": self.at_ms, "by": self.by, "record_id": self.record_id, "complete": self.complete}


def text_of(note: Forgotten) -> str:
    """The note as rows keep it."""
    return canonical(record_of(note)).decode()


def note_in(text: str) -> Forgotten:
    """The note that a row keeps, of this version or a later one."""
    return known(Forgotten, loads(text))
