"""Executions with their logs, steps, sessions and lists, and the messages about them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from piecework.jsons import Json
from piecework.kernel.model.changes import Change, Decided, HistoryEntry, IdempotencyRecord, JobPush, Push, StepRecord
from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.questions import Question
from piecework.kernel.model.state import Execution, Forgotten, Status
from piecework.values import dataclass, field

Place = tuple[int, str]  # in a list of executions: created_at_ms and id


class VersionConflict(Exception):
    """The execution has changed since it was read: read and decide again."""


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


class ApprovalPage(NamedTuple):
    """A part of a list of approvals, and the place after which it goes on; empty at its end."""

    page: list[Approval]
    then: str


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
            ConnectionTaken: `job_push` names a connection that is busy by now, or of another generation.
        """

    def view(self, execution_id: str) -> Details | None: ...

    def message(self, agent_id: str, consumer_id: str, key: str, execution_id: str) -> Message | None:
        """A message to an agent about an execution, with what is beside it."""

    def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        """In sequence order without a gap; fewer than `limit` when the page would pass 4 MB."""

    def history(self, execution_id: str, limit: int) -> list[tuple[HistoryEntry, StepRecord]]:
        """The last entries, oldest first."""

    def signal(self, execution_id: str, sequence: int) -> Json:
        """The payload of a `signal.received` event."""

    def rows(self, which: Filter, after: Place | None, limit: int) -> Summaries:
        """Newest first, strictly after that place; fewer, even none, when enough was read. Eventually consistent."""

    def holder(self, step_id: str, execution_ids: Sequence[str]) -> str:
        """The first of these executions that has made a step of this id, empty if none has; a request for each 100."""

    def standing(self, execution_ids: Sequence[str]) -> Mapping[str, Standing]:
        """How up to 100 executions stand, in two requests; those that are gone are left out."""

    def approvals(self, limit: int, after: str = "") -> list[Approval]:
        """Steps that wait for a person after that place, the oldest first, with their questions."""

    def answered(self, limit: int, before: str = "") -> ApprovalPage:
        """Answers of people, and of time, before that place, the newest first.

        Some are gone with their execution: a page may hold fewer than the limit, even none, before the list ends.
        """

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


class Outbox(Protocol):
    """Messages for one consumer or connection, in order; a stream names it by (`agent`|`runner`, owner, consumer)."""

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]: ...

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        """Mark a message as taken; False when another generation had taken it, or it is gone."""

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Sequence[str]) -> None: ...
