"""Lists of what people are asked and were asked, each in a partition of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import Table
from piecework.aws.writes import Key
from piecework.jsons import Json
from piecework.kernel.model.ports.executions import Approval, ApprovalPage
from piecework.kernel.store import keys
from piecework.kernel.store.items import approval_from, decided_from, question_from
from piecework.values import replace

LOOKS: Final = 5  # pages of answers read for one; those of forgotten executions are the oldest, and go by their TTL


class KernelLists:
    """Reads the lists."""

    def __init__(self, table: Table, value: Callable[[Item], Json]) -> None:
        self._table, self._value = table, value

    def approvals(self, limit: int, after: str) -> list[Approval]:
        """The approval that has waited longest comes first."""
        rows = islice(self._table.query(keys.APPROVALS, after=after, page=limit), limit)
        found = [approval_from(row) for row in rows]
        beside = self._table.find([keys.asked(one.execution_id, one.step_id) for one in found])
        return [_told(one, beside) for one in found]

    def answered(self, limit: int, before: str) -> ApprovalPage:
        """The latest answer comes first; one that is gone with its execution is passed over, within bounds."""
        rows = self._table.query(keys.ANSWERED, before=before, page=limit + 1, newest_first=True)
        found, then = list[Approval](), before
        for _ in range(LOOKS):
            listed = [replace(approval_from(row), waits=False) for row in islice(rows, limit + 1)]
            places = [place(one.execution_id, one.step_id) for one in listed for place in (keys.asked, keys.decided)]
            beside = self._table.find(places)
            found += [one for one in (self._decided(_told(one, beside), beside) for one in listed) if one.decided]
            if len(found) > limit:
                return ApprovalPage(found[:limit], found[limit - 1].key)
            if len(listed) <= limit:
                return ApprovalPage(found, "")
            then = listed[-1].key
        return ApprovalPage(found, then)

    def _decided(self, approval: Approval, beside: Mapping[Key, Item]) -> Approval:
        row = beside.get(keys.decided(approval.execution_id, approval.step_id))
        return replace(approval, decided=decided_from(self._value(row))) if row else approval


def _told(approval: Approval, beside: Mapping[Key, Item]) -> Approval:
    """An approval with what its person is told."""
    row = beside.get(keys.asked(approval.execution_id, approval.step_id))
    return replace(approval, question=question_from(row))
