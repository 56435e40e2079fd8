"""Dispatch: jobs go to idle connections that offer exactly their tool, or wait in its queue (specification 1.6).

A job is claimed for a connection in the transaction that writes its `step.dispatched`; when the connection was faster
taken by another job, the next one is chosen, and a job that finds none stays in the queue.
"""

from collections.abc import Callable
from typing import Final, Protocol

from piecework.kernel.changes import QueuedJob
from piecework.kernel.errors import KernelError
from piecework.kernel.ports import Linked, Runners
from piecework.kernel.state import Connection

LOOKED_AT: Final = 10  # queued jobs of a tool that are read at once
MOST_AT_ONCE: Final = 100  # jobs handed out by one call; results, connects and heartbeats call again


class HandingOut(Protocol):
    """The part of the kernel that gives a queued job to a connection."""

    def hand_out(self, job: QueuedJob, linked: Linked) -> bool:
        """False when the job is gone or the connection is taken."""


class Queues:
    """Chooses connections for jobs, and jobs for connections."""

    def __init__(self, runners: Runners, clock: Callable[[], int], kernel: HandingOut) -> None:
        self._runners, self._clock, self._kernel = runners, clock, kernel

    def choose(self, tool_id: str) -> Linked | None:
        """An idle connection that offers the tool, the next in turn; None when there is none."""
        idle = [linked for linked in self._runners.offering(tool_id) if self._is_free(linked)]
        if len(idle) < 2:
            return idle[0] if idle else None
        return idle[self._runners.next_turn(tool_id) % len(idle)]

    def pump_tool(self, tool_id: str) -> None:
        """Hand a tool's due jobs out until jobs or idle connections run out."""
        tried: set[str] = set()
        while len(tried) < MOST_AT_ONCE:
            queued = self._runners.queued(tool_id, self._clock(), LOOKED_AT)
            job = next((job for job in queued if job.job_id not in tried), None)
            if job is None or (linked := self.choose(tool_id)) is None:
                return
            if self._hand_out(job, linked):
                tried.add(job.job_id)
            elif self._is_idle(linked.connection):
                tried.add(job.job_id)  # it was the job that had gone

    def pump(self, connection: Connection) -> None:
        """Give an idle connection the oldest due job of any of its tools."""
        for _ in range(LOOKED_AT):
            linked = self._runners.find(connection)
            if linked is None or not self._is_free(linked):
                return
            now = self._clock()
            jobs = [job for tool_id in linked.tools for job in self._runners.queued(tool_id, now, 1)]
            if not jobs or self._hand_out(min(jobs, key=lambda job: (job.not_before_ms, job.job_id)), linked):
                return

    def pump_runner(self, runner_id: str) -> None:
        """The same for every connection of a runner, after its tools have changed."""
        for linked in self._runners.connections(runner_id):
            self.pump(linked.connection)

    def _hand_out(self, job: QueuedJob, linked: Linked) -> bool:
        try:
            return self._kernel.hand_out(job, linked)
        except KernelError:
            return False

    def _is_idle(self, connection: Connection) -> bool:
        found = self._runners.find(connection)
        return found is not None and self._is_free(found)

    def _is_free(self, linked: Linked) -> bool:
        return linked.is_open and not linked.job_id and linked.lease_until_ms > self._clock()
