"""The store of executions: records are moved by conditional writes only.

Every change is a whole new record that replaces the one of the version before, in one transaction with the nonce claim,
the ledger rows and the due time that belong to it. So a record that waits for something always has its due time, and a
runner whose lease was taken over can write nothing. The lease alone is renewed outside of versions.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from piecework.errors import PieceworkError
from piecework.values import dataclass
from piecework.worker.errors import WorkerError
from piecework.worker.record.execution import Execution
from piecework.worker.record.values import Item

LedgerKind = Literal["platform_fee_due", "refund_due", "refunded"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Money that somebody owes somebody, for the operator; or, of the kind `refunded`, that it was paid back."""

    kind: LedgerKind
    contract_id: str
    task_id: str
    generation: int
    atomic: int
    network: str
    wallet: str
    at_ms: int
    transaction: str = ""
    debt: str = ""  # of a refund: the name of what it paid back


class Moved(PieceworkError):
    """The record is not as it was read; read it again and decide anew."""

    code = "lease_lost"
    retryable = True

    def __init__(self) -> None:
        super().__init__("the task moved on meanwhile; ask again")


class NonceTaken(WorkerError):
    """The payment's nonce is bound already, to another contract or to an earlier payment of this one."""

    def __init__(self) -> None:
        super().__init__("PAYMENT_ALREADY_USED", "this payment is bound already; sign a new one")


class Executions(Protocol):
    """Keeps executions with their claims, ledger rows and due times."""

    def read(self, contract_id: str) -> Execution | None:
        """The record, strongly consistent."""

    def is_claimed(self, claim_key: str) -> bool:
        """Whether a payment was ever bound to a contract, strongly consistent."""

    def claim(self, before: Execution | None, after: Execution) -> None:
        """Bind `after`'s payment and write the record, in one transaction; `before`'s claim is released, to be watched.

        Raises:
            Moved: the record is not `before` any more.
            NonceTaken: the payment is bound already.
        """

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        """Replace `before`; its due times, its claim's status and the ledger follow in the same transaction.

        Raises:
            Moved: the record is not `before` any more.
        """

    def take_over(self, before: Execution, after: Execution, now_ms: int) -> None:
        """As `move`, if the lease that `before` shows has not been renewed past now. Raises Moved."""

    def renew(self, contract_id: str, lease: str, until_ms: int) -> None:
        """Move the lease on. Raises LeaseLost."""

    def add_item(self, contract_id: str, lease: str, item: Item) -> None:
        """Add a finished item, outside of versions as a renewal. Raises LeaseLost."""

    def add_debt(self, row: LedgerRow, claim_key: str) -> None:
        """Add what is owed for a payment that was given up and taken, and that it came; once for each payment."""

    def ledger(self, month: str) -> list[LedgerRow]:
        """The ledger rows of a month, as in 2026-01, oldest first; refunds are among them."""
