"""Money that is owed back to a seeker, and the word that it was paid back.

A debt is a row `refund_due` of the ledger. Its refund stands in it, and in a row of its own, which is written once:
with the move of money, a row of the ledger's day, and a row of the transaction, which so counts for one debt alone.
Where the task's record still owes the debt, its next version does not any more. All of that is one transaction.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, Self

from piecework.jsons import Json
from piecework.values import asdict, dataclass, replace
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerKind, LedgerRow

REFUND_DUE: Final[LedgerKind] = "refund_due"
NAME: Final = re.compile(r"([0-9]{1,14})-([0-9]{1,9})-([0-9a-f]{16})")  # with 15, a time of no year


@dataclass(frozen=True, slots=True)
class Refund:
    """That a debt was paid back: how much to whom, by which transaction, who says so, and upon what.

    `kind` and `task_id` let code that knows rows of the ledger alone read it as one.
    """

    debt: str  # its name, within the contract
    contract_id: str
    task_id: str
    generation: int
    atomic: int
    network: str
    wallet: str
    at_ms: int  # when it was said
    transaction: str  # in lower case
    by: str  # evidence, or override
    operator: str
    reason: str
    kind: str = "refunded"

    @property
    def word(self) -> dict[str, Json]:
        """What was said, without what the debt says itself."""
        said = ("transaction", "at_ms", "by", "operator", "reason")
        return {name: value for name, value in asdict(self).items() if name in said}


class DebtKey(NamedTuple):
    """Which debt of a contract: when it began, of which input, by which payment."""

    contract_id: str
    at_ms: int
    generation: int
    transaction: str  # that brought the money; empty where it was never confirmed

    @property
    def name(self) -> str:
        """The key as a short text, within its contract. A facilitator chose the transaction's text: it is a digest."""
        digest = sha256(self.transaction.encode("utf-8", "replace")).hexdigest()
        return f"{self.at_ms}-{self.generation}-{digest[:16]}"


@dataclass(frozen=True, slots=True)
class Debt:
    """A row of the ledger, and where it is one of money that is owed back, its refund; None while it is owed."""

    row: LedgerRow
    refund: Refund | None = None

    @property
    def is_owed(self) -> bool:
        """Whether money is to be paid back, and nobody has said that it was."""
        return self.row.kind == REFUND_DUE and self.refund is None

    def paid(self, transaction: str, *, by: str, operator: str, reason: str, at_ms: int) -> Refund:
        """The word that the whole of it was paid back by a transaction."""
        row = self.row
        return Refund(
            debt=self.key.name,
            contract_id=row.contract_id,
            task_id=row.task_id,
            generation=row.generation,
            atomic=row.atomic,
            network=row.network,
            wallet=row.wallet,
            at_ms=at_ms,
            transaction=transaction,
            by=by,
            operator=operator,
            reason=reason,
        )

    def with_refund(self, refund: Refund | None) -> Self:
        """The same debt with what is known of its refund."""
        return replace(self, refund=refund)

    @property
    def key(self) -> DebtKey:
        """Which debt this is."""
        row = self.row
        return DebtKey(row.contract_id, row.at_ms, row.generation, row.transaction)


class Debts(Protocol):
    """Keeps what is owed back, and what was paid back."""

    def debt(self, contract_id: str, name: str) -> Debt | None:
        """The debt of a contract, strongly consistent; None if the contract does not have it."""

    def counted(self, network: str, transaction: str) -> Refund | None:
        """The refund for which a transaction counts already, strongly consistent."""

    def refund(self, refund: Refund, debt: Debt, before: Execution | None) -> None:
        """Write that `debt` was paid back; `before` is the record that owes it, where one does.

        Raises:
            Moved: it was paid back, the transaction counts for another debt, or the record is not `before` any more.
        """


def owed_by(execution: Execution) -> DebtKey | None:
    """What a record owes, or did owe, since its work failed after it was paid; None where it never did."""
    if not execution.failed_after_payment:
        return None
    forgotten = execution.forgotten
    at_ms = forgotten.ended_at_ms if forgotten else execution.outcome.finished_at_ms
    return DebtKey(execution.contract_id, at_ms, execution.generation, transaction_of(execution.settlement.receipt))


def transaction_of(receipt: Mapping[str, Json] | None) -> str:
    """The transaction that a receipt names; empty where the payment was never confirmed."""
    return str((receipt or {}).get("transaction", ""))
