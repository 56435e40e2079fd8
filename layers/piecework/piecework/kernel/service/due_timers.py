"""What an execution's timers ask for: ends, retries, assignment, recovery, retention (specification 1.7, 10.3)."""

from collections import Counter
from typing import NamedTuple

from piecework.kernel.model import timers
from piecework.kernel.model.commands import MoveClock, Recover
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.model.state import Execution, Status
from piecework.kernel.service.assigning import RoundRobin, connected_at
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.dispatching import Queues


class TimersRun(NamedTuple):
    """What the timers of an execution came to: when they were due, and whether that changed anything."""

    due_ms: int
    has_acted: bool


class DueTimers:
    """Runs the timers of an execution whose time may have come; to run them once too often changes nothing."""

    def __init__(self, stores: Stores, commits: Commits, assigner: RoundRobin, dispatcher: Queues) -> None:
        self._executions, self._agents, self._commits = stores.executions, stores.agents, commits
        self._assigner, self._dispatcher = assigner, dispatcher
        self._settings, self._clock = commits.settings, commits.clock

    def run_due_timers(self, execution_id: str) -> TimersRun | None:
        """Settle what is due, then move the execution's own due time on, so that it is not met again at once.

        None when the execution does not exist.
        """
        execution = self._executions.read(execution_id).execution
        if execution is None:
            return None
        now, due_ms = max(self._clock(), execution.clock_ms), timers.due_at(execution, self._settings)
        if execution.status.is_terminal:
            is_over = now >= due_ms
            if is_over:
                self._executions.forget(execution_id)
            return TimersRun(due_ms, has_acted=is_over)
        self._settle(execution, now)
        after = self._executions.read(execution_id).execution
        if after and not after.status.is_terminal and timers.due_at(after, self._settings) <= now:
            self._commits.run_command(execution_id, MoveClock())
        return TimersRun(due_ms, has_acted=after is None or after.sequence != execution.sequence)

    def _settle(self, execution: Execution, now_ms: int) -> None:
        if timers.must_expire(execution, now_ms, self._settings):
            self._commits.run_command(execution.id, MoveClock())  # as every command, it settles first what has come
            return
        self._retry(execution, now_ms)
        unattended = execution.unattended_at_ms
        if unattended is not None and now_ms >= unattended + self._settings.agent_timeout_ms:
            self._recover(execution, now_ms)
        elif execution.is_waiting:
            self._assigner.give(execution)

    def _retry(self, execution: Execution, now_ms: int) -> None:
        due = Counter(
            step.tool_id
            for step in execution.steps.values()
            if step.job and step.job.held_by is None and step.job.not_before_ms <= now_ms
        )
        for tool_id, jobs in sorted(due.items()):
            for _ in range(jobs):
                if not self._dispatcher.pump_tool(tool_id):
                    break

    def _recover(self, execution: Execution, now_ms: int) -> None:
        """Nobody has worked on it for the agent timeout: another consumer does, or it waits for one from the start."""
        board = self._agents.board(execution.agent_id)
        if board.is_paused or not connected_at(board.consumers, now_ms):
            self._commits.run_command(execution.id, Recover())
        elif execution.status is Status.RUNNING:
            self._assigner.give(execution)
