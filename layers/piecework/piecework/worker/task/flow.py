"""POST /execute: who is asked for money, who is charged, and who gets what (worker specification 1.2, 5).

The order decides who gets charged: syntax (at the edge), contract, **look-up**, deadline and input, 402, local checks,
`/verify`, **claim**, work, output check, `/settle`, record, answer. The look-up comes before any 402, which is what
keeps stock clients, which always ask unpaid first, from signing twice. What a request sees when its runner dies:

    | crash after                      | what stands  | repeated request  | what brings the task to its end            |
    |----------------------------------|--------------|-------------------|--------------------------------------------|
    | look-up, checks, `/verify`       | nothing      | as if it were new | nothing was bound; nothing can be charged  |
    | 1 claim (one transaction: nonce, | EXECUTING    | 202, same task    | the lease lapses after 15 s; its due time, |
    |   record, due time)              |              |                   | or the repeated request, has it taken over |
    | 2 work, files written            | EXECUTING    | 202, same task    | the same attempt runs again, at most twice |
    | 3 result and intent to settle    | SETTLING     | 202, same task    | lapses to UNKNOWN, reconciled: `charging`  |
    | 4 `/settle`                      | SETTLING     | 202, never a 402  | the same; charged at most once             |
    | 5 outcome, ledger, claim's end   | COMPLETED    | 200, same receipt | –                                          |
    |   (one transaction)              | or UNPAID    | 402, result kept  | a new payment, or the task's end           |
    | 6 webhook announced              | COMPLETED    | 200               | its due time announces again, same id      |
    | – hand-over to the queue         | EXECUTING or | 202, same task    | a lost message is sent again when due      |
    |                                  | RESULT_READY |                   |                                            |
"""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.due import Nudge
from piecework.errors import PieceworkError
from piecework.extend.executors import Log
from piecework.values import dataclass
from piecework.worker.answer.bodies import EXHAUSTED, Answer
from piecework.worker.answer.failures import UNDEPLOYED
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.contract.inputs import check_input
from piecework.worker.errors import WorkerError
from piecework.worker.payment.cases import Case, Cases
from piecework.worker.payment.facilitator import SupportedKinds
from piecework.worker.payment.payments import SETTLE_MARGIN_MS, VALID_BEFORE, PaymentInvalid
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions, Moved
from piecework.worker.record.states import Carries, Reply, State, reply_to, situation_of
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.start import Ask, StartAttempt
from piecework.worker.task.views import Views

RACES: Final = 16  # times that the record may move under one request; ten attempts and five payments are the most
MOST_GENERATIONS: Final = 3


@dataclass(frozen=True)
class CurrentRecord:
    """The record as a request finds it: timed out if its time is up, and looked at if it is overdue."""

    executions: Executions
    cases: Cases
    attempts: Attempts
    tell: Callable[[Case], None]
    nudge: Nudge
    clock: Callable[[], int]
    log: Log

    def current(self, contract: ContractRecord) -> Execution | None:
        """The record, timed out if its time is up. Raises Moved."""
        execution = self.executions.read(contract.contract_id)
        if execution is not None and self.attempts.is_over(execution):
            case = self.attempts.time_out(self.cases.of(contract, execution))
            self.tell(case)
            return case.execution
        return execution

    def wake(self, execution: Execution) -> None:
        """Ask for a look at a record that is due while no runner works on it."""
        now_ms = self.clock()
        due = execution.due
        if due is None or execution.is_leased(now_ms) or (due.at_ms > now_ms and not execution.lease.token):
            return
        try:
            self.nudge(due, 0)
        except PieceworkError:
            self.log.warning("reminder_not_sent", contract_id=execution.contract_id)  # the sweep finds it


