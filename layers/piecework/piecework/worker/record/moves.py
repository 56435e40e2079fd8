"""Moves of money: each change of a record's payment as a row of its own, kept with its time and what it was known by.

The record shows the last of them only. A row is written in the transaction of its change, so there is one for each, and
none for what did not happen. Records that were written before this code have rows from their next change on.
"""

from typing import Final, Self

from piecework.errors import PieceworkError
from piecework.jsons import Json, loads
from piecework.values import dataclass
from piecework.worker.record.debts import Refund
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.values import BoundPayment, Settlement

REFUNDED: Final = "refunded"  # of money that was owed back, and was paid back
RELEASED: Final = "released"  # of a payment that was taken although we had given it up
RECEIVED: Final = frozenset({"settled", "settled_unconfirmed"})


@dataclass(frozen=True, slots=True)
class MoneyMove:
    """One change of a payment: how it then stood, and upon what."""

    contract_id: str
    generation: int
    version: int  # of the record, so that each change has a row of its own; 0 beside its versions
    at_ms: int
    state: str
    payment: str
    claim: str
    payer: str
    atomic: int | None = None  # that the payment authorizes; None where its document is gone
    calls: int = 0
    looks: int = 0
    hashes: tuple[str, ...] = ()
    transaction: str = ""
    reason: str = ""
    resolution: Json = None
    network: str = ""  # as x402 names it; empty where nobody knows

    @classmethod
    def between(cls, before: Execution | None, after: Execution, at_ms: int) -> Self | None:
        """The move that leads from one record to the next; None if the payment did not change."""
        if before is not None and (before.settlement, _bound(before)) == (after.settlement, _bound(after)):
            return None
        settlement, receipt = after.settlement, after.settlement.receipt or {}
        return cls(
            contract_id=after.contract_id,
            generation=after.generation,
            version=after.version,
            at_ms=at_ms,
            state=str(after.state),
            payment=settlement.status,
            claim=after.payment.claim_status,
            payer=after.payment.payer,
            atomic=_authorized(after.payment if after.payment.document or before is None else before.payment),
            calls=settlement.calls,
            looks=settlement.looks,
            hashes=settlement.hashes,
            transaction=str(receipt.get("transaction") or ""),
            reason=str(receipt.get("errorReason") or ""),
            resolution=_word(before, settlement),
            network=_network(after.payment.claim_key),
        )

    @classmethod
    def of_released(cls, owed: LedgerRow) -> Self:
        """The move by which money came under a payment that was given up, and is owed back."""
        return cls._beside(owed, RELEASED, claim=RELEASED)

    @classmethod
    def of_refund(cls, refund: Refund) -> Self:
        """The move by which money that was owed back went back, as an operator says it."""
        return cls._beside(refund, REFUNDED, resolution={**refund.word, "debt": refund.debt})

    @classmethod
    def _beside(cls, row: LedgerRow | Refund, payment: str, *, claim: str = "", resolution: Json = None) -> Self:
        """A move that a row of the ledger tells of, beside the versions of the record."""
        return cls(
            contract_id=row.contract_id,
            generation=row.generation,
            version=0,
            at_ms=row.at_ms,
            state="",
            payment=payment,
            claim=claim,
            payer=row.wallet,
            atomic=row.atomic,
            transaction=row.transaction,
            resolution=resolution,
            network=row.network,
        )

    def is_receipt_after(self, before: Execution | None) -> bool:
        """Whether this is the move by which the money came."""
        return self.payment in RECEIVED and (before is None or not before.is_paid)


def at_stake(execution: Execution) -> tuple[str, int | None]:
    """The network of a task's payment, empty if not known, and what it authorizes; None where nobody knows."""
    return _network(execution.payment.claim_key), _authorized(execution.payment)


def _word(before: Execution | None, after: Settlement) -> Json:
    """An operator's word, with the move that it made: only an operator moves on what is unresolved."""
    is_said = before is not None and before.settlement.status == "unresolved"
    return dict(after.resolution) if is_said and after.resolution else None


def _bound(execution: Execution) -> tuple[str, str]:
    return execution.payment.claim_key, execution.payment.claim_status


def _network(claim_key: str) -> str:
    chain = claim_key.partition("/")[0]
    return f"eip155:{chain}" if chain.isascii() and chain.isdecimal() else ""


def _authorized(payment: BoundPayment) -> int | None:
    if payment.atomic is not None:
        return payment.atomic
    document = payment.document
    try:
        return int(loads(document)["payload"]["authorization"]["value"]) if document else None
    except (PieceworkError, KeyError, TypeError, ValueError):
        return None
