"""Charging: settle once, read the outcome, reconcile what is unknown; release nothing that was not paid (2.8).

Every step is a conditional move of the record, so at most one `/settle` is in flight:

    | crash after                       | what stands | what happens then                                              |
    |-----------------------------------|-------------|----------------------------------------------------------------|
    | the intent (SETTLING) was written | SETTLING    | its lease lapses, longer than the call can take: UNKNOWN       |
    | `/settle` was sent or answered    | SETTLING    | the same: nobody knows it was answered, so it is reconciled    |
    | the outcome was written           | its outcome | nothing                                                        |
    | a success, its receipt not seen   | UNKNOWN     | the receipt is looked for again; `/settle` is never repeated   |
    | UNKNOWN, a witness was asked      | UNKNOWN     | asked again at the due time, which stood since UNKNOWN         |
    | UNKNOWN, `/settle` is sent again  | SETTLING    | as in the first row, with the identical payload                |

An interrupted call is never repeated blindly: only a witness that says the authorization is unspent leads to another
`/settle`, and the chain takes a nonce once. The settle-watch is the due time that the intent sets in its transaction.
"""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.due import Nudge
from piecework.durable.pieces import new_token
from piecework.errors import NOTHING, Conflict, PieceworkError
from piecework.extend.executors import Log
from piecework.jsons import Json, loads
from piecework.values import dataclass, field, replace
from piecework.worker.chain.exchange import NotSent
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain
from piecework.worker.payment.cases import Case
from piecework.worker.payment.confirming import NOT_SEEN, Confirming
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.evidence import Evidence, Unsettled, gather
from piecework.worker.payment.facilitator import SETTLE_SECONDS_QUEUED, Facilitator
from piecework.worker.payment.owing import fee_rows
from piecework.worker.payment.payments import Payment, read_payment
from piecework.worker.payment.settlement import (
    EXPIRED_UNUSED,
    FACILITATOR_MARGIN_SECONDS,
    Decision,
    NotPaid,
    Paid,
    PaidUnconfirmed,
    SettleAgain,
    Unknown,
    Unresolved,
    Wait,
    classify,
    give_up_ms,
    look_seconds,
    paid_receipt,
    reconcile,
    refused_receipt,
    resend_seconds,
)
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions
from piecework.worker.record.values import Failure, Lease, Settlement

WATCH_MS: Final = 120_000  # the settle-watch
CALL_MARGIN_MS: Final = 20_000  # beyond the call's own limit; until then the settlement does not count as lost
SEEN_SOON_SECONDS: Final = 5  # until a transaction that was named with success is looked for again
MOST_ROUNDS: Final = 5  # payments that were definitely not taken
LATE: Final = "invalid_exact_evm_payload_authorization_valid_before"
REFUSED: Final = "the work is done, but the payment was not taken; sign a new one to get the result"


class NotProven(Conflict):
    """An operator's word is not what the chain shows."""

    def __init__(self, decision: Decision) -> None:
        why = _why(decision).get("why", "")
        super().__init__(f"the chain does not show that: {type(decision).__name__}{f', {why}' if why else ''}")


