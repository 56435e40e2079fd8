"""Runs of hosted agents: one wake-up looks at one execution, and runs its executor from the top if it is its turn.

One run at a time: a lease of seconds, renewed while the executor works. Who comes while another runs leaves a mark, and
the one who runs checks once more before it gives the lease back, so it does not overlook a result of that time. Before
each step, tool and end a run asks for its right (`right.py`): one that was taken over ends there, whatever it made.

| crash after | what follows |
|---|---|
| the lease was taken | it lapses; the message comes back, or the execution's due time wakes it: the run starts again |
| a `run.step` was recorded | the same; the step is not run again |
| a `run.tool` was asked for | the same; the call has its key, so it is made once, and the run waits for its answer |
| the end was recorded | nothing: an execution that has ended is not run |
"""

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from piecework.clock import now_in_ms
from piecework.durable.pieces import Claim, State
from piecework.durable.renewal import Renewal
from piecework.durable.steps import ListedSteps
from piecework.errors import LeaseLost, PieceworkError, Retryable, Unprocessable
from piecework.extend.bounds import REASON_BYTES
from piecework.extend.executors import Executor, Log, Outcome, Run, Task
from piecework.extend.faults import fault_of
from piecework.extend.right import Right, RightLost
from piecework.kernel.errors import Conflict, Unauthorized
from piecework.kernel.hosted.lasting import LastingSteps, LastingTable, steps_key
from piecework.kernel.hosted.reports import Account
from piecework.kernel.hosted.tasks import deadline_ms, output_problem, task_of
from piecework.kernel.hosted.tools import Diverged, Halt, Tools
from piecework.kernel.model.commands import COMPLETE, FAIL, Intent
from piecework.kernel.model.hosted import is_idle
from piecework.kernel.model.ports.executions import Details, Executions
from piecework.kernel.service.service import Kernel
from piecework.kernel.settings import KernelSettings
from piecework.values import dataclass, field

LEASE_MS: Final = 15_000  # three missed renewals; a killed run is taken over after this
MOST_TRIES: Final = 5  # runs in a row that failed for a while or lost their process
FIRST_DELAY_MS: Final = 2_000  # before the second try; twice as long before each further one
STEPS_KEPT_SECONDS: Final = 86_400  # beyond the execution's own time

FAILED: Final = "the executor failed; the log has the reason"
LOST: Final = f"the executor was started {MOST_TRIES} times and did not end once"
NO_EXECUTOR: Final = "no executor of this name is deployed any more"


class Turn(NamedTuple):
    """One run of an executor: its execution as it began, and what it has done."""

    view: Details
    account: Account


class Leases(Protocol):
    """Who may run an execution now."""

    def claim(self, execution_id: str, token: str, now_ms: int, until_ms: int) -> int | None:
        """Which try in a row this is, from 1; None when another run holds the lease, which then checks once more."""

    def renew(self, execution_id: str, token: str, until_ms: int) -> None:
        """Raises LeaseLost."""

    def release(self, execution_id: str, token: str) -> bool:
        """Give the lease back and forget the tries; False when another wake-up came meanwhile: check again first.

        Raises:
            LeaseLost: another run has taken over.
        """

    def give_up(self, execution_id: str, token: str) -> None:
        """Give the lease back after a try that failed; nothing happens when it is lost."""


