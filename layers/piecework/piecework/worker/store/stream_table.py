"""Stream events in the work table: `pk` = STREAM#<task>/<generation>, `sk` = the event's number, each written once.

Attributes: `kind`, `data` (JSON text), `write` (drawn anew for every event, so that a repeated request recognises its
own first try), `expires_at` (s; the table's TTL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from piecework.aws.table import THE_WORK, Table
from piecework.aws.writes import ABSENT, new_write
from piecework.jsons import canonical, loads
from piecework.worker.stream.streams import Event, StreamLog

if TYPE_CHECKING:
    from piecework.aws.table import Client


class StreamTable(StreamLog):
    """Events in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_WORK)

    def append(self, stream: str, event: Event, expires_at: int) -> bool:
        item = {
            "pk": f"STREAM#{stream}",
            "sk": f"{event.seq:09d}",
            "kind": event.kind,
            "data": canonical(dict(event.data)).decode(),
            "write": new_write(),
            "expires_at": expires_at,
        }
        return self._table.put(item, ABSENT).done

    def read(self, stream: str) -> list[Event]:
        rows = self._table.query(f"STREAM#{stream}")
        return [Event(int(row["sk"]), row["kind"], loads(row["data"])) for row in rows]
