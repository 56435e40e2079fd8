"""Doubts in the table of due times, and in the kernel table what waits for a person and which agents are paused."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_KERNEL, THE_WORK, Table
from piecework.durable.due import Due, due_at, partitions
from piecework.durable.pauses import Pause
from piecework.jsons import loads
from piecework.ops.standing import AGENTS_SHOWN, Oldest, Unknowable
from piecework.worker.record.execution import DOUBT_DUE
from piecework.worker.record.states import State

if TYPE_CHECKING:
    from piecework.aws.table import Client

DOUBTS_READ: Final = 10  # of each of the 8 partitions
APPROVALS: Final = "APPROVALS"  # partitions of the kernel table
PAUSED: Final = "PAUSED"


class DoubtRows:
    """Doubts of payments: rows by their time, each looked at in its record, as earlier code leaves rows behind."""

    def __init__(self, client: Client, work: str, due: str) -> None:
        self._work, self._due = Table(client, work, THE_WORK), Table(client, due, "the due-time table")

    def oldest(self) -> Oldest | None:
        """The doubt that has lasted longest; nine requests at most.

        Raises:
            Unknowable: there are so many rows without a doubt that an older one may stand behind them.
        """
        found = [self._some(partition) for partition in partitions(DOUBT_DUE)]
        open_ = self._open([due.id for dues in found for due in dues])
        lasting = [[due for due in dues if due.id in open_] for dues in found]
        if any(len(dues) == DOUBTS_READ and not last for dues, last in zip(found, lasting, strict=True)):
            raise Unknowable
        first = min((due for dues in lasting for due in dues), default=None)
        return Oldest(first.at_ms, first.id) if first else None

    def _some(self, partition: str) -> list[Due]:
        rows = islice(self._due.query(partition, page=DOUBTS_READ), DOUBTS_READ)
        return [due for row in rows if (due := due_at(row["pk"], row["sk"]))]

    def _open(self, contract_ids: list[str]) -> set[str]:
        if not contract_ids:
            return set()
        rows = self._work.find([(f"EXEC#{one}", "EXEC") for one in contract_ids], only="pk, sk, #state")
        return {pk.partition("#")[2] for (pk, _), row in rows.items() if row["state"] == State.UNKNOWN}


class KernelRows:
    """Rows of the kernel table that lists of all executions and agents lie in."""

    def __init__(self, client: Client, kernel: str) -> None:
        self._table = Table(client, kernel, THE_KERNEL)

    def oldest_approval(self) -> Oldest | None:
        """The execution that has waited for a person longest; one request."""
        for row in islice(self._table.query(APPROVALS, page=1), 1):
            since_ms, _, _ = str(row["sk"]).partition("#")
            return Oldest(int(since_ms), str(loads(row["approval"])["execution_id"]))
        return None

    def paused_agents(self) -> list[Pause]:
        """Some agents that are paused, by their ids; one request."""
        most = AGENTS_SHOWN + 1
        rows = islice(self._table.query(PAUSED, page=most), most)
        return [Pause(f"agent:{row['agent']}", row["at"], row["by"], row["reason"]) for row in rows]
