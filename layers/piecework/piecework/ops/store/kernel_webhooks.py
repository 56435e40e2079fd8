"""Webhooks about approvals in the kernel's table: all by time, through the index ByAge, and those of one execution."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, Table
from piecework.clock import now_in_ms
from piecework.errors import BadRequest
from piecework.jsons import loads
from piecework.kernel.store.keys import BY_AGE
from piecework.ops.hooks import HookHead, HookPage, HookRows
from piecework.webhooks.store import LISTED, STOP, is_kept, tries_of

if TYPE_CHECKING:
    from piecework.aws.table import Client

HEAD: Final = "pk, sk, #name, #body, #state, attempt, tries, created_id, expires_at"


class KernelHookRowsTable(HookRows):
    """Webhooks in DynamoDB; the index is eventually consistent, the rows that it names are read as they are."""

    def __init__(self, client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._table, self._clock = Table(client, table, THE_KERNEL), clock

    def newest(self, before: str, limit: int) -> HookPage:
        listed = self._table.query(LISTED, before=before, page=limit, newest_first=True, index=BY_AGE)
        places = {(row["pk"], row["sk"]): row["created_id"] for row in islice(listed, limit)}
        found = self._table.find(list(places), only=HEAD)
        now_ms = self._clock()
        heads = [_head(found[key]) for key in places if key in found and is_kept(found[key], now_ms)]
        return HookPage(heads, list(places.values())[-1] if len(places) == limit else "")

    def of_execution(self, execution_id: str, after: str, limit: int) -> HookPage:
        rows = self._table.query(f"WEBHOOK#{execution_id}", after=after, page=limit + 2, only=HEAD)
        now_ms = self._clock()
        kept = (row for row in rows if row["sk"] != STOP and is_kept(row, now_ms))
        heads = [_head(row) for row in islice(kept, limit + 1)]
        return HookPage(heads[:limit], heads[limit - 1].event_id if len(heads) > limit else "")


def _head(row: Item) -> HookHead:
    told, key = _told(row["body"]), row.get("created_id", "")
    return HookHead(
        execution_id=row["pk"].partition("#")[2],
        event_id=row["sk"],
        name=row.get("name", ""),
        notice=str(told.get("notice", "")),
        step_id=str(told.get("step_id", "")),
        at_ms=int(key.partition("#")[0]) if key else None,
        state=row["state"],
        attempt=row["attempt"],
        tries=tries_of(row),
        key=key,
    )


def _told(body: bytes) -> dict[str, Any]:
    try:
        told = loads(body)
    except BadRequest:
        return {}
    return told if isinstance(told, dict) else {}