class End(NamedTuple):
    """How a run ended, in a word for the log; `again_ms` when it is to be tried again after that time."""

    word: str
    again_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Hosted:
    """Looks at hosted executions."""

    executions: Executions
    kernel: Kernel
    leases: Leases
    steps: LastingTable
    executor_of: Callable[[str], Executor]  # raises Unprocessable if no executor of this name is deployed
    wake: Callable[[str, int], None]  # an execution's id, after a delay in milliseconds
    log: Log
    settings: KernelSettings = field(default_factory=KernelSettings)
    clock: Callable[[], int] = now_in_ms
    token: Callable[[], str] = lambda: secrets.token_hex(16)
    renewal: Callable[[Callable[[], None]], AbstractContextManager[object]] = Renewal
    longest_wait_ms: Callable[[str], int] = lambda _: 0  # for a person, by an agent's id

    def run_turn(self, execution_id: str, until_ms: int) -> str:
        """Run the executor if it is its turn; one word that says how it ended.

        Raises:
            PieceworkError: a store is out of reach; look again later.
        """
        view = self.executions.view(execution_id)
        if view is None or not is_idle(view.execution):
            return "nothing"
        token, now = self.token(), self.clock()
        tries = self.leases.claim(execution_id, token, now, now + LEASE_MS)
        if tries is None:
            return "busy"
        right = self._right(execution_id, token, now + LEASE_MS)
        try:
            with self.renewal(right.renew):
                end = self._runs(execution_id, token, tries, until_ms, right)
        except (LeaseLost, RightLost):
            return "lost"
        if end.again_ms is not None:
            self.leases.give_up(execution_id, token)
            self.wake(execution_id, end.again_ms)
        return end.word

    def _right(self, execution_id: str, token: str, until_ms: int) -> Right:
        def renew(later_ms: int) -> None:
            self.leases.renew(execution_id, token, later_ms)

        return Right(renew, until_ms, self.clock, lease_ms=LEASE_MS)

    def _runs(self, execution_id: str, token: str, tries: int, until_ms: int, right: Right) -> End:
        """Run until nobody has come meanwhile; the lease is given back unless the run is to be tried again."""
        word = "nothing"
        while True:
            view = self.executions.view(execution_id)
            if view is not None and is_idle(view.execution):
                end = self._run(view, token, tries, until_ms, right)
                if end.again_ms is not None:
                    return end
                word = end.word
            if self.leases.release(execution_id, token):
                return End(word)

    def _run(self, view: Details, token: str, tries: int, until_ms: int, right: Right) -> End:
        turn = Turn(view, Account(self.clock))
        if tries > MOST_TRIES:
            return self._fail(turn, LOST)
        try:
            executor = self.executor_of(view.execution.agent_id)
        except Unprocessable:
            return self._fail(turn, NO_EXECUTOR)
        task = task_of(view, executor, deadline_ms(view, executor, self.settings, self.clock(), until_ms))
        steps = LastingSteps(self.steps, lambda: self._lasts_s(view.execution.agent_id))
        told = (steps.keep_used, turn.account.taken)
        tools = Tools(self.executions, self.kernel, view.execution.id, session_of(view), *told)
        try:
            outcome = executor(task, self._facilities(task, token, tools, right, steps, turn.account))
            right.check()  # the executor may have caught what should have ended it
            tools.check_ended()
        except Halt as halt:
            return self._halted(turn, tools.halt or halt)
        except PieceworkError as error:
            right.check()
            return self._halted(turn, tools.halt) if tools.halt else self._refused(turn, error, tries)
        except Exception as bug:  # noqa: BLE001  # an executor's bug: logged, and told without its text
            self.log.warning("executor_failed", executor=executor.name, **fault_of(bug))
            right.check()
            return self._halted(turn, tools.halt) if tools.halt else self._fail(turn, FAILED)
        return self._halted(turn, tools.halt) if tools.halt else self._complete(turn, task, outcome)

    def _facilities(
        self, task: Task, token: str, tools: Tools, right: Right, steps: LastingSteps, account: Account
    ) -> Run:
        key = steps_key(task.execution_id)
        claim = Claim(key, token, "", after=State.RUNNING, right=right)  # an earlier run may have recorded steps
        ends_s = (self.clock() + self.settings.execution_timeout_ms) // 1000 + STEPS_KEPT_SECONDS

        def on_progress(pct: float, text: str) -> None:
            account.progress(pct, text)
            self.log.info("progress", execution_id=task.execution_id, pct=pct)

        run = Run(
            remaining_ms=lambda: task.deadline_ms - self.clock(),
            steps=account.of(ListedSteps(steps, claim, lambda: ends_s)),
            log=self.log,
            on_progress=on_progress,
            call_tool=tools.call,
            right=right,
        )
        account.watch(run.facts)
        return run

    def _lasts_s(self, agent_id: str) -> tuple[int, int] | None:
        """Until when recorded steps must be there if a call waits for a person now, and until when they are kept."""
        waits_ms = self.longest_wait_ms(agent_id)
        ends_s = (self.clock() + waits_ms + self.settings.execution_timeout_ms) // 1000
        return (ends_s, ends_s + STEPS_KEPT_SECONDS) if waits_ms else None

    def _halted(self, turn: Turn, halt: Halt) -> End:
        return self._fail(turn, str(halt)) if isinstance(halt, Diverged) else End(halt.word)

    def _refused(self, turn: Turn, error: PieceworkError, tries: int) -> End:
        if not error.retryable:
            return self._fail(turn, error.message)
        if tries < MOST_TRIES:
            return End("retry", FIRST_DELAY_MS * 2 ** (tries - 1))
        told = f": {error.message}" if isinstance(error, Retryable) else ""
        return self._fail(turn, f"the executor gave up after {tries} tries{told}")

    def _complete(self, turn: Turn, task: Task, outcome: Outcome) -> End:
        problem = output_problem(task, outcome.output)
        if problem is not None:
            return self._fail(turn, problem)
        return self._end(turn, Intent(COMPLETE, output=outcome.output, has_output=True), "completed")

    def _fail(self, turn: Turn, reason: str) -> End:
        text = reason.encode("utf-8", "replace")[:REASON_BYTES].decode("utf-8", "ignore")
        return self._end(turn, Intent(FAIL, error=text or FAILED), "failed")

    def _end(self, turn: Turn, intent: Intent, word: str) -> End:
        """Record the end, unless the execution has moved on: then nothing that was made counts."""
        try:
            ids = (turn.view.execution.id, session_of(turn.view))
            self.kernel.intent(*ids, intent, reports=turn.account.taken())
        except (Conflict, Unauthorized):
            return End("gone")
        return End(word)


def session_of(view: Details) -> str:
    """The session an execution is run under."""
    session = view.execution.session
    return session.id if session else ""