@dataclass(frozen=True)
class Hire:
    """Answers POST /execute."""

    contracts: Contracts
    cases: Cases
    current: CurrentRecord
    start: StartAttempt
    views: Views
    kinds: SupportedKinds
    clock: Callable[[], int]
    count: Callable[[str], None]  # a request about a contract that is here; raises RATE_LIMITED
    admit: Callable[[str], None] = lambda executor: (
        None
    )  # raises Paused while no payment may begin work of its executor

    def execute(self, ask: Ask) -> Answer:
        """Answer one request by the table of section 5.

        Raises:
            WorkerError: refused; nothing was bound by this request.
        """
        contract = self.contracts.get(ask.contract_id)
        if contract is None:
            raise WorkerError("CONTRACT_NOT_FOUND", "no such contract; register it with POST /contracts")
        self.count(contract.contract_id)
        for _ in range(RACES):
            try:
                return self._answer(ask, contract, self.current.current(contract))
            except Moved:
                continue
        raise WorkerError("INTERNAL_ERROR", "the task kept moving under this request; ask again")

    def _answer(self, ask: Ask, contract: ContractRecord, execution: Execution | None) -> Answer:
        case = self.cases.of(contract, execution) if execution else None
        reply = self._reply(ask, case)
        try:
            if case is None or reply in BEGINNINGS:
                return self._begin(ask, contract, execution, reply)
            if reply in ABOUT_PAYMENT:
                self.admit(
                    "" if case.execution.has_result else case.execution.executor
                )  # work that is done waits for none
            return ANSWERS[reply](self, ask, case)
        except Moved:
            raise
        except PieceworkError as error:
            if error.retryable and self._has_moved(execution, contract):  # a twin of this request was faster, and paid
                raise Moved from None
            if not isinstance(error, PaymentInvalid):
                raise
            is_bound = case is not None and not case.execution.is_ended
            return self.views.refused(error, case if case and is_bound else self.cases.quote(contract))

    def _reply(self, ask: Ask, case: Case | None) -> Reply:
        if case is None:
            return reply_to(situation_of(State.NONE), Carries.PAYMENT if ask.has_payment else Carries.NOTHING)
        execution = case.execution
        code = execution.outcome.failure.code if execution.outcome.failure else ""
        may_begin_anew = execution.generation < MOST_GENERATIONS and not execution.is_paid
        situation = situation_of(
            execution.state,
            lapsed=self._is_lapsed(case),
            input_refused=code == "INVALID_INPUT" and may_begin_anew,
            forgotten=self.views.is_forgotten(execution),
        )
        columns = (Carries.NOTHING, Carries.PAYMENT)
        if execution.body_digest != ask.digest:
            columns = (Carries.OTHER_BODY, Carries.OTHER_BODY_AND_PAYMENT)
        return reply_to(situation, columns[ask.has_payment])

    def _has_moved(self, seen: Execution | None, contract: ContractRecord) -> bool:
        """Whether the record is another one than was seen; a 402 would make its client sign twice."""
        found = self.current.executions.read(contract.contract_id)
        return (found and found.version) != (seen and seen.version)

    def _is_lapsed(self, case: Case) -> bool:
        """Whether too little of the authorization is left for another attempt (2.10)."""
        needed_ms = self.clock() + case.terms.latency_ms + SETTLE_MARGIN_MS
        return not case.execution.is_paid and case.execution.payment.valid_before * 1000 < needed_ms

    def _begin(self, ask: Ask, contract: ContractRecord, before: Execution | None, reply: Reply) -> Answer:
        """Nothing is bound to this input yet: refuse it, ask for payment, or start."""
        if self.clock() >= contract.deadline_ms:
            raise WorkerError("CONTRACT_EXPIRED", "the contract's deadline has passed", contract_id=ask.contract_id)
        quote = self.cases.quote(contract)  # refused before anybody pays
        check_input(contract, ask.body)
        self.admit(quote.executor.name)
        if reply in (Reply.START, Reply.START_NEW_GENERATION):
            return self.start.anew(ask, quote, before)
        self.kinds.check(contract.network)
        return self.views.asked(quote, v1=self.kinds.serves(contract.network, 1))

    def _pending(self, ask: Ask, case: Case) -> Answer:
        self.current.wake(case.execution)
        return self.views.shown(case)

    def _repeat(self, ask: Ask, case: Case) -> Answer:
        return self.views.told(case)

    def _exhausted(self, ask: Ask, case: Case) -> Answer:
        return self.views.bodies.failed(case.execution, case.contract, EXHAUSTED)

    def _mismatch(self, ask: Ask, case: Case) -> Answer:
        raise WorkerError("BODY_MISMATCH", "this contract is bound to another input")

    def _gone(self, ask: Ask, case: Case) -> Answer:
        forgotten = "what this contract was about was forgotten; it is neither worked on nor paid again"
        message = forgotten if case.execution.forgotten else "the result was kept for its time and is gone"
        raise WorkerError("CONTRACT_EXPIRED", message)

    def _ask_again(self, ask: Ask, case: Case) -> Answer:
        if not case.execution.has_result:  # paid before the work, which is still to be done
            self._check_served(case)
        return self.views.told(case)

    def _ask_lapsed(self, ask: Ask, case: Case) -> Answer:
        self._check_served(case)
        self.kinds.check(case.contract.network)
        raise PaymentInvalid(VALID_BEFORE, "the authorization is too old for another attempt; sign a new one")

    def _settle_result(self, ask: Ask, case: Case) -> Answer:
        if not case.execution.has_result:
            self._check_served(case)
        return self.start.settle_result(ask, case)

    def _retry(self, ask: Ask, case: Case) -> Answer:
        return self.start.retry(ask, case)

    def _replace_and_retry(self, ask: Ask, case: Case) -> Answer:
        self._check_served(case)
        return self.start.replace_and_retry(ask, case)

    def _check_served(self, case: Case) -> None:
        """Pass if the executor is deployed; else the seeker is not asked to pay.

        Raises:
            WorkerError: EXECUTION_FAILED; the executor is not deployed any more. Nothing is recorded: it may come back.
            ExecutorBroken: it cannot be loaded now.
        """
        if self.cases.deployed(case.execution) is None:
            raise WorkerError("EXECUTION_FAILED", UNDEPLOYED, task_id=case.execution.task_id)


BEGINNINGS: Final = frozenset({Reply.ASK_NEW_GENERATION, Reply.START_NEW_GENERATION})
ABOUT_PAYMENT: Final = frozenset(  # these ask for a payment, or take one
    {Reply.ASK_AGAIN, Reply.ASK_LAPSED, Reply.SETTLE_RESULT, Reply.REPLACE_AND_RETRY}
)
ANSWERS: Final[Mapping[Reply, Callable[[Hire, Ask, Case], Answer]]] = {
    Reply.PENDING: Hire._pending,
    Reply.ASK_AGAIN: Hire._ask_again,
    Reply.SETTLE_RESULT: Hire._settle_result,
    Reply.REPEAT_RESULT: Hire._repeat,
    Reply.RETRY: Hire._retry,
    Reply.ASK_LAPSED: Hire._ask_lapsed,
    Reply.REPLACE_AND_RETRY: Hire._replace_and_retry,
    Reply.REPEAT_FAILURE: Hire._repeat,
    Reply.EXHAUSTED: Hire._exhausted,
    Reply.MISMATCH: Hire._mismatch,
    Reply.GONE: Hire._gone,
}
