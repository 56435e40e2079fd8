"""Connected runners, the queue of their jobs, and the directory of tools."""

from collections.abc import Sequence
from typing import Protocol

from piecework.jsons import Json
from piecework.kernel.model.changes import QueuedJob
from piecework.kernel.model.state import Connection
from piecework.values import dataclass


class ConnectionTaken(Exception):
    """The runner's connection was given another job, or was replaced, since it was chosen: choose again."""


@dataclass(frozen=True, slots=True)
class RunnerConnection:
    """A connection of a runner."""

    connection: Connection
    generation: int
    lease_until_ms: int
    is_open: bool
    tools: tuple[str, ...]
    job_id: str = ""  # "": idle
    execution_id: str = ""  # of that job
    connected_at_ms: int = 0
    doubted_until_ms: int = 0  # as a consumer's
    since_ms: int = 0  # as a consumer's


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool in the directory."""

    id: str
    description: str
    input_schema: Json
    runner_id: str
    registered_at_ms: int


class Runners(Protocol):
    """Connected runners, their tools, the queue of jobs, the tool directory."""

    def connect(
        self, connection: Connection, tools: Sequence[str], lease_until_ms: int
    ) -> tuple[RunnerConnection, RunnerConnection | None]:
        """A new generation, idle, and what it replaces. A published list of tools is joined with the query's."""

    def refresh(self, linked: RunnerConnection, lease_until_ms: int) -> bool: ...

    def refresh_all(self, linked: Sequence[RunnerConnection], lease_until_ms: int) -> list[RunnerConnection]:
        """The same for up to 100 open streams at once; those that were replaced or are gone."""

    def doubt(self, linked: RunnerConnection, until_ms: int) -> bool: ...

    def end(self, linked: RunnerConnection, grace_until_ms: int) -> bool: ...

    def find(self, connection: Connection) -> RunnerConnection | None: ...

    def connections(self, runner_id: str) -> list[RunnerConnection]: ...

    def offering(self, tool_id: str) -> list[RunnerConnection]:
        """Connections that advertise exactly this tool, in connection order; busy and lapsed ones too."""

    def next_turn(self, tool_id: str) -> int:
        """The tool's round-robin counter, moved on by one."""

    def set_tools(self, runner_id: str, tools: Sequence[str]) -> bool:
        """Replace the list of all connections of a runner; False when the runner was never seen."""

    def free(self, connection: Connection, job_id: str) -> bool:
        """Make a connection idle if it holds that job, outside of a change (late results, section 1.6)."""

    def queued(self, tool_id: str, now_ms: int, limit: int) -> list[QueuedJob]:
        """Jobs of a tool that may go now, oldest first."""

    def unclaimed(self, tool_id: str, now_ms: int) -> list[QueuedJob]:
        """The oldest jobs of a tool that may go now and that nobody is handing out, at most 10."""

    def claim_job(self, job: QueuedJob, until_ms: int) -> bool:
        """Mark a queued job as being handed out; False when it is gone, or somebody else's mark still counts."""

    def unclaim_job(self, job: QueuedJob) -> None:
        """Take the mark off a job that is still queued."""

    def publish(self, runner_id: str, tools: Sequence[ToolEntry]) -> None:
        """Replace a runner's part of the directory, and its tools."""

    def directory(self, prefix: str) -> list[ToolEntry]:
        """One entry per tool id, the newest registration; sorted by id. Prefix: equal, or followed by `.` or `_`."""

    def forget(self, linked: RunnerConnection) -> bool:
        """Remove a lapsed connection and its outbox; False when it has shown itself since, or came back."""

    def delete(self, runner_id: str) -> bool:
        """Remove a runner, its connections and its part of the directory; False when it was never seen."""
