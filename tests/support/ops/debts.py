"""What is owed back and was paid back, in memory; it passes the same contract tests as the worker's table."""

from piecework.worker.record.debts import NAME, REFUND_DUE, Debt, Debts, Refund
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Moved
from piecework.worker.record.moves import MoneyMove
from piecework.worker.store.executions_table import month_of
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions


class FakeDebts(Debts):
    """Debts among the rows that the door reads; each method is atomic."""

    def __init__(self, rows: FakeWorkerRows, executions: KeptExecutions) -> None:
        self._rows, self._executions = rows, executions
        self.transactions: dict[tuple[str, str], Refund] = {}

    def debt(self, contract_id: str, name: str) -> Debt | None:
        if not (named := NAME.fullmatch(name)):
            return None
        month = month_of(int(named[1])).removeprefix("LEDGER#")
        keys = [
            Debt(row).key
            for (of, _), row in self._rows.ledger.items()
            if (of, row.contract_id, row.kind) == (month, contract_id, REFUND_DUE)
        ]
        return next(iter(self._rows.debts([key for key in keys if key.name == name])), None)

    def counted(self, network: str, transaction: str) -> Refund | None:
        return self.transactions.get((network, transaction))

    def refund(self, refund: Refund, debt: Debt, before: Execution | None) -> None:
        with self._executions.lock:
            counts = refund.network, refund.transaction
            if debt.key in self._rows.paid_back or counts in self.transactions or not self._rows.debts([debt.key]):
                raise Moved
            if before is not None:
                self._executions.replace(before, before.paid_back(refund.word))
            self._rows.paid_back[debt.key] = self.transactions[counts] = refund
            self._rows.keep(MoneyMove.of_refund(refund))
