"""An execution: the one record of what became of a hired contract, and the moves that it can make.

A move returns a whole new record, one version on, in a state that the table of moves allows. Which row goes with it
is the store's: `piecework.worker.record.executions`.
"""

from collections.abc import Mapping
from typing import Final, Self

from piecework.clock import DAY_MS
from piecework.durable.due import Due
from piecework.durable.forgotten import Forgotten
from piecework.jsons import Json
from piecework.values import dataclass, replace
from piecework.worker.record.states import ENDED, State, advance
from piecework.worker.record.values import (
    NO_LEASE,
    NO_OUTCOME,
    NOT_BEGUN,
    NOT_SETTLED,
    Attempt,
    BoundPayment,
    Failure,
    Item,
    Kept,
    Lease,
    Settlement,
    TaskOutcome,
    last_refusal,
)

LONGEST_LIFE_MS: Final = DAY_MS  # of an unfinished task (4.3)
TASK_DUE: Final = "task"  # kinds of due times
WEBHOOK_DUE: Final = "webhook"
RELEASED_DUE: Final = "released"
DOUBT_DUE: Final = "doubt"  # nothing is due then: it is since when nobody knows whether a payment was taken
RELEASED_MARGIN_SECONDS: Final = 60  # past an authorization's end, for a block's time
KEPT_DAYS: Final = 90  # receipts and claims

DELIVERED: Final = frozenset({State.COMPLETED, State.PARTIAL_FINAL})


