"""Records of hired tasks for the operator's door; rows of the worker in memory, and stores that write them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from piecework.aws.listed import SHARDS, keys_of
from piecework.clock import DAY_MS
from piecework.ops.tasks import ContractHead, DeliveryHead, WorkerRows
from piecework.worker.contract.contracts import KEPT_MS, ContractRecord
from piecework.worker.record.debts import REFUND_DUE, Debt, DebtKey, Refund
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.moves import RECEIVED, REFUNDED, RELEASED, MoneyMove
from piecework.worker.record.states import State
from piecework.worker.store.executions_table import index_key
from tests.support.fakes import START_MS
from tests.support.ops.rows import FakePieceRows
from tests.support.worker.door_fakes import FakeExecutions
from tests.support.worker.fakes import FakeContracts
from tests.support.worker.hooks import FakeDeliveries
from tests.support.worker.records import a_record

DOCUMENT = '{"x402Version":2,"payload":{"authorization":{"value":"1500"}}}'


def a_task(contract_id: str = "ctr_1", **members: Any) -> Execution:
    """A task that is being worked on."""
    given = {
        "contract_id": contract_id,
        "task_id": "task_secret",
        "state": State.EXECUTING,
        "version": 1,
        "generation": 1,
        "attempt": 1,
        "attempts": 3,
        "body_digest": "d" * 64,
        "executor": "echo",
        "created_at_ms": START_MS,
        "ends_at_ms": START_MS + DAY_MS,
        "input": {"text": '{"brief":"private"}'},
        "claim_key": f"8453/0xasset/0xfrom/0x{contract_id}",
        "payer": "0xfrom",
        "valid_before": START_MS // 1000 + 900,
        "payment": DOCUMENT,
        "due_ms": START_MS + 60_000,
    }
    return a_record(**{**given, **members})


class KeptMove(NamedTuple):
    """A move as its row has it: by which money came, which stays, or one that goes at `expires_at` (s)."""

    move: MoneyMove
    expires_at: int | None


@dataclass
class FakeWorkerRows(WorkerRows):
    """Rows by their keys, as the worker's tables have them."""

    index: FakePieceRows = field(default_factory=FakePieceRows)  # of tasks
    of_contracts: FakePieceRows = field(default_factory=FakePieceRows)
    records: dict[str, Execution] = field(default_factory=dict)
    signed: dict[str, ContractHead] = field(default_factory=dict)
    money: dict[str, dict[str, KeptMove]] = field(default_factory=dict)  # by contract and place
    ledger: dict[tuple[str, str], LedgerRow] = field(default_factory=dict)  # by month and place
    paid_back: dict[DebtKey, Refund] = field(default_factory=dict)
    hooks: FakeDeliveries = field(default_factory=FakeDeliveries)
    read_records: int = 0

    @property
    def tasks(self) -> FakePieceRows:
        return self.index

    @property
    def contracts(self) -> FakePieceRows:
        return self.of_contracts

    def add(self, task: Execution) -> None:
        self.records[task.contract_id] = task
        _list(self.index, f"EXEC#{task.contract_id}", task.contract_id, task.created_at_ms)

    def sign(self, head: ContractHead) -> None:
        self.signed[head.contract_id] = head
        _list(self.of_contracts, head.contract_id, head.contract_id, head.stored_at_ms)

    def keep(self, *moves: MoneyMove, expires_at: int = START_MS) -> None:
        """Write moves; those whose payment says that money came are taken for the ones by which it came."""
        for move in moves:
            stays = move.payment in {*RECEIVED, REFUNDED, RELEASED}
            place = f"{move.version:08d}#{move.at_ms}" if move.payment not in (RELEASED, REFUNDED) else _last(move)
            self.money.setdefault(move.contract_id, {})[place] = KeptMove(move, None if stays else expires_at)

    def owe(self, *rows: LedgerRow) -> None:
        for row in rows:
            month = datetime.fromtimestamp(row.at_ms // 1000, UTC).strftime("%Y-%m")
            place = f"{row.at_ms:015d}#{row.contract_id}#{row.generation}#{row.kind}#{row.transaction}"
            self.ledger.setdefault((month, place), row)

    def sweep(self, now_s: int) -> None:
        """Remove what has outlived its time."""
        for name, task in list(self.records.items()):
            if task.expires_at < now_s:
                del self.records[name]
                _unlist(self.index, f"EXEC#{name}", index_key(name)[0])
        for name, kept in self.money.items():
            stay = {place: one for place, one in kept.items() if one.expires_at is None or one.expires_at >= now_s}
            self.money[name] = stay

    def executions(self, contract_ids: Sequence[str]) -> Mapping[str, Execution]:
        self.read_records += len(set(contract_ids))
        return {one: self.records[one] for one in contract_ids if one in self.records}

    def heads(self, contract_ids: Sequence[str]) -> Mapping[str, ContractHead]:
        return {one: self.signed[one] for one in contract_ids if one in self.signed}

    def moves(self, contract_id: str, limit: int) -> list[MoneyMove]:
        kept = self.money.get(contract_id, {})
        return [kept[place].move for place in sorted(kept, reverse=True)][:limit]

    def deliveries(self, contract_id: str, limit: int) -> list[DeliveryHead]:
        kept = self.hooks.kept
        found = (kept[owner, event] for owner, event in sorted(kept) if owner == contract_id)
        heads = (DeliveryHead(d.event_id, _host(d.url), str(d.state), d.attempt, d.tries) for d in found)
        return list(islice(heads, limit))

    def owed(self, day: int, limit: int) -> list[Debt]:
        """Of the day's own month, in the order of their places."""
        month = datetime.fromtimestamp(day * DAY_MS // 1000, UTC).strftime("%Y-%m")
        places = sorted(place for of, place in self.ledger if of == month)
        found = (self.ledger[month, place] for place in places)
        return [self._debt(row) for row in found if row.at_ms // DAY_MS == day][:limit]

    def refunds(self, day: int, limit: int) -> list[Refund]:
        every = sorted(self.paid_back.values(), key=lambda one: (one.at_ms, one.contract_id, str(one.generation)))
        return [one for one in every if one.at_ms // DAY_MS == day][:limit]

    def debts(self, keys: Sequence[DebtKey]) -> list[Debt]:
        every = [self._debt(row) for row in self.ledger.values() if row.kind == REFUND_DUE]
        found = {debt.key: debt for debt in every}
        return [found[key] for key in keys if key in found]

    def _debt(self, row: LedgerRow) -> Debt:
        return Debt(row, self.paid_back.get(Debt(row).key) if row.kind == REFUND_DUE else None)

    def received(self, day: int, limit: int) -> list[MoneyMove]:
        """Of each partition so many, then so many of them all."""
        stay = [one.move for kept in self.money.values() for one in kept.values() if one.expires_at is None]
        every = [move for move in stay if move.payment != REFUNDED]
        by_shard: dict[str, list[tuple[str, MoneyMove]]] = {}
        for move in every:
            keys = keys_of(index_key(move.contract_id), move.at_ms)
            by_shard.setdefault(keys["in_day"], []).append((keys["at_id"], move))
        found: list[MoneyMove] = []
        for shard in SHARDS:
            standing = sorted(by_shard.get(f"{day}#{shard}", ()), key=lambda one: one[0])
            found += [move for _, move in standing[:limit]]
        return sorted(found[:limit], key=lambda move: (move.at_ms, move.contract_id))


class KeptExecutions(FakeExecutions):
    """Executions in memory, which leave the rows that the worker's table has."""

    def __init__(self, rows: FakeWorkerRows, clock: Callable[[], int]) -> None:
        super().__init__()
        self._rows, self._clock = rows, clock
        self.items = rows.records

    def claim(self, before: Execution | None, after: Execution) -> None:
        super().claim(before, after)
        self._keep(before, after)

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        super().move(before, after, ledger=ledger, webhook_at_ms=webhook_at_ms)
        self._keep(before, after)
        self._rows.owe(*ledger)

    def replace(self, before: Execution, after: Execution) -> None:
        """A version that no move made; what it did to the money is written beside it."""
        with self.lock:
            self._check(before, after)
            self._put(before, after)
            self._rows.add(after)

    def add_debt(self, row: LedgerRow, claim_key: str) -> None:
        before = len(self.rows)
        super().add_debt(row, claim_key)
        for added in self.rows[before:]:
            self._rows.owe(added)
            self._rows.keep(MoneyMove.of_released(added))

    def _keep(self, before: Execution | None, after: Execution) -> None:
        self._rows.add(after)
        if move := MoneyMove.between(before, after, self._clock()):
            came = move.is_receipt_after(before)
            place = f"{move.version:08d}#{move.at_ms}"
            self._rows.money.setdefault(after.contract_id, {})[place] = KeptMove(
                move, None if came else after.expires_at
            )


class ListedContracts(FakeContracts):
    """Contracts in memory, which leave their rows in the list."""

    def __init__(self, rows: FakeWorkerRows, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._rows = rows

    def put(self, record: ContractRecord) -> Any:
        done = super().put(record)
        if done == "new":
            ends = (record.deadline_ms + KEPT_MS) // 1000
            self._rows.sign(ContractHead(record.contract_id, record.stored_at_ms, ends, record.source, record.hash))
        return done


def _list(index: FakePieceRows, pk: str, contract_id: str, at_ms: int) -> None:
    """Put a row where it stands now; one key has one row, and keys move within their own shard alone."""
    row = keys_of(index_key(contract_id), at_ms) | {"pk": pk}
    _unlist(index, pk, row["in_day"].partition("#")[2])
    index.index.setdefault(row["in_day"], []).append(row)


def _unlist(index: FakePieceRows, pk: str, shard: str) -> None:
    for in_day, partition in index.index.items():
        if in_day.endswith(f"#{shard}"):
            partition[:] = [row for row in partition if row["pk"] != pk]


def _last(move: MoneyMove) -> str:
    """Behind every version."""
    return f"{'9' * 8}#{move.at_ms}#{move.transaction}"


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