@dataclass(frozen=True)
class Charging:
    """Settles and reconciles; each method returns the record as it then stands."""

    executions: Executions
    facilitator: Facilitator
    chain_of: Callable[[Network], Chain | None]
    clock: Callable[[], int]
    nudge: Nudge
    log: Log
    counts: SettlementCounts
    token: Callable[[], str] = new_token
    confirming: Confirming = field(default_factory=Confirming)

    def settle(self, case: Case, seconds: float = SETTLE_SECONDS_QUEUED) -> Case:
        """Ask for the money once; a result that the record has and the store has not is written with the intent.

        Raises:
            Moved: somebody else moved the record on.
        """
        now_ms, execution = self.clock(), case.execution
        lease = Lease(self.token(), now_ms + int(seconds * 1000) + CALL_MARGIN_MS)
        intent = execution.settling(lease, now_ms, now_ms + WATCH_MS)
        self.executions.move(execution, intent)
        called = case.now(intent)
        outcome = self._asked(called, seconds, first=not execution.settlement.is_ambiguous)
        if isinstance(outcome, Paid):
            return self.paid(called, outcome)
        if isinstance(outcome, NotPaid):
            return self.not_paid(called, outcome)
        if isinstance(outcome, Unknown):
            return self._unknown(called, execution.settlement, outcome)
        return self._not_sent(called, execution.settlement)

    def _asked(self, case: Case, seconds: float, *, first: bool) -> Paid | NotPaid | NotSent | Unknown:
        """The outcome of one `/settle`; a success counts once the chain shows its transaction."""
        record, ends = unsettled_of(case), self.confirming.now() + seconds
        settled = self.facilitator.settle(record.payment, case.terms, seconds)
        outcome = classify(settled, record.payment, case.terms, first=first)
        if isinstance(outcome, Paid):
            left = ends - self.confirming.now()
            outcome = self.confirming.look(outcome, record, self.chain_of(case.contract.network), left)
        told = {"outcome": type(outcome).__name__, **_why(outcome)}
        self.log.info("settle_answered", contract_id=case.contract.contract_id, **told)
        self.counts.answered(outcome)
        return outcome

    def lapsed(self, case: Case) -> Case:
        """A settlement whose runner is gone may have charged."""
        now_ms, execution = self.clock(), case.execution
        known = execution.settlement
        last_ms = known.last_call_ms or known.last_call_without_hash_ms
        settlement = replace(known, is_ambiguous=True, last_call_ms=last_ms, looks=0)
        after = execution.unknown(settlement, now_ms + look_seconds(1) * 1000)
        self.executions.take_over(execution, after, now_ms)
        return case.now(after)

    def look(self, case: Case) -> Case:
        """Ask the witnesses about an unknown settlement, and act on what they say.

        Raises:
            Moved: somebody else moved the record on.
        """
        now_ms, execution = self.clock(), case.execution
        _, decision = self.witness(case, now_ms)
        told = {"decision": type(decision).__name__, "looks": execution.settlement.looks + 1}
        self.log.info("settlement_looked_at", contract_id=execution.contract_id, **told, **_why(decision))
        self.counts.looked(decision, execution.settlement.looks + 1)
        if isinstance(decision, Paid | PaidUnconfirmed):
            return self.paid(case, decision)
        if isinstance(decision, NotPaid):
            if decision.reason == EXPIRED_UNUSED and execution.settlement.hashes:
                self.log.warning("settlement_alarm", contract_id=execution.contract_id, alarm="hash_on_no_chain")
                self.counts.strange()
            return self.not_paid(case, decision)
        if isinstance(decision, SettleAgain):
            return self.settle(case)
        return self._waiting(case, decision, now_ms)

    def paid(self, case: Case, outcome: Paid | PaidUnconfirmed) -> Case:
        """Release the result, or start the work that was paid before it."""
        now_ms, execution = self.clock(), case.execution
        transaction = outcome.transaction if isinstance(outcome, Paid) else ""
        if not transaction:
            self.log.warning("settled_unconfirmed", contract_id=execution.contract_id)
            self.counts.strange()
        after = execution.paid(outcome.receipt if isinstance(outcome, Paid) else None, now_ms)
        rows = fee_rows(case, now_ms, transaction) if after.is_ended else []
        self.executions.move(execution, after, ledger=rows, webhook_at_ms=_webhook_ms(after))
        return case.now(after)

    def not_paid(self, case: Case, outcome: NotPaid) -> Case:
        """Keep the result unreleased and let the seeker sign anew, a few times."""
        execution = case.execution
        after = refused(execution, outcome, self.clock())
        self.executions.move(execution, after, webhook_at_ms=_webhook_ms(after))
        return case.now(after)

    def witness(self, case: Case, now_ms: int) -> tuple[Evidence | None, Decision]:
        """What the witnesses say of an unknown settlement now, and what follows from it; moves nothing."""
        record = unsettled_of(case)
        seen = gather(record, self.chain_of(case.contract.network), self.facilitator, now_ms)
        return seen, reconcile(record, seen, now_ms)

    def resolve(
        self,
        case: Case,
        transaction: str | None,
        decision: Decision | None = None,
        *,
        override: bool = False,
        note: Mapping[str, Json] = NOTHING,
    ) -> Case:
        """An operator's word on an unknown settlement: the transaction that paid it, or None for not paid.

        It needs the evidence that the flow itself would need, or is recorded as an override. `decision` is what a
        witness that was asked just now leads to; without it one is asked. `note` says who decided, and why.

        Raises:
            NotProven: the chain does not show it.
            Moved: somebody else moved the record on.
            IllegalMove: the settlement is not unknown.
        """
        now_ms, execution = self.clock(), case.execution
        payment, terms = payment_of(execution), case.terms
        decided = decision or self.witness(case, now_ms)[1]
        if not (is_proven := proves(decided, transaction)) and not override:
            raise NotProven(decided)
        resolution = {**note, "by": "evidence" if is_proven else "override", "at_ms": now_ms, "paid": transaction}
        noted = case.now(replace(execution, settlement=replace(execution.settlement, resolution=resolution)))
        self.log.warning("settlement_resolved", contract_id=execution.contract_id, by=resolution["by"])
        if transaction is None:
            reason = "not_paid_by_operator"
            return self.not_paid(noted, NotPaid(reason, refused_receipt(payment, terms, reason)))
        return self.paid(noted, Paid(transaction, paid_receipt(payment, terms, transaction)))

    def _unknown(self, case: Case, before: Settlement, outcome: Unknown) -> Case:
        if outcome.alarm:
            self.log.warning("settlement_alarm", contract_id=case.contract.contract_id, alarm=outcome.alarm)
            self.counts.strange()
        known = case.execution.settlement
        if outcome.transaction is not None:
            known = known.named(outcome.transaction, before)
        return self._to_unknown(case, known, SEEN_SOON_SECONDS if outcome.reason == NOT_SEEN else None)

    def _to_unknown(self, case: Case, known: Settlement, seconds: int | None = None) -> Case:
        """Unknown, to be looked at again after this time, or after the usual one."""
        looks = known.looks + 1
        delay_ms = (seconds or look_seconds(looks)) * 1000
        settlement = replace(known, is_ambiguous=True, looks=looks)
        after = case.execution.unknown(settlement, self.clock() + delay_ms)
        self.executions.move(case.execution, after)
        self._remind(after, delay_ms)
        return case.now(after)

    def _not_sent(self, case: Case, before: Settlement) -> Case:
        """Nothing reached the facilitator: the result stays ready, until the authorization is over."""
        intent, payment = case.execution, payment_of(case.execution)
        known = intent.settlement.not_sent(before)
        if known.is_ambiguous:
            return self._to_unknown(case, known)
        tries = known.looks + 1
        now_ms, delay_ms = self.clock(), resend_seconds(tries) * 1000
        if now_ms // 1000 + FACILITATOR_MARGIN_SECONDS > payment.authorization.valid_before:
            late = NotPaid(LATE, refused_receipt(payment, case.terms, LATE))
            self.log.info("settle_answered", contract_id=intent.contract_id, outcome="NotPaid")
            self.counts.answered(late)
            return self.not_paid(case, late)
        after = intent.unsent(replace(known, looks=tries), now_ms + delay_ms)
        self.executions.move(intent, after)
        self._remind(after, delay_ms)
        return case.now(after)

    def _waiting(self, case: Case, decision: Wait | Unresolved, now_ms: int) -> Case:
        execution, known = case.execution, case.execution.settlement
        looks = known.looks + 1
        is_over = isinstance(decision, Unresolved)
        missing = isinstance(decision, Wait) and decision.funds_missing
        seconds = look_seconds(looks, stale=isinstance(decision, Wait) and decision.stale)
        settlement = replace(
            known,
            looks=looks,
            last_call_ms=unsettled_of(case).last_call_ms,
            status="unresolved" if is_over else "settling",
            funds_missing_ms=now_ms if missing else known.funds_missing_ms,
        )
        after = execution.unknown(settlement, 0 if is_over else now_ms + seconds * 1000)
        self.executions.move(execution, after)
        if is_over:
            self.log.warning("settlement_unresolved", contract_id=execution.contract_id)
            self.counts.unresolved()
        else:
            self._remind(after, after.due_ms - now_ms)
        return case.now(after)

    def _remind(self, execution: Execution, delay_ms: int) -> None:
        due = execution.due
        try:
            if due is not None:
                self.nudge(due, delay_ms)
        except PieceworkError:
            self.log.warning("reminder_not_sent", contract_id=execution.contract_id)  # the sweep finds the due time


