"""Starting an attempt: from a payment to an answer, by claim, work and settlement (1.2 steps 6 to 12, 4.1).

Short work is done inside the request, under a lease; what takes longer than the request has goes on in the queue, as
`inlined.py` says. Work that is finished is not repeated for that: its result stands, and the queue only settles it.
"""

from collections.abc import Callable
from typing import Final

from piecework.edge.http import Request
from piecework.errors import PieceworkError
from piecework.extend.executors import Log
from piecework.jsons import Json, canonical
from piecework.values import dataclass, field, replace
from piecework.worker.answer.bodies import Answer
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.ids import new_task_id
from piecework.worker.payment.cases import Case, Cases, Quote
from piecework.worker.payment.payments import Payment, claim_key
from piecework.worker.payment.verifying import Verifying
from piecework.worker.record.execution import LONGEST_LIFE_MS, Execution
from piecework.worker.record.executions import Executions
from piecework.worker.record.states import State
from piecework.worker.record.values import Attempt, BoundPayment
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.inlined import ANSWER_MS, WORK_MS, InlineRun
from piecework.worker.task.views import Views

SHORT_MS: Final = 10_000  # expected work that is done inside the request
SETTLE_SECONDS: Final = 10.0
SETTLE_ROOM_MS: Final = 5_000  # no settlement starts inside a request with less than this left
REQUEST_MS: Final = 25_000  # the whole budget; the edge gives up at 29 s
EDGE_MARGIN_MS: Final = 2_000
FARTHEST_SECONDS: Final = 253_402_300_799  # the year 9999; an authorization may say anything


class TookTooLong(Exception):
    """Work went on past the time a request has for it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, past the edge's checks."""

    request: Request
    contract_id: str
    body: Json = field(repr=False)
    digest: str
    began_ms: int

    @property
    def has_payment(self) -> bool:
        return bool(self.request.headers.get("payment-signature") or self.request.headers.get("x-payment"))


