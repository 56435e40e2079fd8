"""Taking an intent: its session, its key, the policy's verdict, the command (specification sections 1.3, 2.9)."""

import time
from collections.abc import Callable
from typing import Final

from piecework.jsons import Json
from piecework.kernel.decide import checks
from piecework.kernel.decide import intents as decide_intents
from piecework.kernel.errors import Conflict
from piecework.kernel.model.change_builder import Decision
from piecework.kernel.model.commands import Intent, Report, TakeIntent
from piecework.kernel.model.ports.executions import Executions, Read, VersionConflict
from piecework.kernel.model.state import Execution
from piecework.kernel.policy.verdicts import Call, Verdict
from piecework.kernel.policy.verdicts import Decision as Policy
from piecework.kernel.policy.windows import RateWindows
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.sessions import Sessions
from piecework.values import dataclass, replace

CHOICES: Final = 3  # connections tried for a job before it queues
TWIN_PAUSE: Final = 0.1  # seconds; for a concurrent twin of a call to store the answer that both will get


Judge = Callable[[Call], Verdict]  # the policy


@dataclass
class Permit:
    """One intent's place in its rate window; it is taken once, however often the intent is decided."""

    is_taken: bool = False
    has_waited: bool = False
    has_looked_again: bool = False  # for an answer that was stored between the two halves of a read


class Intents:
    """Takes intents."""

    def __init__(
        self,
        executions: Executions,
        sessions: Sessions,
        commits: Commits,
        dispatcher: Queues,
        judge: Judge,
        windows: RateWindows,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._executions, self._sessions, self._commits = executions, sessions, commits
        self._dispatcher, self._judge, self._windows, self._timer = dispatcher, judge, windows, timer

    def take(
        self, execution_id: str, session_id: str, intent: Intent, by: str = "", reports: tuple[Report, ...] = ()
    ) -> dict[str, Json]:
        """The answer to an intent (section 2.9).

        Raises:
            KernelError: it is refused.
        """
        checks.lengths(intent)
        permit = Permit()

        def attempt(read: Read, now_ms: int, taken: int) -> Decision:
            self._sessions.check(read, session_id, now_ms)
            read = self._with_step_of_key(read, intent)
            command = TakeIntent(session_id, intent, reports=reports)
            if self._needs_verdict(read, intent, permit):
                command = self._judged(command, checks.known(read), now_ms, permit, taken)
            return self._commits.decided(read, command, by)

        answer = self._commits.run(execution_id, attempt, key=intent.idempotency_key, session_id=session_id)
        return dict(answer)

    def _with_step_of_key(self, read: Read, intent: Intent) -> Read:
        """The record of the step that a repeated key stands for, once that has ended.

        Raises:
            VersionConflict: the execution changed between the two reads.
        """
        if not decide_intents.must_look_up_step(read) or read.answered is None or read.execution is None:
            return read
        key, step_id = intent.idempotency_key, read.answered.step_id
        again = self._executions.read(read.execution.id, key=key, step_id=step_id)
        if again.execution is None or again.execution.version != read.execution.version:
            raise VersionConflict
        return again

    def _needs_verdict(self, read: Read, intent: Intent, permit: Permit) -> bool:
        """Check an intent; one with a key is not refused before its key was read after what refuses it.

        Raises:
            KernelError: it is refused.
            VersionConflict: look at both again.
        """
        try:
            return decide_intents.needs_verdict(read, intent)
        except Conflict:
            if read.answered or not intent.idempotency_key or permit.has_looked_again:
                raise
            permit.has_looked_again = True
            raise VersionConflict from None

    def _judged(self, command: TakeIntent, execution: Execution, now_ms: int, permit: Permit, taken: int) -> TakeIntent:
        began = self._timer()
        verdict = self._judge(call_of(execution, command.intent, now_ms))
        command = replace(command, verdict=verdict, policy_seconds=self._timer() - began)
        if verdict.decision is not Policy.ALLOW:
            return command
        if not self._is_permitted(command.intent, verdict, execution, now_ms, permit):
            return replace(command, over_limit=True)
        if command.intent.remote and taken < CHOICES:
            return replace(command, linked=self._dispatcher.choose(command.intent.tool_id))
        return command

    def _is_permitted(
        self, intent: Intent, verdict: Verdict, execution: Execution, now_ms: int, permit: Permit
    ) -> bool:
        """Whether the rate window has room.

        Raises:
            VersionConflict: it has none; perhaps because of a twin of this very call, whose answer is looked for once.
        """
        limit = verdict.rate_limit
        if limit is None or permit.is_taken:
            return True
        permit.is_taken = self._windows.take(execution.agent_id, intent.tool_id, limit.max, limit.window_ms, now_ms)
        if not permit.is_taken and intent.idempotency_key and not permit.has_waited:
            permit.has_waited = True
            self._commits.environment.sleep(TWIN_PAUSE)
            raise VersionConflict
        return permit.is_taken


def call_of(execution: Execution, intent: Intent, now_ms: int) -> Call:
    """What the policy is told."""
    return Call(
        agent_id=execution.agent_id,
        tool_id=intent.tool_id,
        now_ms=now_ms,
        labels=execution.labels,
        arguments=intent.arguments,
        has_arguments=intent.has_arguments,
        step_count=execution.step_count,
        age_ms=now_ms - execution.created_at_ms - execution.paused_ms,
    )
