"""What is owed back, and what was paid back, in the work table.

| pk                    | sk                            | attributes                                                   |
|-----------------------|-------------------------------|--------------------------------------------------------------|
| LEDGER#<year-month>   | <ms>#<contract>#…#refund_due… | row (JSON), and once it was paid back: refund (JSON)         |
| LEDGER#<year-month>   | REFUNDED#<ms>#<contract>#<…>  | row (JSON): the same, under the day on which it was said     |
| REFUND#<network>/<…>  | REFUND                        | row (JSON), write: for which debt a transaction counts       |
| EXEC#<contract id>    | MONEY#<last>#<ms>#<…>         | row (JSON): the move of money, which stays                   |
| EXEC#<contract id>    | REFUND#<name of the debt>     | row (JSON), write: that this debt was paid back              |

Earlier code may write a debt's row anew, without its refund. The last of these rows is written once, and stays.
Of a month's rows, `REFUNDED` stands behind all that begin with a time, so code that reads days does not find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_WORK, Table
from piecework.aws.writes import ABSENT, Key, Put, Update, Write, at, new_write
from piecework.jsons import canonical, loads
from piecework.jsons.stored import known
from piecework.values import asdict
from piecework.worker.record.debts import NAME, REFUND_DUE, Debt, DebtKey, Debts, Refund
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerRow, Moved
from piecework.worker.record.moves import MoneyMove
from piecework.worker.store.executions_table import ledger_key, month_of, move_at, replacing, row_of

if TYPE_CHECKING:
    from piecework.aws.table import Client

MOST: Final = 50  # debts of one contract that began in one millisecond
REFUNDED: Final = "REFUNDED#"
NOT_YET: Final = "attribute_exists(pk) AND attribute_not_exists(refund)"


class DebtsTable(Debts):
    """Debts in DynamoDB."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_WORK)

    def debt(self, contract_id: str, name: str) -> Debt | None:
        if not (named := NAME.fullmatch(name)):
            return None
        at_ms, generation = int(named[1]), int(named[2])
        month, place = ledger_key(REFUND_DUE, DebtKey(contract_id, at_ms, generation, ""))
        found = self._table.query(month, after=place[:-1], before=place[:-1] + "$", page=MOST)
        debts = map(debt_of, found)
        debt = next((debt for debt in debts if debt.key.name == name), None)
        return debt.with_refund(refund_in(self._table.get(*refund_key(debt.key)))) if debt and debt.is_owed else debt

    def counted(self, network: str, transaction: str) -> Refund | None:
        item = self._table.get(*_counted_key(network, transaction))
        return refund_in(item)

    def refund(self, refund: Refund, debt: Debt, before: Execution | None) -> None:
        text = canonical(asdict(refund)).decode()
        sort = f"{REFUNDED}{refund.at_ms:015d}#{refund.contract_id}#{refund.generation}#{refund.transaction}"
        move = MoneyMove.of_refund(refund)
        writes: list[Write] = [
            Update(
                ledger_key(REFUND_DUE, debt.key), "SET refund = :refund", condition=NOT_YET, values={"refund": text}
            ),
            Put(
                at(_counted_key(refund.network, refund.transaction)) | {"row": text, "write": new_write()},
                condition=ABSENT,
            ),
            Put(at(refund_key(debt.key)) | {"row": text, "write": new_write()}, condition=ABSENT),
            Put(at((month_of(refund.at_ms), sort)) | {"row": text}),
            Put(at(move_at(move)) | row_of(move)),
        ]
        if before is not None:
            writes.append(replacing(before, before.paid_back(refund.word), new_write()))
        if self._table.transact(writes):
            raise Moved


def debt_of(item: Item) -> Debt:
    """A row of the ledger with its refund, if it has one."""
    refund = item.get("refund")
    return Debt(known(LedgerRow, loads(item["row"])), known(Refund, loads(refund)) if refund else None)


def refund_key(key: DebtKey) -> Key:
    """Where it stands that a debt was paid back."""
    return f"EXEC#{key.contract_id}", f"REFUND#{key.name}"


def refund_in(item: Item | None) -> Refund | None:
    """The refund that a row holds; None without a row."""
    return known(Refund, loads(item["row"])) if item else None


def _counted_key(network: str, transaction: str) -> Key:
    return f"REFUND#{network}/{transaction}", "REFUND"
