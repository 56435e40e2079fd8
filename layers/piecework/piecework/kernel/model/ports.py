"""What the kernel door asks of its store; every method is bounded, and reads are strongly consistent unless it says so.

The adapters lie in `kernel/store`, the in-memory twins in the tests' support; both pass the same contract tests.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from piecework.jsons import Json
from piecework.kernel.model.changes import (
    Change,
    Decided,
    HistoryEntry,
    IdempotencyRecord,
    JobPush,
    Push,
    QueuedJob,
    StepRecord,
)
from piecework.kernel.model.events import Event
from piecework.kernel.model.questions import Question
from piecework.kernel.model.state import Connection, Execution, Forgotten, Pause, Status
from piecework.values import dataclass, field

Place = tuple[int, str]  # in a list of executions: created_at_ms and id


class VersionConflict(Exception):
    """The execution has changed since it was read: read and decide again."""


class ConnectionTaken(Exception):
    """The runner's connection was given another job, or was replaced, since it was chosen: choose again."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one request brings for a command."""

    execution: Execution | None
    answered: IdempotencyRecord | None = None
    step: StepRecord | None = None
    session_of: str | None = None  # the execution the session id was once given for; None: no such session


@dataclass(frozen=True, slots=True)
class Details:
    """An execution with what is stored of it for good; `Reasons` adds the last two, which no store knows."""

    execution: Execution
    input: Json
    output: Json
    again_of: str = ""  # the execution that it is once more
    error: str | None = None  # why it has failed
    waiting_for: str | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which executions a list shows; every given condition holds."""

    status: Status | None = None
    agent_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_after_ms: int | None = None  # at that time or later
    created_before_ms: int | None = None  # earlier than that


@dataclass(frozen=True, slots=True)
class Summary:
    """An execution in a list."""

    id: str
    status: Status
    agent_id: str
    labels: Mapping[str, str]
    created_at_ms: int
    updated_at_ms: int


class Standing(NamedTuple):
    """An execution as it is now, without its labels, and the last event of one that has failed."""

    execution: Execution
    last: Event | None = None


class Summaries(NamedTuple):
    """A part of a list, and the place after which it goes on; None at its end."""

    rows: Sequence[Summary]
    then: Place | None


@dataclass(frozen=True, slots=True)
class Approval:
    """A step that waits for a person."""

    execution_id: str
    agent_id: str
    step_id: str
    tool_id: str
    since_ms: int
    question: Question | None = None  # None: of earlier code
    decided: Decided | None = None  # None: nobody has answered
    key: str = ""  # its place in the list
    waits: bool = True  # neither answered nor cancelled


class Executions(Protocol):
    """Executions, their logs, steps, sessions and lists."""

    def read(
        self, execution_id: str, *, key: str = "", step_id: str = "", session_id: str = "", with_decision: bool = False
    ) -> Read:
        """The checkpoint and what else is named, in one request; with a step what a person said about it."""

    def commit(self, change: Change) -> None:
        """Apply a change in one transaction, and count it there.

        Raises:
            VersionConflict: the execution is not at `before`'s version, or its idempotency key was answered meanwhile.
            ConnectionTaken: `job_push` names a connection that is no longer idle and of that generation.
        """

    def view(self, execution_id: str) -> Details | None: ...

    def message(self, agent_id: str, consumer_id: str, key: str, execution_id: str) -> "Message | None":
        """A message to an agent about an execution, with what is beside it."""

    def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        """In sequence order without a gap; fewer than `limit` when the page would pass 4 MB."""

    def history(self, execution_id: str, limit: int) -> list[tuple[HistoryEntry, StepRecord]]:
        """The last entries, oldest first."""

    def signal(self, execution_id: str, sequence: int) -> Json:
        """The payload of a `signal.received` event."""

    def rows(self, which: Filter, after: Place | None, limit: int) -> Summaries:
        """Newest first, strictly after that place; fewer, even none, when enough was read. Eventually consistent."""

    def standing(self, execution_ids: Sequence[str]) -> Mapping[str, Standing]:
        """How up to 100 executions stand, in two requests; those that are gone are left out."""

    def approvals(self, limit: int, after: str = "") -> list[Approval]:
        """Steps that wait for a person after that place, the oldest first, with their questions."""

    def answered(self, limit: int, before: str = "") -> list[Approval]:
        """Answers of people, and of time, before that place, the newest first; some are gone with their execution."""

    def approval(
        self, execution_id: str, step_id: str, *, with_arguments: bool = True
    ) -> tuple[Approval, StepRecord] | None:
        """One of them, whether it was answered or not; None when nobody was asked about such a step."""

    def note_forgotten(self, execution: Execution, forgotten: Forgotten) -> None:
        """Note it beside an execution that has ended, whose labels go, and whose input and output are shown no more.

        Raises:
            VersionConflict: the execution is not at that version.
        """

    def erase(self, execution_id: str, goes_on: Callable[[], bool]) -> bool:
        """Remove what an execution was about, all but its checkpoint and its emptied log; False if told to stop."""

    def forget(self, execution_id: str) -> None:
        """Remove an execution that is past its retention, with everything of it."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A connection of an agent."""

    agent_id: str
    consumer_id: str
    generation: int
    lease_until_ms: int  # of its open stream; or, once that has ended, the end of its grace
    is_open: bool
    doubted_until_ms: int = 0  # somebody has found this very lease about to lapse; the stream may answer until then
    by: str = ""  # the name of the token that it has connected with
    named_until_ms: int = 0  # that name is kept for the agent until then
    since_ms: int = 0  # it has come back in time ever since; 0: unknown, opened by earlier code