@dataclass(frozen=True)
class StartAttempt:
    """Binds payments and begins attempts."""

    executions: Executions
    attempts: Attempts
    cases: Cases
    views: Views
    verifying: Verifying
    bounded: Callable[[Callable[[], None], float], None]  # raises TookTooLong after so many seconds; the work goes on
    current: Callable[[ContractRecord], Execution | None]  # the record as it stands
    tell: Callable[[Case], None]
    clock: Callable[[], int]
    log: Log
    task_id: Callable[[], str] = new_task_id

    def anew(self, ask: Ask, quote: Quote, before: Execution | None) -> Answer:
        """The first attempt of a contract, or of a new input in place of one that was refused.

        Both are paid by the terms of who works now: those of the refused one ended with it. Its end is announced, again
        where it was, since nothing tells of it once another record has its place.
        """
        payment = self.verifying.verified(ask.request, quote)
        if before is not None:
            self.tell(Case(quote.contract, before, quote.executor, quote.terms))
        execution = self._new(ask, quote, bound_payment(payment, quote.contract), before)
        return self._start(ask, Case(quote.contract, execution, quote.executor, quote.terms), before)

    def retry(self, ask: Ask, case: Case) -> Answer:
        """The next attempt, under the payment that is bound already."""
        inline = self._is_short(ask, case)
        after = self._beginning(case.execution.next_attempt(), inline)
        self.executions.move(case.execution, after)
        return self._go_on(ask, case.now(after), inline)

    def replace_and_retry(self, ask: Ask, case: Case) -> Answer:
        """The next attempt under a new payment; the old one is released."""
        payment = bound_payment(self.verifying.verified(ask.request, case), case.contract)
        return self._start(ask, case.now(case.execution.next_attempt().bound(payment)), case.execution)

    def settle_result(self, ask: Ask, case: Case) -> Answer:
        """A new payment for work that is done: settle it and release the result, without running again."""
        payment = bound_payment(self.verifying.verified(ask.request, case), case.contract)
        if payment.claim_key == case.execution.payment.claim_key:
            return self.views.told(case)  # the one that was not taken
        bound = case.now(case.execution.paid_anew(payment, self.clock()))
        self.executions.claim(case.execution, bound.execution)
        seconds = self._settle_seconds(ask, case)
        if seconds is None or not bound.execution.has_result:
            self.attempts.send(bound.execution)
            return self.views.shown(bound)
        return self._ended(bound, lambda: self.attempts.charging.settle(bound, seconds))

    def _new(self, ask: Ask, quote: Quote, payment: BoundPayment, before: Execution | None) -> Execution:
        """A record's beginning, or that of a new generation in place of `before`."""
        now_ms, contract, executor = self.clock(), quote.contract, quote.executor
        task_id = before.task_id if before else self.task_id()
        generation = before.generation + 1 if before else 1
        made = Execution(
            contract_id=contract.contract_id,
            task_id=task_id,
            state=State.EXECUTING,
            version=before.version + 1 if before else 1,
            generation=generation,
            body_digest=ask.digest,
            executor=executor.name,
            created_at_ms=now_ms,
            ends_at_ms=min(now_ms + LONGEST_LIFE_MS, contract.deadline_ms),
            input=self.views.work.keep(
                f"work/{contract.contract_id}/{task_id}/g{generation}/{ask.digest}/input", ask.body
            ),
            payment=payment,
            attempt=Attempt(1, contract.attempts),
            settle_before=executor.settle == "before",
            longest_ms=executor.max_duration_ms,
            has_webhook=contract.webhook_url is not None,
        )
        return made if before is None else replace(made, state=before.moved(State.EXECUTING).state)

    def _start(self, ask: Ask, case: Case, before: Execution | None) -> Answer:
        """Claim, then work inside the request or hand the task to the queue."""
        inline = self._is_short(ask, case)
        begun = case.now(self._beginning(case.execution, inline))
        self.executions.claim(before, begun.execution)
        return self._go_on(ask, begun, inline)

    def _beginning(self, execution: Execution, inline: bool) -> Execution:
        return self.attempts.leased(execution) if inline else self.attempts.queued(execution)

    def _go_on(self, ask: Ask, case: Case, inline: bool) -> Answer:
        if inline:
            return self._ended(case, lambda: self._inline(ask, case))
        self.attempts.send(case.execution)
        return self.views.shown(case)

    def _ended(self, case: Case, act: Callable[[], Case]) -> Answer:
        """The answer after work inside the request; where that was interrupted, the task goes on without us."""
        try:
            after = act()
        except PieceworkError:  # moved on by somebody else, or a store is out of reach
            self.log.warning("inline_interrupted", contract_id=case.contract.contract_id)
            found = self.current(case.contract)
            return self.views.told(self.cases.of(case.contract, found) if found else case)
        self.tell(after)
        return self.views.told(after, is_fresh=True)

    def _inline(self, ask: Ask, case: Case) -> Case:
        run = self._run(ask, case)
        try:
            self.bounded(run.work, (run.until_ms - self.clock()) / 1000)
        except TookTooLong:
            self.log.warning("work_left_by_request", contract_id=case.contract.contract_id)
        done = run.leave()
        if done is None:
            self.attempts.left(case.execution)
            return case
        return run.end(done, self._settle_seconds(ask, case))

    def _run(self, ask: Ask, case: Case) -> InlineRun:
        now_ms, answer_ms = self.clock(), self._until_ms(ask, case)
        leaves_ms = min(now_ms + WORK_MS, answer_ms - SETTLE_ROOM_MS)
        return InlineRun(
            attempts=self.attempts,
            case=case,
            right=self.attempts.right_of(case.execution, leaves_ms=leaves_ms),
            until_ms=answer_ms - ANSWER_MS,
            tell=self.tell,
            log=self.log,
        )

    def _settle_seconds(self, ask: Ask, case: Case) -> float | None:
        left_ms = self._until_ms(ask, case) - self.clock()
        return None if left_ms < SETTLE_ROOM_MS else min(SETTLE_SECONDS, left_ms / 1000)

    def _until_ms(self, ask: Ask, case: Case) -> int:
        """When this request must be answered."""
        edge_ms = self.clock() + ask.request.remaining_ms() - EDGE_MARGIN_MS
        return min(ask.began_ms + min(case.contract.sync_deadline_ms, REQUEST_MS), edge_ms)

    def _is_short(self, ask: Ask, case: Case) -> bool:
        executor = case.executor
        if executor is None or executor.long or case.execution.settle_before or executor.expected_ms > SHORT_MS:
            return False
        return self.clock() + executor.expected_ms + SETTLE_ROOM_MS <= self._until_ms(ask, case)


def bound_payment(payment: Payment, contract: ContractRecord) -> BoundPayment:
    """What a record says of a payment that was just bound to it."""
    return BoundPayment(
        claim_key=claim_key(payment.authorization, contract.network),
        payer=payment.authorization.from_,
        valid_before=min(payment.authorization.valid_before, FARTHEST_SECONDS),
        document=canonical(payment.document).decode(),
        version=payment.version,
        atomic=payment.authorization.value,
    )
