"""Dispatch: jobs go to idle connections that offer exactly their tool, or wait in its queue (specification 1.6).

A job is claimed for a connection in the transaction that writes its `step.dispatched`; when the connection was faster
taken by another job, the next one is chosen, and a job that finds none stays in the queue.

Who queues a job brings one job and one idle connection together, and so does who frees a connection: with as many
calls as there are jobs and connections, nobody does the work of all. A job is marked before it is handed out, so that
many who choose at the same time take different ones.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final

from piecework.kernel.model import commands
from piecework.kernel.model.change_builder import Decision
from piecework.kernel.model.changes import Change, QueuedJob
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.ports.runners import RunnerConnection, Runners
from piecework.kernel.model.state import Connection
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.meeting import met

CLAIM_MS: Final = 3_000  # a mark's life; a hand-out takes a tenth of a second, and two at once do no harm
TRIES: Final = 5  # jobs, or connections, that one call tries; others took those before
MET: Final = 10  # of the oldest jobs, over which those who met at one are spread


GiveJob = Callable[[QueuedJob, RunnerConnection], bool]  # False when the job is gone or the connection is taken


class Queues:
    """Chooses connections for jobs, and jobs for connections."""

    def __init__(self, runners: Runners, clock: Callable[[], int], dispatch: GiveJob) -> None:
        self._runners, self._clock, self._try = runners, clock, dispatch

    def choose(self, tool_id: str) -> RunnerConnection | None:
        """An idle connection that offers the tool, the next in turn; None when there is none."""
        idle = [linked for linked in self._runners.offering(tool_id) if self._is_free(linked)]
        if len(idle) < 2:
            return idle[0] if idle else None
        return idle[self._runners.next_turn(tool_id) % len(idle)]

    def pump_tool(self, tool_id: str) -> bool:
        """Bring the tool's oldest due job and an idle connection together; False when one of them is missing."""
        for _ in range(TRIES):
            linked = self.choose(tool_id)
            if linked is None:
                return False
            if self._give_next(linked, [tool_id]):
                return True
            if self._is_idle(linked.connection):  # no job is left for it
                return False
        return False

    def pump(self, connection: Connection) -> bool:
        """Give an idle connection the oldest due job of any of its tools; False when it is busy, or nothing waits."""
        linked = self._runners.find(connection)
        return linked is not None and self._is_free(linked) and self._give_next(linked, linked.tools)

    def pump_runner(self, runner_id: str) -> None:
        """The same for every connection of a runner, after its tools have changed."""
        for linked in self._runners.connections(runner_id):
            self.pump(linked.connection)

    def follow(self, change: Change) -> None:
        """Bring together the jobs and connections that a change has queued and freed."""
        for job in change.queue:
            if job.not_before_ms <= change.after.clock_ms:
                self.pump_tool(job.tool_id)
        for connection, _ in change.free:
            self.pump(connection)

    def _give_next(self, linked: RunnerConnection, tools: Sequence[str]) -> bool:
        for number in range(TRIES):
            now = self._clock()
            jobs = [job for tool_id in tools for job in self._runners.unclaimed(tool_id, now)]
            if not jobs:
                return False
            job = _pick(jobs, linked.connection, number)
            if not self._runners.claim_job(job, now + CLAIM_MS):
                continue
            if self._hand_out(job, linked):
                return True
            self._runners.unclaim_job(job)  # its connection was taken, or it is gone
            if not self._is_idle(linked.connection):
                return False
        return False

    def _hand_out(self, job: QueuedJob, linked: RunnerConnection) -> bool:
        is_handed = False
        with met("a job was not handed to a runner"):
            is_handed = self._try(job, linked)
        return is_handed

    def _is_idle(self, connection: Connection) -> bool:
        found = self._runners.find(connection)
        return found is not None and self._is_free(found)

    def _is_free(self, linked: RunnerConnection) -> bool:
        return linked.is_open and not linked.job_id and linked.lease_until_ms > self._clock()


def dispatch(commits: Commits, job: QueuedJob, linked: RunnerConnection) -> bool:
    """Give a queued job to a connection; False when the job is gone or the connection is taken."""
    command = commands.Dispatch(job.step_id, job.job_id, linked, job.not_before_ms, job.tool_id)

    def attempt(read: Read, _now_ms: int, taken: int) -> Decision:
        if read.execution is None or taken:
            return Decision(None, answer=False)
        return commits.decided(read, command)

    return bool(commits.run(job.execution_id, attempt))


def _pick(jobs: list[QueuedJob], connection: Connection, number: int) -> QueuedJob:
    """The oldest one; after a try that met others, one of the oldest that most of them do not pick."""
    oldest_first = sorted(jobs, key=lambda job: (job.not_before_ms, job.job_id))
    spread = zlib.crc32(f"{connection.runner_id}/{connection.consumer_id}/{number}".encode()) if number else 0
    return oldest_first[spread % min(len(jobs), MET)]