@dataclass(frozen=True, slots=True)
class Board:
    """An agent's consumers and its last pause, read in one request."""

    consumers: tuple[Consumer, ...]  # sorted by id; lapsed ones too
    pause: Pause | None = None

    @property
    def is_paused(self) -> bool:
        """Whether its pause holds."""
        return self.pause is not None and self.pause.is_on


@dataclass(frozen=True, slots=True)
class Waiting:
    """An execution that waits for a consumer."""

    execution_id: str
    created_at_ms: int
    claimed_until_ms: int = 0  # somebody is giving it out until then


@dataclass(frozen=True, slots=True)
class AgentQueue:
    """An agent's consumers and what waits for them, read in one request."""

    consumers: tuple[Consumer, ...]  # sorted by id; lapsed ones too
    turn: int  # the agent's round-robin counter
    waiting: tuple[str, ...]  # ids of executions that wait for a consumer, oldest first, at most 100
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What was read in one request with a message: its consumer, and the execution that it is about."""

    consumer: Consumer | None
    execution: Details | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message in an outbox."""

    key: str  # sorts as the messages were written
    push: Push | JobPush
    taken_by: int  # the generation that took it; 0: none
    beside: Beside | None = None


class Outbox(Protocol):
    """Messages for one consumer or connection, in order; a stream names it by (`agent`|`runner`, owner, consumer)."""

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]: ...

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        """Mark a message as taken; False when another generation had taken it, or it is gone."""

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Sequence[str]) -> None: ...


class Agents(Protocol):
    """Connected consumers of agents."""

    def connect(
        self, agent_id: str, consumer_id: str, lease_until_ms: int, by: str = ""
    ) -> tuple[Consumer, Consumer | None]:
        """A new generation, and what it replaces; also writes the consumer's due row, and before that keeps the name
        of the token, `by`."""

    def has_served(self, agent_id: str, name: str) -> bool:
        """Whether the agent has connected by the token of this name in the last `NAME_KEPT_MS`; one request."""

    def refresh(self, consumer: Consumer, lease_until_ms: int) -> bool:
        """Extend the lease of an open stream; False when a newer generation has replaced it, or it is gone."""

    def refresh_all(self, consumers: Sequence[Consumer], lease_until_ms: int) -> list[Consumer]:
        """The same for up to 100 open streams at once; those that were replaced or are gone."""

    def doubt(self, consumer: Consumer, until_ms: int) -> bool:
        """Note that its lease seems to lapse, for its stream to answer until then; False when it has just done so."""

    def end(self, consumer: Consumer, grace_until_ms: int) -> bool:
        """The stream has ended; its successor has until then. False when it was replaced."""

    def find(self, agent_id: str, consumer_id: str) -> Consumer | None: ...

    def board(self, agent_id: str) -> Board: ...

    def consumers(self, agent_id: str) -> tuple[Consumer, ...]:
        """An agent's consumers, sorted by id; lapsed ones too."""

    def pause_of(self, agent_id: str) -> Pause | None:
        """The last pause of an agent, for one whose board nobody reads."""

    def pause(self, agent_id: str, pause: Pause) -> Pause:
        """Begin a pause; returns the one that holds, which is an earlier one where there is one."""

    def resume(self, agent_id: str, at_ms: int, by: str, reason: str) -> Pause | None:
        """End a pause; returns the last one, which may have ended before. None if the agent was not paused lately."""

    def waiting(self, agent_id: str) -> list[Waiting]:
        """Executions that wait for a consumer of an agent, oldest first, at most 100."""

    def agent_queue(self, agent_id: str) -> AgentQueue: ...

    def next_turn(self, agent_id: str) -> int:
        """The agent's round-robin counter before it is moved on by one; no two callers get the same."""

    def claim(self, agent_id: str, waiting: Waiting, until_ms: int) -> bool:
        """Mark a waiting execution as being given out; False when it is gone, or somebody else's mark still counts."""

    def sessions(self, agent_id: str, consumer_id: str) -> list[str]:
        """The executions that hold a session of this consumer."""

    def forget(self, consumer: Consumer) -> bool:
        """Remove a lapsed consumer and its outbox; False when it has shown itself since, or came back."""


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


@dataclass(frozen=True, slots=True)
class Stores:
    """What commands and streams read and write."""

    executions: Executions
    agents: Agents
    runners: Runners


class Counters(Protocol):
    """The numbers behind /metrics, summed over all copies (section 7); `Executions.commit` adds to them."""

    def all(self) -> Mapping[str, float]: ...
