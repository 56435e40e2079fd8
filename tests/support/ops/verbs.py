"""Records and dead letters in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.listed import keys_of
from piecework.errors import NotFound, PieceworkError, Unavailable
from piecework.jsons import Json
from piecework.ops.records import Record, RecordRows
from piecework.ops.verbs import Hooks, Letter, Letters


@dataclass
class FakeRecordRows(RecordRows):
    """Records in a dictionary."""

    kept: dict[str, Record] = field(default_factory=dict)
    expires: dict[str, int] = field(default_factory=dict)

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Mapping[str, Any]]:
        every = [keys_of(one.record_id, one.at_ms) | {"pk": one.record_id} for one in self.kept.values()]
        found = [row for row in every if row["in_day"] == f"{day}#{shard}" and (not before or row["at_id"] < before)]
        return sorted(found, key=lambda row: row["at_id"], reverse=True)[:limit]

    def put(self, record: Record, expires_at: int) -> None:
        if record.record_id in self.kept:
            raise Unavailable("the results table changed under this request; try again")
        self.kept[record.record_id], self.expires[record.record_id] = record, expires_at

    def complete(self, record: Record, outcome: Json) -> None:
        standing = self.kept.get(record.record_id)
        if standing and standing.outcome is None:
            self.kept[record.record_id] = standing._replace(outcome=outcome)

    def find(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Record | None]:
        return [self.kept.get(row["pk"].removeprefix("OPS#")) for row in rows]


@dataclass
class FakeLetters(Letters):
    """Dead letters in a list; those named in `stuck` cannot be put back."""

    letters: list[Letter] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)
    put: list[str] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def take(self, most: int, *, hidden_seconds: int) -> list[Letter]:
        self.asked.append((most, hidden_seconds))
        return self.letters[:most]

    def put_back(self, letter: Letter) -> None:
        if letter.message_id in self.stuck:
            raise Unavailable("the queue is out of reach; try again")
        self.put.append(letter.message_id)


@dataclass
class FakeHooks(Hooks):
    """Webhooks by whose they are, and their event."""

    states: dict[tuple[str, str], str] = field(default_factory=dict)
    failure: PieceworkError | None = None

    def resend(self, owner_id: str, event_id: str) -> str:
        if self.failure:
            raise self.failure
        if (owner_id, event_id) not in self.states:
            raise NotFound("this webhook is not kept")
        return self.states[owner_id, event_id]
