"""Views: how a record is answered, and how a contract is asked to be paid (worker specification 1.5, 2.1, 5)."""

from collections.abc import Callable

from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.answer.bodies import PENDING, Answer, Bodies, payment_member
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.payment.cases import Case, Quote
from piecework.worker.payment.payments import PaymentInvalid
from piecework.worker.payment.terms import Demand, demand_for, payment_required
from piecework.worker.record.execution import DELIVERED, Execution
from piecework.worker.record.states import State
from piecework.worker.task.work import Work


@dataclass(frozen=True)
class Views:
    """Makes answers."""

    work: Work
    bodies: Bodies
    clock: Callable[[], int]
    x402_v1: bool = True
    result_days: int = 7

    def shown(self, case: Case, *, is_fresh: bool = False) -> Answer:
        """How a record is answered."""
        if case.execution.state in PENDING:
            return self.pending(case)
        return self.recorded(case.execution, case.contract, is_fresh=is_fresh)

    def pending(self, case: Case) -> Answer:
        """How a task is answered that goes on."""
        execution, expected_ms = case.execution, case.executor.expected_ms if case.executor else 0
        if not execution.attempt.items:
            return self.bodies.pending(execution, expected_ms)
        items = [self.work.item(item) for item in execution.attempt.items]
        return self.bodies.partly_done(execution, case.contract, expected_ms, items)

    def recorded(self, execution: Execution, contract: ContractRecord, *, is_fresh: bool = False) -> Answer:
        """How a task is answered that has a result or a failure."""
        if execution.outcome.result is not None and execution.state in DELIVERED:
            output = self.work.kept(execution.outcome.result)
            return self.bodies.finished(execution, contract, output, is_fresh=is_fresh)
        return self.bodies.failed(execution, contract)

    def told(self, case: Case, *, is_fresh: bool = False) -> Answer:
        """As `shown`, and where the payment was not taken with a new demand."""
        answer, execution = self.shown(case, is_fresh=is_fresh), case.execution
        failure = execution.failure
        if execution.state is not State.UNPAID or failure is None:
            return answer
        demand = payment_required(
            case.terms,
            code="PAYMENT_FAILED",
            message=failure.message,
            reason=str(failure.details["reason"]),
            v1=self.x402_v1,
            members=_members(case),
        )
        return Answer(402, demand.body, {**demand.headers, **answer.headers})

    def asked(self, quote: Quote, *, v1: bool) -> Answer:
        """The 402 of a contract that nothing is bound to; `v1`: whether payments of version 1 can be settled."""
        return _answer(payment_required(quote.terms, v1=v1 and self.x402_v1))

    def refused(self, error: PaymentInvalid, quoted: Quote | Case) -> Answer:
        """The 402 that says why a payment was not taken."""
        members = _members(quoted) if isinstance(quoted, Case) else None
        return _answer(demand_for(error, quoted.terms, v1=self.x402_v1, members=members))

    def is_forgotten(self, execution: Execution) -> bool:
        """Whether the result is past its retention, or was forgotten at an operator's request."""
        if execution.forgotten:
            return True
        return execution.is_ended and self.clock() >= execution.kept_until_ms(self.result_days)


def _answer(demand: Demand) -> Answer:
    return Answer(402, demand.body, demand.headers)


def _members(case: Case) -> dict[str, Json]:
    return {"task_id": case.execution.task_id, "payment": payment_member(case.execution, case.contract)}