@dataclass(frozen=True, slots=True)
class Execution:
    """One contract's execution as it stands; times in epoch milliseconds, 0 for none."""

    contract_id: str
    task_id: str
    state: State
    version: int
    generation: int  # counts inputs: a refused one may be replaced
    body_digest: str
    executor: str
    created_at_ms: int
    ends_at_ms: int  # an unfinished task fails then
    input: Kept
    payment: BoundPayment
    attempt: Attempt
    settlement: Settlement = NOT_SETTLED
    lease: Lease = NO_LEASE
    outcome: TaskOutcome = NO_OUTCOME
    due_ms: int = 0
    settle_before: bool = False
    longest_ms: int = 0  # that its executor may take, as it was when the terms were made; 0 in older rows
    has_webhook: bool = False
    forgotten: Forgotten | None = None  # of a record whose payloads are erased; it is answered as one past its time

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_paid(self) -> bool:
        return self.settlement.is_paid

    @property
    def has_result(self) -> bool:
        return self.outcome.result is not None

    def kept_until_ms(self, result_days: int) -> int:
        """Until when its end can be read: as was promised when it was recorded, whatever the settings say by now."""
        return self.outcome.finished_at_ms + (self.outcome.keeps_days or result_days) * DAY_MS

    @property
    def failure(self) -> Failure | None:
        """What it is answered with while it has failed. Records say of every refused payment that the work is done."""
        failure = self.outcome.failure
        is_before_work = self.state is State.UNPAID and not self.has_result
        return replace(failure, message=NOT_BEGUN) if failure and is_before_work else failure

    @property
    def failed_after_payment(self) -> bool:
        """Whether the seeker paid for work that failed for good."""
        return self.is_paid and self.is_ended and self.state not in DELIVERED

    @property
    def owes_refund(self) -> bool:
        """Whether that payment is owed back: nobody has said yet that it was paid back."""
        return self.failed_after_payment and self.settlement.refund is None

    @property
    def retries_remaining(self) -> int:
        return max(0, self.attempt.most - self.attempt.number)

    @property
    def due(self) -> Due | None:
        return Due(self.due_ms, TASK_DUE, self.contract_id) if self.due_ms else None

    @property
    def doubt(self) -> Due | None:
        """Since when nobody knows whether its payment was taken: since the last `/settle`; None without a doubt."""
        since_ms = self.settlement.last_call_ms or self.created_at_ms
        return Due(since_ms, DOUBT_DUE, self.contract_id) if self.state is State.UNKNOWN else None

    @property
    def released_due(self) -> Due:
        """When its payment, released, is looked for on the chain: once it is over, or after a day."""
        payment = self.payment
        over_ms = (payment.valid_before + RELEASED_MARGIN_SECONDS) * 1000
        named = f"{self.contract_id}/{self.generation}/{payment.valid_before}/{payment.claim_key}"
        return Due(min(over_ms, self.created_at_ms + LONGEST_LIFE_MS), RELEASED_DUE, named)

    @property
    def expires_at(self) -> int:
        """When the record may be forgotten, epoch seconds: past every promise, 90 days, and the authorization's end."""
        days = max(KEPT_DAYS, self.outcome.keeps_days) + 1
        kept_ms = max(self.created_at_ms, self.outcome.finished_at_ms) + days * DAY_MS
        return max(kept_ms // 1000, self.payment.valid_before + 86_400)

    def is_leased(self, now_ms: int) -> bool:
        return self.lease.holds(now_ms)

    def moved(self, target: State) -> Self:
        """The record one version on, in another state.

        Raises:
            IllegalMove: the state does not lead there.
        """
        return replace(self, state=advance(self.state, target), version=self.version + 1)

    # How an attempt begins. `bound`, `leased` and `queued` complete a move; alone they are not a move.

    def next_attempt(self) -> Self:
        """Executing again, after an attempt that failed for now."""
        outcome = replace(self.outcome, failure=None)
        return replace(self.moved(State.EXECUTING), attempt=self.attempt.next(), outcome=outcome)

    def bound(self, payment: BoundPayment) -> Self:
        """Under a payment of which nothing was settled yet."""
        return replace(self, payment=payment, settlement=self.settlement.of_new_payment())

    def leased(self, lease: Lease, now_ms: int) -> Self:
        """Begun now, by the runner that holds the lease; due when that lapses."""
        attempt = replace(self.attempt, started_at_ms=now_ms)
        return replace(self, lease=lease, attempt=attempt, due_ms=lease.until_ms + 1)

    def queued(self, due_ms: int) -> Self:
        """Waiting for a runner."""
        return replace(self, lease=NO_LEASE, attempt=replace(self.attempt, started_at_ms=0), due_ms=due_ms)

    def paid_anew(self, payment: BoundPayment, now_ms: int) -> Self:
        """After a payment that was not taken: another one is bound, and due to be settled at once."""
        after = self.moved(self._unsettled).bound(payment)
        return replace(after, outcome=replace(self.outcome, failure=None), due_ms=now_ms)

    # How an attempt goes on and ends.

    def taken(self, lease: Lease, now_ms: int) -> Self:
        """By a runner from the queue, or from one whose lease has lapsed; the due time stays as it is."""
        started_ms, crashes = self.attempt.started_at_ms or now_ms, self.attempt.crashes
        attempt = replace(self.attempt, started_at_ms=started_ms, crashes=crashes + bool(self.lease.token), items=())
        return replace(self.moved(State.EXECUTING), lease=lease, attempt=attempt)

    def handed_over(self, due_ms: int) -> Self:
        """Left to another runner within the same attempt."""
        attempt = replace(self.attempt, items=())
        return replace(self.moved(State.EXECUTING), lease=NO_LEASE, attempt=attempt, due_ms=due_ms)

    def with_result(self, outcome: TaskOutcome, items: tuple[Item, ...]) -> Self:
        """The same version with what was made; the move that follows writes it."""
        return replace(self, outcome=outcome, attempt=replace(self.attempt, items=items))

    def ready(self, now_ms: int) -> Self:
        """The result stands, and is to be settled."""
        return replace(self.moved(State.RESULT_READY), lease=NO_LEASE, due_ms=now_ms)

    def failed_for_now(self, failure: Failure, worked_ms: int) -> Self:
        """The seeker has another attempt, until the task's end."""
        outcome, attempt = replace(self.outcome, failure=failure, worked_ms=worked_ms), replace(self.attempt, items=())
        after = self.moved(State.FAILED_TRANSIENT)
        return replace(after, lease=NO_LEASE, outcome=outcome, attempt=attempt, due_ms=self.ends_at_ms)

    def ended(self, target: State, outcome: TaskOutcome, now_ms: int) -> Self:
        """Over for good, without a charge; a payment that was not taken before is released."""
        payment, settlement = replace(self.payment, document=""), self.settlement
        if not self.is_paid:
            payment, settlement = payment.released(), replace(settlement, status="not_charged")
        after = replace(self.moved(target), payment=payment, settlement=settlement)
        return after._finished(outcome, now_ms)

    # How the payment is charged.

    def settling(self, lease: Lease, now_ms: int, due_ms: int) -> Self:
        """The intent to send `/settle` once."""
        after = self.moved(State.SETTLING)
        return replace(after, settlement=self.settlement.called(now_ms), lease=lease, due_ms=due_ms)

    def unknown(self, settlement: Settlement, due_ms: int) -> Self:
        """Nobody knows whether the payment was taken; looked at again when due."""
        return replace(self.moved(State.UNKNOWN), settlement=settlement, lease=NO_LEASE, due_ms=due_ms)

    def unsent(self, settlement: Settlement, due_ms: int) -> Self:
        """The call reached nobody, and is sent again when due."""
        unsent = replace(settlement, status="authorized")
        return replace(self.moved(self._unsettled), settlement=unsent, lease=NO_LEASE, due_ms=due_ms)

    def paid(self, receipt: Mapping[str, Json] | None, now_ms: int) -> Self:
        """Delivered, or begun where it is paid before the work; without a receipt the payment is not confirmed."""
        status: Final = "settled_unconfirmed" if receipt is None else "settled"
        settlement = replace(self.settlement, status=status, receipt=receipt)
        if not self.has_result:
            after = self.moved(State.EXECUTING)
            owing = replace(settlement, owes_fee=True)
            return replace(after, payment=self.payment.spent(), settlement=owing, lease=NO_LEASE, due_ms=now_ms)
        after = self.moved(State.PARTIAL_FINAL if self.outcome.is_partial else State.COMPLETED)
        charged = replace(after, payment=self.payment.spent(), settlement=settlement)
        return charged._finished(self.outcome, now_ms)

    def not_paid(self, receipt: Mapping[str, Json], failure: Failure) -> Self:
        """Definitely not taken: the seeker may sign anew, until the task's end."""
        return replace(self._refused(State.UNPAID, receipt, failure), due_ms=self.ends_at_ms)

    def not_paid_at_last(self, receipt: Mapping[str, Json], failure: Failure, now_ms: int) -> Self:
        """Definitely not taken, and no further payment is asked for."""
        after = self._refused(State.FAILED_PERMANENT, receipt, last_refusal(failure))
        return replace(after, outcome=replace(after.outcome, finished_at_ms=now_ms), due_ms=0)

    def paid_back(self, word: Mapping[str, Json]) -> Self:
        """In the same state, with the word that what it owed was paid back."""
        return replace(self, version=self.version + 1, settlement=replace(self.settlement, refund=word))

    @property
    def _unsettled(self) -> State:
        """Where a payment that is not settled leaves the record."""
        return State.RESULT_READY if self.has_result else State.EXECUTING

    def _refused(self, target: State, receipt: Mapping[str, Json], failure: Failure) -> Self:
        settlement = replace(self.settlement, status="failed", receipt=receipt, refusals=self.settlement.refusals + 1)
        outcome = replace(self.outcome, failure=failure, finished_at_ms=0)
        after = replace(self.moved(target), payment=self.payment.released(), settlement=settlement)
        return replace(after, outcome=outcome, lease=NO_LEASE)

    def _finished(self, outcome: TaskOutcome, now_ms: int) -> Self:
        attempt = replace(self.attempt, items=())
        finished = replace(outcome, finished_at_ms=now_ms)
        return replace(self, lease=NO_LEASE, attempt=attempt, outcome=finished, due_ms=0)
