"""A case: a hired task as one look finds it, with its contract, its record, who works on it, and what it costs.

A case is made once per look and handed on; a move makes the next one with `now`. Before anything is bound to a
contract there is a `Quote` in its place.
"""

from functools import cached_property
from typing import Self

from piecework.extend.broken import ExecutorBroken
from piecework.extend.executors import Executor
from piecework.extend.manifest import Bundle
from piecework.values import dataclass, replace
from piecework.worker.contract.choosing import Offer
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution


@dataclass(frozen=True, slots=True)
class Quote:
    """A contract that nothing is bound to: who would work on it, and what that costs."""

    contract: ContractRecord
    executor: Executor
    terms: PaymentTerms


@dataclass(frozen=True, slots=True)
class Case:
    """A contract with its record; terms are those that it was claimed under."""

    contract: ContractRecord
    execution: Execution
    executor: Executor | None  # None where the one that it was claimed for is gone, or cannot be loaded now
    terms: PaymentTerms

    def now(self, execution: Execution) -> Self:
        """The same case after a move of its record."""
        return replace(self, execution=execution)


@dataclass(frozen=True)
class Cases:
    """Makes cases and quotes."""

    bundle: Bundle
    public_base_url: str | PublicUrl

    @cached_property
    def offer(self) -> Offer:
        """Which executors contracts may name."""
        return Offer.of(self.bundle)

    def quote(self, contract: ContractRecord) -> Quote:
        """Who would work on a contract now.

        Raises:
            ContractInvalid: this worker has no executor for it.
            ExecutorBroken: its executor cannot be loaded now.
        """
        executor = self.bundle.named(self.offer.name_for(contract.document))
        terms = self._terms(contract, executor.max_duration_ms, executor.settle == "before")
        return Quote(contract, executor, terms)

    def of(self, contract: ContractRecord, execution: Execution) -> Case:
        """A contract with its record; the executor may be gone, and the record is settled and answered all the same."""
        try:
            executor = self.deployed(execution)
        except ExecutorBroken:
            executor = None
        longest_ms = execution.longest_ms or (executor.max_duration_ms if executor else None)
        return Case(contract, execution, executor, self._terms(contract, longest_ms, execution.settle_before))

    def deployed(self, execution: Execution) -> Executor | None:
        """Who works on a record, or None where that executor is not deployed any more.

        Raises:
            ExecutorBroken: it cannot be loaded now.
        """
        name, bundle = execution.executor, self.bundle
        return bundle.named(name) if name in (*bundle.names, *bundle.broken_names) else None

    def _terms(self, contract: ContractRecord, longest_ms: int | None, settle_before: bool) -> PaymentTerms:
        return PaymentTerms.of(contract, longest_ms, str(self.public_base_url), settle_before)
