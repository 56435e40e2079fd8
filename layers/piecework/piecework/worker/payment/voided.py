"""Voided authorizations: we never settle them again, but anybody who holds one still can (worker specification 2.9).

When a claim is released, because its input was refused, its payment was not taken, it lapsed or its task failed, a
due time for it is written in the same transaction. A look asks the chain, once the authorization is over, and daily
while it still lives. Money that moved all the same is the seeker's: a ledger row `refund_due`, once for each
authorization, and an alarm. A block that is far behind the clock ends no watch. Without a node there is nobody to ask:
the payload went with the claim.

Looks may be doubled, as their messages may. Those of one due time lead to the same next one.
"""

from collections.abc import Callable
from typing import Final, Self

from piecework.clock import DAY_MS
from piecework.durable.due import Due, DueTimes
from piecework.extend.executors import Log
from piecework.values import dataclass
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain, ChainUnavailable
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.evidence import Evidence, Unsettled, chain_evidence
from piecework.worker.payment.payments import Authorization, Payment
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.record.execution import KEPT_DAYS, RELEASED_DUE, RELEASED_MARGIN_SECONDS
from piecework.worker.record.executions import Executions, LedgerRow

UNREACHED_MS: Final = 600_000  # until a node that did not answer is asked again


@dataclass(frozen=True, slots=True)
class Authorized:
    """A released authorization, as the id of its due time names it."""

    contract_id: str
    generation: int
    valid_before: int  # seconds
    payer: str
    nonce: str
    claim_key: str

    @classmethod
    def of(cls, due: Due) -> Self:
        """Read it back from its due time."""
        contract_id, generation, valid_before, claim_key = due.id.split("/", 3)
        _chain, _asset, payer, nonce = claim_key.split("/")
        return cls(contract_id, int(generation), int(valid_before), payer, nonce, claim_key)

    def unsettled(self, contract: ContractRecord) -> Unsettled:
        """What the chain is asked about; its signature is not needed for that."""
        terms = PaymentTerms.of(contract, None, "")
        signed = Authorization(self.payer, terms.pay_to, terms.atomic, 0, self.valid_before, self.nonce)
        return Unsettled(Payment(2, signed, {}), terms, since_ms=contract.stored_at_ms)


@dataclass(frozen=True)
class VoidedAuthorizations:
    """Watches released authorizations."""

    contracts: Contracts
    executions: Executions
    due_times: DueTimes
    chain_of: Callable[[Network], Chain | None]
    clock: Callable[[], int]
    log: Log
    counts: SettlementCounts

    def look(self, due: Due) -> None:
        """Ask the chain about one; its due time goes, or moves on.

        Raises:
            PieceworkError: a store is out of reach; look again later.
        """
        released, now_ms = Authorized.of(due), self.clock()
        contract = self.contracts.get(released.contract_id)
        if contract is None:
            return self.due_times.remove(due)
        chain = self.chain_of(contract.network)
        if chain is None:
            return self._unseen(released, contract, due, now_ms)
        record = released.unsettled(contract)
        try:
            seen = chain_evidence(record, chain, now_ms)
        except ChainUnavailable:
            return self._again(due, UNREACHED_MS)
        if seen.paid:
            self._owe(released, contract, due, seen.paid)
        elif not _is_over(released, record, seen, now_ms):
            return self._again(due, DAY_MS)
        return self.due_times.remove(due)

    def _unseen(self, released: Authorized, contract: ContractRecord, due: Due, now_ms: int) -> None:
        """Without a node the chain cannot be asked. Real money stays watched: a node may be configured again."""
        if contract.network.is_testnet or _is_past(released, now_ms):
            return self.due_times.remove(due)
        self.log.warning("released_payment_unseen", contract_id=released.contract_id)
        return self._again(due, DAY_MS)

    def _owe(self, released: Authorized, contract: ContractRecord, due: Due, transaction: str) -> None:
        """Once for each authorization, under the due time's moment; its record may be gone before it."""
        self.log.warning("released_payment_used", contract_id=released.contract_id, transaction=transaction)
        self.counts.strange()
        execution = self.executions.read(released.contract_id)
        owed = LedgerRow(
            kind="refund_due",
            contract_id=released.contract_id,
            task_id=execution.task_id if execution else "",
            generation=released.generation,
            atomic=contract.atomic,
            network=contract.network.caip2,
            wallet=released.payer,
            at_ms=due.at_ms,
            transaction=transaction,
        )
        self.executions.add_debt(owed, released.claim_key)

    def _again(self, due: Due, gap_ms: int) -> None:
        """At the end of the gap that the clock is in, counted from the due time."""
        now_ms = self.clock()
        over_ms = (Authorized.of(due).valid_before + RELEASED_MARGIN_SECONDS) * 1000
        later = due.at_ms + gap_ms * (1 + max(0, now_ms - due.at_ms) // gap_ms)
        self.due_times.put(Due(min(later, over_ms) if over_ms > now_ms else later, RELEASED_DUE, due.id))
        self.due_times.remove(due)


def _is_over(released: Authorized, record: Unsettled, seen: Evidence, now_ms: int) -> bool:
    """Whether it can move no money any more, by fresh evidence; one whose log no node has is given up in the end."""
    if seen.nonce_spent:
        return seen.cancelled or _is_past(released, now_ms)
    return seen.why_stale(record, now_ms) is None and seen.seconds >= released.valid_before + RELEASED_MARGIN_SECONDS


def _is_past(released: Authorized, now_ms: int) -> bool:
    """Whether the claim itself is forgotten by now."""
    return now_ms > (released.valid_before + RELEASED_MARGIN_SECONDS) * 1000 + KEPT_DAYS * DAY_MS
