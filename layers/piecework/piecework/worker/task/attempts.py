"""Attempts: starting, interrupting and ending the work of a record, each by one conditional move (4.1 to 4.3, 5).

A runner holds a short lease that it renews while it works. A lapsed one is taken over and the *same* attempt runs
again, at most twice; then it counts as a transient failure. Past its end a task only times out: a late result is
dropped.

One run of an attempt is live at a time. A request whose time is up hands the attempt over at the run's next step;
while a step is under way it leaves the lease with the run, which hands over or ends by itself, or is taken over once
the lease has lapsed, as its process was frozen or has died.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from piecework.durable.pieces import new_token
from piecework.durable.renewal import Renewal
from piecework.errors import PieceworkError
from piecework.extend.executors import Log
from piecework.extend.right import LEASE_MS, Right, RightLost
from piecework.values import dataclass, replace
from piecework.worker.answer.failures import Ended, ended_by_undeployed
from piecework.worker.payment.cases import Case
from piecework.worker.payment.charging import Charging
from piecework.worker.payment.owing import late_fee_rows, refund_rows
from piecework.worker.record.execution import DELIVERED, LONGEST_LIFE_MS, Execution
from piecework.worker.record.executions import Executions, Moved
from piecework.worker.record.states import MAY_TIME_OUT, State
from piecework.worker.record.values import Failure, Lease, TaskOutcome
from piecework.worker.task.work import Made, Work

UNSTARTED_MS: Final = 60_000  # a task that waits in the queue longer is sent again; the sweep comes once a minute
MOST_CRASHES: Final = 2  # runs of one attempt that may be lost before it counts as failed
LOST: Final = Failure("EXECUTION_TRANSIENT", "the worker was interrupted several times")


@dataclass(frozen=True)
class Attempts:
    """Begins and ends attempts; each method returns the record as it then stands, or raises Moved."""

    executions: Executions
    work: Work
    charging: Charging
    clock: Callable[[], int]
    enqueue: Callable[[Execution], None]
    log: Log
    renewal: Callable[[Callable[[], None]], AbstractContextManager[object]] = Renewal
    token: Callable[[], str] = new_token
    keeps_days: int = 0  # how long what ends now is promised to be readable

    def leased(self, execution: Execution) -> Execution:
        """The record while this runner works on it."""
        now_ms = self.clock()
        return execution.leased(self._lease(now_ms), now_ms)

    def queued(self, execution: Execution) -> Execution:
        """The record while it waits for a runner."""
        return execution.queued(self.clock() + UNSTARTED_MS)

    def send(self, execution: Execution) -> None:
        """Put the task into the queue; if that fails, its due time finds it."""
        try:
            self.enqueue(execution)
        except PieceworkError:
            self.log.warning("task_not_queued", contract_id=execution.contract_id)

    def take(self, case: Case) -> Case:
        """Take a task that nobody works on, or whose runner is gone."""
        now_ms = self.clock()
        after = case.execution.taken(self._lease(now_ms), now_ms)
        self.executions.take_over(case.execution, after, now_ms)
        return case.now(after)

    def hand_over(self, case: Case) -> Case:
        """Leave an attempt that takes too long for a request, or for one run, to the queue."""
        after = case.execution.handed_over(self.clock() + UNSTARTED_MS)
        self.executions.move(case.execution, after)
        self.send(after)
        return case.now(after)

    def right_of(self, execution: Execution, **bounds: int) -> Right:
        """The right of the run that holds the record's lease; nothing counts after the task's end."""

        def renew(until_ms: int) -> None:
            self.executions.renew(execution.contract_id, execution.lease.token, until_ms)

        return Right(renew, execution.lease.until_ms, self.clock, ends_ms=execution.ends_at_ms, **bounds)

    def run(
        self,
        case: Case,
        until_ms: int,
        is_fresh: bool,
        is_chained: bool = False,
        right: Right | None = None,
    ) -> Made | Ended:
        """Work under a lease that is renewed meanwhile; as `Work.run`.

        Raises:
            Moved: another runner has the attempt, or it is over.
        """
        right = right or self.right_of(case.execution)
        try:
            with self.renewal(right.renew):
                return self.work.run(case, until_ms, is_fresh, is_chained, right)
        except RightLost:
            raise Moved from None

    def left(self, execution: Execution) -> None:
        """Ask for a look at the time when the lease lapses that the request leaves to its run."""
        try:
            if execution.due is not None:
                self.charging.nudge(execution.due, LEASE_MS)
        except PieceworkError:
            self.log.warning("reminder_not_sent", contract_id=execution.contract_id)  # the sweep finds the due time

    def finish(self, case: Case, done: Made | Ended, settle_seconds: float | None) -> Case:
        """Record how an attempt ended, and settle if there is time for it (None: leave it to the queue)."""
        if self.clock() >= case.execution.ends_at_ms:
            return self.time_out(case)
        if isinstance(done, Ended):
            return self._failed(case, done)
        outcome = replace(done.outcome, keeps_days=self.keeps_days)  # the files were written under this promise, too
        if case.execution.is_paid:
            return self._end(case, State.PARTIAL_FINAL if outcome.is_partial else State.COMPLETED, outcome)
        made = case.execution.with_result(outcome, done.items)
        if settle_seconds is not None:
            return self.charging.settle(case.now(made), settle_seconds)
        after = made.ready(self.clock())
        self.executions.move(case.execution, after)
        self.send(after)
        return case.now(after)

    def lost(self, case: Case) -> Case:
        """An attempt whose runners were lost too often failed for a transient reason."""
        if case.execution.is_leased(self.clock()):
            raise Moved
        return self._failed(case, Ended(LOST, is_final=False))

    def undeployed(self, case: Case) -> Case:
        """The end of a task whose executor is gone, before anything more is charged."""
        contract_id, executor = case.contract.contract_id, case.execution.executor
        self.log.warning("executor_undeployed", contract_id=contract_id, executor=executor)
        return self._failed(case, ended_by_undeployed())

    def time_out(self, case: Case) -> Case:
        """The task's time is up: nothing is kept of the seeker's money, and whatever still comes is dropped."""
        execution = case.execution
        is_deadline = case.contract.deadline_ms < execution.created_at_ms + LONGEST_LIFE_MS
        code, text = (
            ("DEADLINE_MISSED", "the contract's deadline passed") if is_deadline else ("TASK_TIMEOUT", "24 h passed")
        )
        owed = "the payment is owed back" if execution.is_paid else "nothing was charged"
        failure = Failure(code, f"{text} before the task was done; {owed}")
        return self._end(case, State.TIMED_OUT, replace(execution.outcome, failure=failure, result=None))

    def is_over(self, execution: Execution) -> bool:
        """Whether the task must time out now."""
        return execution.state in MAY_TIME_OUT and self.clock() >= execution.ends_at_ms

    def _failed(self, case: Case, ended: Ended) -> Case:
        execution = case.execution
        worked_ms = max(0, self.clock() - (execution.attempt.started_at_ms or self.clock()))
        if ended.is_final or not execution.retries_remaining:
            target = State.FAILED_PERMANENT if ended.is_final else State.EXHAUSTED
            return self._end(case, target, replace(execution.outcome, failure=ended.failure, worked_ms=worked_ms))
        after = execution.failed_for_now(ended.failure, worked_ms)
        self.executions.move(execution, after)
        return case.now(after)

    def _end(self, case: Case, target: State, outcome: TaskOutcome) -> Case:
        """Move to a final state, with what is owed after it. The output is kept only if it is delivered."""
        now_ms, execution = self.clock(), case.execution
        owed = late_fee_rows if target in DELIVERED else refund_rows
        after = execution.ended(target, replace(outcome, keeps_days=outcome.keeps_days or self.keeps_days), now_ms)
        rows = owed(case, now_ms)
        self.executions.move(execution, after, ledger=rows, webhook_at_ms=now_ms if execution.has_webhook else 0)
        return case.now(after)

    def _lease(self, now_ms: int) -> Lease:
        return Lease(self.token(), now_ms + LEASE_MS)
