"""Starting: from a payment to an answer, by way of the claim, the work and the settlement (1.2 steps 6 to 12, 4.1).

Short work is done inside the request, under a lease; what takes longer than the request has goes on in the queue, as
`inlined.py` says. Work that is finished is not repeated for that: its result stands, and the queue only settles it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from piecework.edge.http import Request
from piecework.errors import PieceworkError
from piecework.extend.executors import Log
from piecework.jsons import Json, canonical
from piecework.worker.answer.bodies import Answer
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.ids import new_task_id
from piecework.worker.payment.charging import Charging
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.facilitator import Facilitator, SupportedKinds
from piecework.worker.payment.payments import Payment, PaymentInvalid, check_payment, claim_key, parse_payment
from piecework.worker.record.execution import LONGEST_LIFE_MS, Execution
from piecework.worker.record.executions import Executions, NonceTaken
from piecework.worker.record.states import State
from piecework.worker.record.values import Attempt, BoundPayment
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.inlined import ANSWER_MS, WORK_MS, InlineRun
from piecework.worker.task.views import Views

T = TypeVar("T")

SHORT_MS: Final = 10_000  # expected work that is done inside the request
SETTLE_SECONDS: Final = 10.0
SETTLE_ROOM_MS: Final = 5_000  # no settlement starts inside a request with less than this left
REQUEST_MS: Final = 25_000  # the whole budget; the edge gives up at 29 s
EDGE_MARGIN_MS: Final = 2_000
FARTHEST_SECONDS: Final = 253_402_300_799  # the year 9999; an authorization may say anything


class TookTooLong(Exception):
    """Work went on past the time a request has for it."""


class Bounded(Protocol):
    """Runs work for at most so many seconds. Raises TookTooLong; the work itself cannot be stopped."""

    def __call__(self, work: Callable[[], T], seconds: float) -> T: ...


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
class Starting:
    """Binds payments and begins attempts."""

    executions: Executions
    attempts: Attempts
    charging: Charging
    views: Views
    facilitator: Facilitator
    kinds: SupportedKinds
    bounded: Bounded
    current: Callable[[ContractRecord], Execution | None]  # the record as it stands
    tell: Callable[[Execution, ContractRecord], None]
    clock: Callable[[], int]
    log: Log
    counts: SettlementCounts
    task_id: Callable[[], str] = new_task_id

    def verified(self, ask: Ask, contract: ContractRecord, execution: Execution | None = None) -> Payment:
        """The request's payment, checked here and by the facilitator.

        Raises:
            PaymentInvalid: it does not pay this contract.
            NonceTaken: it is bound to another contract, or to another input of this one.
            WorkerError: it cannot be read, is another's, or the facilitator cannot be asked.
        """
        rules, terms = self.views.rules, self.views.terms_of(contract, execution)
        payment = parse_payment(ask.request, v1=rules.x402_v1)
        if payment is None:
            raise PaymentInvalid("invalid_payload", "the payment header is empty")
        check_payment(payment, terms, contract, self.clock(), bind_payer=rules.bind_payer)
        self.kinds.check(contract.network, payment.version)
        verdict = self.facilitator.verify(payment, terms)
        if verdict.payer_differs:
            self.log.warning("payer_differs", contract_id=ask.contract_id)
            self.counts.strange()
        if not verdict.is_valid:
            own = execution.payment.claim_key if execution and not execution.is_ended else ""
            key = claim_key(payment.authorization, contract.network)
            if key != own and self.executions.is_claimed(key):  # whatever a facilitator says of a payment that was used
                raise NonceTaken
            raise PaymentInvalid(verdict.reason or "invalid_payload")
        return payment

    def anew(self, ask: Ask, contract: ContractRecord, before: Execution | None) -> Answer:
        """The first attempt of a contract, or of a new input in place of one that was refused.

        Both are paid by the terms of who works now: those of the refused one ended with it.
        """
        payment = self.verified(ask, contract)
        return self._start(ask, contract, before, self._new(ask, contract, payment, before))

    def retry(self, ask: Ask, contract: ContractRecord, execution: Execution) -> Answer:
        """The next attempt, under the payment that is bound already."""
        inline = self._is_short(ask, contract, execution)
        after = self._beginning(execution.next_attempt(), inline)
        self.executions.move(execution, after)
        return self._go_on(ask, contract, after, inline)

    def replace_and_retry(self, ask: Ask, contract: ContractRecord, execution: Execution) -> Answer:
        """The next attempt under a new payment; the old one is released."""
        payment = self.verified(ask, contract, execution)
        return self._start(ask, contract, execution, execution.next_attempt().bound(bound_payment(payment, contract)))

    def settle_result(self, ask: Ask, contract: ContractRecord, execution: Execution) -> Answer:
        """A new payment for work that is done: settle it and release the result, without running again."""
        payment = self.verified(ask, contract, execution)
        if claim_key(payment.authorization, contract.network) == execution.payment.claim_key:
            return self.views.told(execution, contract)  # the one that was not taken
        bound = execution.paid_anew(bound_payment(payment, contract), self.clock())
        self.executions.claim(execution, bound)
        seconds = self._settle_seconds(ask, contract)
        if seconds is None or not bound.has_result:
            self.attempts.send(bound)
            return self.views.shown(bound, contract)
        terms = self.views.terms_of(contract, bound)
        return self._ended(contract, bound, lambda: self.charging.settle(bound, contract, terms, seconds))

    def _new(self, ask: Ask, contract: ContractRecord, payment: Payment, before: Execution | None) -> Execution:
        """A record's beginning, or that of a new generation in place of `before`."""
        now_ms, executor = self.clock(), self.views.work.executor_of(contract)
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
            payment=bound_payment(payment, contract),
            attempt=Attempt(1, contract.attempts),
            settle_before=executor.settle == "before",
            longest_ms=executor.max_duration_ms,
            has_webhook=contract.webhook_url is not None,
        )
        return made if before is None else replace(made, state=before.moved(State.EXECUTING).state)

    def _start(self, ask: Ask, contract: ContractRecord, before: Execution | None, made: Execution) -> Answer:
        """Claim, then work inside the request or hand the task to the queue."""
        inline = self._is_short(ask, contract, made)
        execution = self._beginning(made, inline)
        self.executions.claim(before, execution)
        return self._go_on(ask, contract, execution, inline)

    def _beginning(self, execution: Execution, inline: bool) -> Execution:
        return self.attempts.leased(execution) if inline else self.attempts.queued(execution)

    def _go_on(self, ask: Ask, contract: ContractRecord, execution: Execution, inline: bool) -> Answer:
        if inline:
            return self._ended(contract, execution, lambda: self._inline(ask, contract, execution))
        self.attempts.send(execution)
        return self.views.shown(execution, contract)

    def _ended(self, contract: ContractRecord, execution: Execution, act: Callable[[], Execution]) -> Answer:
        """The answer after work inside the request; where that was interrupted, the task goes on without us."""
        try:
            after = act()
        except PieceworkError:  # moved on by somebody else, or a store is out of reach
            self.log.warning("inline_interrupted", contract_id=execution.contract_id)
            return self.views.told(self.current(contract) or execution, contract)
        self.tell(after, contract)
        return self.views.told(after, contract, is_fresh=True)

    def _inline(self, ask: Ask, contract: ContractRecord, execution: Execution) -> Execution:
        run = self._run(ask, contract, execution)
        try:
            self.bounded(run.work, (run.until_ms - self.clock()) / 1000)
        except TookTooLong:
            self.log.warning("work_left_by_request", contract_id=execution.contract_id)
        done = run.leave()
        if done is None:
            self.attempts.left(execution)
            return execution
        return run.end(done, self._settle_seconds(ask, contract))

    def _run(self, ask: Ask, contract: ContractRecord, execution: Execution) -> InlineRun:
        now_ms, answer_ms = self.clock(), self._until_ms(ask, contract)
        leaves_ms = min(now_ms + WORK_MS, answer_ms - SETTLE_ROOM_MS)
        return InlineRun(
            attempts=self.attempts,
            execution=execution,
            contract=contract,
            terms=self.views.terms_of(contract, execution),
            right=self.attempts.right_of(execution, leaves_ms=leaves_ms),
            until_ms=answer_ms - ANSWER_MS,
            tell=self.tell,
            log=self.log,
        )

    def _settle_seconds(self, ask: Ask, contract: ContractRecord) -> float | None:
        left_ms = self._until_ms(ask, contract) - self.clock()
        return None if left_ms < SETTLE_ROOM_MS else min(SETTLE_SECONDS, left_ms / 1000)

    def _until_ms(self, ask: Ask, contract: ContractRecord) -> int:
        """When this request must be answered."""
        edge_ms = self.clock() + ask.request.remaining_ms() - EDGE_MARGIN_MS
        return min(ask.began_ms + min(contract.sync_deadline_ms, REQUEST_MS), edge_ms)

    def _is_short(self, ask: Ask, contract: ContractRecord, execution: Execution) -> bool:
        executor = self.views.executor_of(contract, execution)
        if executor is None or executor.long or execution.settle_before or executor.expected_ms > SHORT_MS:
            return False
        return self.clock() + executor.expected_ms + SETTLE_ROOM_MS <= self._until_ms(ask, contract)


def bound_payment(payment: Payment, contract: ContractRecord) -> BoundPayment:
    """What a record says of a payment that was just bound to it."""
    return BoundPayment(
        claim_key=claim_key(payment.authorization, contract.network),
        payer=payment.authorization.from_,
        valid_before=min(payment.authorization.valid_before, FARTHEST_SECONDS),
        document=canonical(payment.document).decode(),
        version=payment.version,
    )
