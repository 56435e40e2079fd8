"""Records of operators in the results table: `pk` = OPS#<id>, `record` and `outcome` (JSON), the keys of `ByDay`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from piecework.aws.listed import BY_DAY, keys_of
from piecework.aws.table import THE_RESULTS, Index, Table
from piecework.aws.writes import ABSENT
from piecework.jsons import Json, canonical, loads
from piecework.jsons.stored import known
from piecework.ops.listing import Row
from piecework.ops.records import Record, RecordRows

if TYPE_CHECKING:
    from piecework.aws.table import Client

INDEX: Final = Index(BY_DAY, "in_day", "at_id")
NOT_COMPLETE: Final = "attribute_exists(pk) AND attribute_not_exists(outcome)"


class RecordRowsTable(RecordRows):
    """Records in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_RESULTS)

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Row]:
        found = self._table.query(f"OPS#{day}#{shard}", before=before, page=limit, newest_first=True, index=INDEX)
        return list(islice(found, limit))

    def put(self, record: Record, expires_at: int) -> None:
        listed = keys_of(record.record_id, record.at_ms)
        row = {"pk": _pk(record.record_id), **listed, "in_day": f"OPS#{listed['in_day']}", "expires_at": expires_at}
        text = canonical({name: value for name, value in record._asdict().items() if name != "outcome"}).decode()
        if not self._table.put({**row, "record": text}, ABSENT, ours={"record": text}).done:
            raise self._table.changed()

    def complete(self, record: Record, outcome: Json) -> None:
        text = canonical(outcome).decode()
        update, ours = "SET outcome = :outcome", {"outcome": text}
        self._table.update((_pk(record.record_id),), update, {"outcome": text}, NOT_COMPLETE, ours=ours)

    def find(self, rows: Sequence[Row]) -> Sequence[Record | None]:
        found = self._table.find([(row["pk"],) for row in rows])
        standing = [found.get((row["pk"],)) for row in rows]
        return [_record(row) if row else None for row in standing]


def _pk(record_id: str) -> str:
    return f"OPS#{record_id}"


def _record(row: Row) -> Record:
    outcome = loads(row["outcome"]) if "outcome" in row else None
    return known(Record, {**loads(row["record"]), "outcome": outcome})
