"""Views: how a record is answered, and how a contract is asked to be paid (worker specification 1.5, 2.1, 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from piecework.extend.broken import ExecutorBroken
from piecework.extend.executors import Executor
from piecework.jsons import Json
from piecework.worker.answer.bodies import PENDING, Answer, Bodies, payment_member
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.payment.payments import PaymentInvalid
from piecework.worker.payment.terms import Demand, PaymentTerms, demand_for, payment_required
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.task.work import Work

PAID: Final = frozenset({State.COMPLETED, State.PARTIAL_FINAL})


@dataclass(frozen=True)
class Rules:
    """The settings that the flow looks at."""

    public_base_url: str | PublicUrl
    x402_v1: bool = True
    bind_payer: bool = True
    result_days: int = 7


@dataclass(frozen=True)
class Views:
    """Makes answers."""

    work: Work
    bodies: Bodies
    rules: Rules
    clock: Callable[[], int]

    def executor_of(self, contract: ContractRecord, execution: Execution | None = None) -> Executor | None:
        """Who serves a contract, or served it when it was claimed; None where that one cannot be had any more.

        Raises:
            ContractInvalid: nothing is claimed, and nobody serves the contract.
        """
        if execution is None:
            return self.work.executor_of(contract)
        try:
            return self.work.named(execution.executor)
        except ExecutorBroken:  # what is recorded is settled and told all the same
            return None

    def terms_of(self, contract: ContractRecord, execution: Execution | None = None) -> PaymentTerms:
        """What a contract costs; the same for every request of it."""
        executor = self.executor_of(contract, execution)
        before = execution.settle_before if execution else executor is not None and executor.settle == "before"
        longest_ms = (execution.longest_ms if execution else 0) or (executor.max_duration_ms if executor else None)
        return PaymentTerms.of(contract, longest_ms, str(self.rules.public_base_url), before)

    def shown(self, execution: Execution, contract: ContractRecord, *, is_fresh: bool = False) -> Answer:
        """How a record is answered."""
        if execution.outcome.result is not None and execution.state in PAID:
            output = self.work.kept(execution.outcome.result)
            return self.bodies.finished(execution, contract, output, is_fresh=is_fresh)
        if execution.state in PENDING:
            executor = self.executor_of(contract, execution)
            expected_ms = executor.expected_ms if executor else 0
            if not execution.attempt.items:
                return self.bodies.pending(execution, expected_ms)
            items = [self.work.item(item) for item in execution.attempt.items]
            return self.bodies.partly_done(execution, contract, expected_ms, items)
        return self.bodies.failed(execution, contract)

    def told(self, execution: Execution, contract: ContractRecord, *, is_fresh: bool = False) -> Answer:
        """As `shown`, and where the payment was not taken with a new demand."""
        answer = self.shown(execution, contract, is_fresh=is_fresh)
        if execution.state is not State.UNPAID or execution.outcome.failure is None:
            return answer
        demand = payment_required(
            self.terms_of(contract, execution),
            code="PAYMENT_FAILED",
            message=execution.outcome.failure.message,
            reason=str(execution.outcome.failure.details["reason"]),
            v1=self.rules.x402_v1,
            members=_members(execution, contract),
        )
        return Answer(402, demand.body, {**demand.headers, **answer.headers})

    def asked(self, contract: ContractRecord, *, v1: bool) -> Answer:
        """The 402 of a contract that nothing is bound to; `v1`: whether payments of version 1 can be settled."""
        return _answer(payment_required(self.terms_of(contract), v1=v1 and self.rules.x402_v1))

    def refused(self, error: PaymentInvalid, contract: ContractRecord, execution: Execution | None) -> Answer:
        """The 402 that says why a payment was not taken."""
        members = _members(execution, contract) if execution else None
        terms = self.terms_of(contract, execution)
        return _answer(demand_for(error, terms, v1=self.rules.x402_v1, members=members))

    def is_forgotten(self, execution: Execution) -> bool:
        """Whether the result is past its retention."""
        return execution.is_ended and self.clock() >= execution.kept_until_ms(self.rules.result_days)


def _answer(demand: Demand) -> Answer:
    return Answer(402, demand.body, demand.headers)


def _members(execution: Execution, contract: ContractRecord) -> dict[str, Json]:
    return {"task_id": execution.task_id, "payment": payment_member(execution, contract)}
