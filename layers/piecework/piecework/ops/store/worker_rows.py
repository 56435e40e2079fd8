"""Contracts, records, moves of money, webhooks and the ledger in the worker's tables, through their indexes `ByDay`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from piecework.aws.attributes import Item
from piecework.aws.listed import BY_DAY, DAY_MS, SHARDS
from piecework.aws.table import THE_WORK, Index, Table
from piecework.aws.writes import Key
from piecework.clock import now_in_ms
from piecework.jsons import loads
from piecework.jsons.stored import known
from piecework.ops.listing import Row, Rows
from piecework.ops.tasks import ContractHead, DeliveryHead, WorkerRows
from piecework.webhooks.store import is_kept, tries_of
from piecework.worker.record.debts import REFUND_DUE, Debt, DebtKey, Refund
from piecework.worker.record.execution import Execution
from piecework.worker.record.moves import MoneyMove
from piecework.worker.store.debts_table import REFUNDED, debt_of, refund_in, refund_key
from piecework.worker.store.executions_table import from_item, ledger_key, month_of, received_on

if TYPE_CHECKING:
    from piecework.aws.table import Client

INDEX: Final = Index(BY_DAY, "in_day", "at_id")
HEAD: Final = "pk, stored_at, expires_at, #source, #hash"
DELIVERY: Final = "pk, sk, #url, #state, attempt, tries, expires_at"
STOP: Final = "STOP"  # the row of a contract whose seeker wants no more webhooks


class IndexRows(Rows):
    """The index of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def rows(self, day: int, shard: str, before: str, limit: int) -> list[Row]:
        found = self._table.query(f"{day}#{shard}", before=before, page=limit, newest_first=True, index=INDEX)
        return list(islice(found, limit))


class WorkerRowsTable(WorkerRows):
    """The worker's rows in DynamoDB; the indexes are eventually consistent."""

    def __init__(self, client: Client, work: str, contracts: str, *, clock: Callable[[], int] = now_in_ms) -> None:
        self._work, self._contracts = Table(client, work, THE_WORK), Table(client, contracts, "the contracts table")
        self._clock = clock

    @property
    def tasks(self) -> Rows:
        return IndexRows(self._work)

    @property
    def contracts(self) -> Rows:
        return IndexRows(self._contracts)

    def executions(self, contract_ids: Sequence[str]) -> Mapping[str, Execution]:
        rows = self._work.find([(f"EXEC#{one}", "EXEC") for one in contract_ids])
        found = map(from_item, rows.values())
        return {one.contract_id: one for one in found}

    def heads(self, contract_ids: Sequence[str]) -> Mapping[str, ContractHead]:
        rows = self._contracts.find([(one,) for one in contract_ids], only=HEAD).values()
        heads = (ContractHead(r["pk"], r["stored_at"], r["expires_at"], r["source"], r["hash"]) for r in rows)
        return {head.contract_id: head for head in heads}

    def moves(self, contract_id: str, limit: int) -> list[MoneyMove]:
        partition = f"EXEC#{contract_id}"
        found = self._work.query(partition, after="MONEY#", before="MONEY#~", page=limit, newest_first=True)
        return [_move(row) for row in islice(found, limit)]

    def deliveries(self, contract_id: str, limit: int) -> list[DeliveryHead]:
        found, now_ms = self._work.query(f"WEBHOOK#{contract_id}", page=limit + 1, only=DELIVERY), self._clock()
        rows = (row for row in found if row["sk"] != STOP and is_kept(row, now_ms))
        return [_delivery(row) for row in islice(rows, limit)]

    def owed(self, day: int, limit: int) -> list[Debt]:
        first = day * DAY_MS
        found = self._ledger(day, f"{first:015d}", f"{first + DAY_MS:015d}", limit)
        debts = [debt_of(row) for row in found]
        said = self._work.find([refund_key(debt.key) for debt in debts if debt.is_owed])
        return [_as_said(debt, said) for debt in debts]

    def refunds(self, day: int, limit: int) -> list[Refund]:
        first = day * DAY_MS
        found = self._ledger(day, f"{REFUNDED}{first:015d}", f"{REFUNDED}{first + DAY_MS:015d}", limit)
        return [known(Refund, loads(row["row"])) for row in found]

    def debts(self, keys: Sequence[DebtKey]) -> list[Debt]:
        places = [ledger_key(REFUND_DUE, key) for key in keys]
        found = self._work.find([*places, *map(refund_key, keys)])
        return [_as_said(debt_of(found[place]), found) for place in places if place in found]

    def _ledger(self, day: int, after: str, before: str, limit: int) -> Iterator[Item]:
        found = self._work.query(month_of(day * DAY_MS), after=after, before=before, page=limit, consistent=False)
        return islice(found, limit)

    def received(self, day: int, limit: int) -> list[MoneyMove]:
        keys = [(row["pk"], row["sk"]) for row in islice(self._received(day, limit), limit)]
        moves = map(_move, self._work.find(keys).values())
        return sorted(moves, key=lambda move: (move.at_ms, move.contract_id))

    def _received(self, day: int, limit: int) -> Iterator[Item]:
        for shard in SHARDS:
            yield from islice(self._work.query(received_on(f"{day}#{shard}"), page=limit, index=INDEX), limit)


def _as_said(debt: Debt, said: Mapping[Key, Item]) -> Debt:
    """A debt with the row that says that it was paid back, where its own does not."""
    return debt.with_refund(refund_in(said.get(refund_key(debt.key)))) if debt.is_owed else debt


def _delivery(row: Item) -> DeliveryHead:
    return DeliveryHead(row["sk"], urlsplit(row["url"]).hostname or "", row["state"], row["attempt"], tries_of(row))


def _move(row: Item) -> MoneyMove:
    stored = loads(row["row"])
    return known(MoneyMove, {**stored, "hashes": tuple(stored["hashes"])})
