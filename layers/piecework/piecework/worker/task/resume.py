"""Resuming a task: whatever its record waits for is done, upon queue messages and due times (4.2).

A look does nothing when somebody else is at work or the record moved on, so messages may be lost, late or doubled.
"""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.due import Due, DueTimes, named_by
from piecework.errors import BadRequest, PieceworkError
from piecework.extend.executors import Log
from piecework.extend.right import HandedOver
from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.payment.cases import Case, Cases
from piecework.worker.payment.charging import Charging
from piecework.worker.payment.facilitator import SETTLE_SECONDS_QUEUED
from piecework.worker.payment.voided import VoidedAuthorizations
from piecework.worker.record.execution import RELEASED_DUE, TASK_DUE, WEBHOOK_DUE, Execution
from piecework.worker.record.executions import Executions, Moved
from piecework.worker.record.states import State
from piecework.worker.task.attempts import MOST_CRASHES, Attempts

MOST_STEPS: Final = 8  # of one look; a task needs at most four
RUN_MARGIN_MS: Final = 40_000  # of a function's time, kept for recording and settling


@dataclass(frozen=True)
class Resume:
    """Moves records on."""

    contracts: Contracts
    executions: Executions
    cases: Cases
    attempts: Attempts
    charging: Charging
    voided: VoidedAuthorizations
    due_times: DueTimes
    announce: Callable[[Execution, ContractRecord], None]  # tells the seeker's webhook; may be repeated
    clock: Callable[[], int]
    log: Log

    def fire(self, due: Due, until_ms: int) -> Execution | None:
        """Look at a due time that has come; its row goes when it does not belong to the record any more.

        Raises:
            PieceworkError: a store is out of reach; look again later.
        """
        if due.kind == WEBHOOK_DUE:
            return self._announce(due)
        if due.kind == RELEASED_DUE:
            self.voided.look(due)
            return None
        if due.kind != TASK_DUE:  # a newer version's; its row is not ours to remove
            raise BadRequest("this version knows no due time of this kind")
        record = self.drive(due.id, until_ms)
        if record is None or record.due != due:
            self.due_times.remove(due)
        return record

    def drive(self, contract_id: str, until_ms: int) -> Execution | None:
        """Do what can be done for a contract now; returns the record as it then stands.

        Raises:
            PieceworkError: a store is out of reach; look again later.
        """
        found = self.executions.read(contract_id)
        if found is None or found.is_ended:
            return found
        contract = self.contracts.get(contract_id)
        if contract is None:
            return found
        case = self.cases.of(contract, found)
        try:
            for _ in range(MOST_STEPS):
                after = None if case.execution.is_ended else self._step(case, until_ms)
                if after is None:
                    break
                case = after
        except Moved:
            return self.executions.read(contract_id)  # somebody else is at it
        self.tell(case)
        return case.execution

    def tell(self, case: Case) -> None:
        """Announce an end at once, where there is one to announce; if that fails its due time does it again."""
        execution = case.execution
        if execution.forgotten or not (execution.is_ended and execution.has_webhook):
            return
        try:
            self.announce(execution, case.contract)
            self.due_times.remove(Due(execution.outcome.finished_at_ms, WEBHOOK_DUE, execution.contract_id))
        except PieceworkError:
            self.log.warning("webhook_not_announced", contract_id=execution.contract_id)

    def _announce(self, due: Due) -> Execution | None:
        execution, contract = self.executions.read(due.id), self.contracts.get(due.id)
        if execution is not None and contract is not None and execution.is_ended and not execution.forgotten:
            self.announce(execution, contract)
        self.due_times.remove(due)
        return execution

    def _step(self, case: Case, until_ms: int) -> Case | None:
        """One move, or None when there is nothing to do now."""
        execution = case.execution
        if self.attempts.is_over(execution):
            return self.attempts.time_out(case)
        if execution.is_leased(self.clock()):
            return None
        if execution.state is State.EXECUTING:
            return self._work(case, until_ms)
        if execution.state is State.SETTLING:
            return self.charging.look(self.charging.lapsed(case))
        return self._settle_when_due(case)

    def _settle_when_due(self, case: Case) -> Case | None:
        if not 0 < case.execution.due_ms <= self.clock():
            return None
        if case.execution.state is State.RESULT_READY:
            return self.charging.settle(case)
        if case.execution.state is State.UNKNOWN:
            return self.charging.look(case)
        return None

    def _work(self, case: Case, until_ms: int) -> Case | None:
        execution = case.execution
        if self.cases.deployed(execution) is None:
            return self.attempts.undeployed(case)
        if execution.settle_before and not execution.is_paid:
            waits = execution.settlement.calls > 0 and execution.due_ms > self.clock()  # not sent; tried when due
            return None if waits else self.charging.settle(case)
        if execution.lease.token and execution.attempt.crashes >= MOST_CRASHES:
            return self.attempts.lost(case)
        is_fresh = execution.attempt.started_at_ms == 0
        held = self.attempts.take(case)
        try:
            done = self.attempts.run(held, until_ms - RUN_MARGIN_MS, is_fresh, is_chained=True)
        except HandedOver:
            self.attempts.hand_over(held)
            raise Moved from None  # to the queue: this run has no time left for it
        return self.attempts.finish(held, done, SETTLE_SECONDS_QUEUED)


def task_message(execution: Execution) -> dict[str, str | int]:
    """What is put into the queue: ids only."""
    return {
        "kind": TASK_DUE,
        "contract_id": execution.contract_id,
        "task_id": execution.task_id,
        "generation": execution.generation,
        "attempt": execution.attempt.number,
    }


def due_message(due: Due) -> dict[str, str | int]:
    """A due time on its way to who looks at it."""
    return {"kind": due.kind, "contract_id": due.id, "due_ms": due.at_ms}


def due_of(message: Mapping[str, Json]) -> Due | None:
    """The due time that a message is about, or None for one that just wants the task to go on. Raises BadRequest."""
    return named_by(message, "contract_id") if "due_ms" in message else None
