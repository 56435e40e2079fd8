"""Records of hired tasks for the operator's door, and rows of the worker in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.listed import keys_of
from piecework.clock import DAY_MS
from piecework.ops.tasks import ContractHead, DeliveryHead, WorkerRows
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.moves import MoneyMove
from piecework.worker.record.states import State
from piecework.worker.store.executions_table import index_key
from tests.support.fakes import START_MS
from tests.support.ops.rows import FakePieceRows
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


@dataclass
class FakeWorkerRows(WorkerRows):
    """Rows in dictionaries."""

    index: FakePieceRows = field(default_factory=FakePieceRows)
    records: dict[str, Execution] = field(default_factory=dict)
    signed: dict[str, ContractHead] = field(default_factory=dict)
    of_money: dict[str, list[MoneyMove]] = field(default_factory=dict)
    sent: dict[str, list[DeliveryHead]] = field(default_factory=dict)
    debts: list[LedgerRow] = field(default_factory=list)
    read_records: int = 0

    @property
    def tasks(self) -> FakePieceRows:
        return self.index

    @property
    def contracts(self) -> FakePieceRows:
        return self.index

    def add(self, task: Execution) -> None:
        self.records[task.contract_id] = task
        self._list(f"EXEC#{task.contract_id}", task.contract_id, task.created_at_ms)

    def sign(self, head: ContractHead) -> None:
        self.signed[head.contract_id] = head
        self._list(head.contract_id, head.contract_id, head.stored_at_ms)

    def _list(self, pk: str, contract_id: str, at_ms: int) -> None:
        row = keys_of(index_key(contract_id), at_ms) | {"pk": pk}
        self.index.index.setdefault(row["in_day"], []).append(row)

    def executions(self, contract_ids: Sequence[str]) -> Mapping[str, Execution]:
        self.read_records += len(contract_ids)
        return {one: self.records[one] for one in contract_ids if one in self.records}

    def heads(self, contract_ids: Sequence[str]) -> Mapping[str, ContractHead]:
        return {one: self.signed[one] for one in contract_ids if one in self.signed}

    def moves(self, contract_id: str, limit: int) -> list[MoneyMove]:
        return self.of_money.get(contract_id, [])[::-1][:limit]

    def deliveries(self, contract_id: str, limit: int) -> list[DeliveryHead]:
        return self.sent.get(contract_id, [])[:limit]

    def owed(self, day: int, limit: int) -> list[LedgerRow]:
        return [row for row in self.debts if row.at_ms // DAY_MS == day][:limit]

    def received(self, day: int, limit: int) -> list[MoneyMove]:
        every = [move for moves in self.of_money.values() for move in moves if move.payment == "settled"]
        return [move for move in every if move.at_ms // DAY_MS == day][:limit]