def _why(found: object) -> dict[str, str]:
    why = getattr(found, "why", None) or getattr(found, "reason", None)
    return {"why": why} if why else {}


def refused(execution: Execution, outcome: NotPaid, now_ms: int) -> Execution:
    """The record after a payment that was definitely not taken: another one is asked for, a few times."""
    failure = Failure("PAYMENT_FAILED", REFUSED, {"reason": outcome.reason})
    if execution.settlement.refusals + 1 < MOST_ROUNDS:
        return execution.not_paid(outcome.receipt, failure)
    return execution.not_paid_at_last(outcome.receipt, failure, now_ms)


def _webhook_ms(after: Execution) -> int:
    """When its end is to be announced; 0 if it has no end, or nobody hears of it."""
    return after.outcome.finished_at_ms if after.is_ended and after.has_webhook else 0


def payment_of(execution: Execution) -> Payment:
    """The payment that is bound to a record."""
    return read_payment(loads(execution.payment.document))


def proves(decision: Decision, transaction: str | None) -> bool:
    """Whether what the flow would decide is what an operator says: paid by this transaction, or not paid (None)."""
    if transaction is None:
        return isinstance(decision, NotPaid)
    return isinstance(decision, Paid) and decision.transaction.lower() == transaction.lower()


def unsettled_of(case: Case) -> Unsettled:
    """What a record knows of its settlement."""
    execution, settlement = case.execution, case.execution.settlement
    known = Unsettled(
        payment_of(execution),
        case.terms,
        settlement.hashes,
        settlement.last_call_without_hash_ms or None,
        settlement.funds_missing_ms or None,
        execution.created_at_ms,
        settlement.last_call_ms,
    )
    if settlement.last_call_ms or not settlement.calls:
        return known
    # Written before records said when: no call was sent after the time that the record waits for, or waited for last.
    return replace(known, last_call_ms=execution.due_ms or give_up_ms(known))
