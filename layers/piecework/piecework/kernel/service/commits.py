"""One command: read once, decide, store in one transaction; when somebody else was faster, read and decide again.

| crash after | what the next one sees |
|---|---|
| the read, the policy's verdict | nothing happened; a rate window may count a call that never was |
| the commit | the command is stored; a caller that repeats it with its key gets the stored answer |
| what follows the commit | the table of effects.py says who does it again |
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from piecework.chance import random
from piecework.clock import now_in_ms
from piecework.jsons import Json
from piecework.kernel import clocks
from piecework.kernel.decide.command import decide
from piecework.kernel.errors import ExecutionTainted, ServiceUnavailable
from piecework.kernel.model import timers
from piecework.kernel.model.change_builder import Decision, NewId
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import Command, Expire
from piecework.kernel.model.evolve import LogBroken
from piecework.kernel.model.ports.executions import Executions, Read, VersionConflict
from piecework.kernel.model.ports.runners import ConnectionTaken
from piecework.kernel.service.effects import Effect, follow
from piecework.kernel.settings import KernelSettings
from piecework.values import dataclass

FIRST_PAUSE: Final = 0.01  # seconds
LONGEST_PAUSE: Final = 0.2
PATIENCE: Final = 4.0  # seconds slept over conflicts; a burst of 20 writers needs about one


# Decides from what was read, the time, and how often a chosen connection was lost to another job.
Attempt = Callable[[Read, int, int], Decision]


@dataclass(frozen=True, slots=True)
class Environment:
    """Time, chance and ids: what tests replace."""

    clock: Callable[[], int] = now_in_ms
    new_id: NewId = clocks.new_id
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random  # spreads writers; guards nothing


class Commits:
    """Carries commands out."""

    def __init__(
        self, executions: Executions, settings: KernelSettings, environment: Environment, effects: Sequence[Effect] = ()
    ) -> None:
        self._executions, self._effects = executions, effects
        self.settings, self.environment, self.clock = settings, environment, environment.clock

    def run(
        self,
        execution_id: str,
        attempt: Attempt,
        *,
        key: str = "",
        step_id: str = "",
        session_id: str = "",
        with_decision: bool = False,
    ) -> Json:
        """Decide and store a command; timers that have come are settled first. Returns the decision's answer.

        Raises:
            KernelError: the command is refused, or too many writers met on the execution.
        """
        slept, conflicts, taken = 0.0, 0, 0
        while True:
            read = self._executions.read(
                execution_id, key=key, step_id=step_id, session_id=session_id, with_decision=with_decision
            )
            expires = self._must_expire(read)
            try:
                decision = self.decided(read, Expire()) if expires else attempt(read, self._now(read), taken)
                if decision.change:
                    self.store(decision.change)
            except VersionConflict:
                slept += self._pause(conflicts, slept)
                conflicts += 1
                continue
            except ConnectionTaken:
                taken += 1
                continue
            if not expires and not decision.again:
                return decision.answer

    def run_command(self, execution_id: str, command: Command, *, step_id: str = "") -> Json:
        """The same for a command that needs nothing else; False when the execution does not exist."""

        def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
            return self.decided(read, command) if read.execution else Decision(None, answer=False)

        return self.run(execution_id, attempt, step_id=step_id)

    def decided(self, read: Read, command: Command, by: str = "") -> Decision:
        """What a command comes to now, by the token of that name, or by the kernel itself.

        Raises:
            KernelError: it is refused.
        """
        try:
            return decide(read, command, self.clock(), self.settings, self.environment.new_id, by)
        except LogBroken:
            raise ExecutionTainted from None

    def store(self, change: Change) -> bool:
        """Commit a change, and do what follows it; True when that has moved the execution on.

        Raises:
            VersionConflict, ConnectionTaken: nothing was stored.
        """
        self._executions.commit(change)
        return follow(change, self._effects)

    def _now(self, read: Read) -> int:
        now = self.clock()
        return max(now, read.execution.clock_ms) if read.execution else now

    def _must_expire(self, read: Read) -> bool:
        return read.execution is not None and timers.must_expire(read.execution, self._now(read), self.settings)

    def _pause(self, conflicts: int, slept: float) -> float:
        if slept >= PATIENCE:
            raise ServiceUnavailable("too many writers on this execution; try again")
        pause = self.environment.random() * min(LONGEST_PAUSE, FIRST_PAUSE * float(2**conflicts))
        self.environment.sleep(pause)
        return max(pause, FIRST_PAUSE / 4)
