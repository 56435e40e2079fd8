"""What one command writes: decided in pure code, stored in one conditional transaction (specification section 10.1)."""

from collections.abc import Mapping

from piecework.jsons import Json
from piecework.kernel.model.events import Event
from piecework.kernel.model.notices import Notice
from piecework.kernel.model.questions import Question
from piecework.kernel.model.state import Connection, Execution, StepStatus
from piecework.values import dataclass, field


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The lasting side of a step; `outcome` is set once, and stays None for a step that was cancelled or timed out."""

    id: str
    tool_id: str
    remote: bool
    arguments: Json
    has_arguments: bool
    outcome: "Outcome | None" = None
    asked: bool | None = None  # whether a person was asked about it; None: written before this was kept
    decided: "Decided | None" = None  # what that person said; read where `Executions.read` is asked for it
    question: Question | None = None  # what that person is told; read in lists of approvals
    is_private: bool = False  # its arguments are for approvers only, also when its question is gone


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended: succeeded with a result, or failed with an error and perhaps data that is only forwarded."""

    status: StepStatus
    result: Json = None
    error: str = ""
    is_denied: bool = False  # a person said no: the tool was never called


@dataclass(frozen=True, slots=True)
class Decided:
    """A person's answer about a step; it is given once and stands."""

    approved: bool
    by: str  # the name of the caller's token; empty where the door has none
    at_ms: int
    timed_out: bool = False  # nobody said it: the time for an answer was over
    reason: str = ""  # as it was given, cut


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A terminal attempt of a step as `history` tells it; arguments and result are the step record's."""

    step_id: str
    attempt: int
    tool_id: str
    status: StepStatus
    completed_at_ms: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The stored answer to an intent that carried an idempotency key (section 2.9)."""

    key: str
    fingerprint: str  # of type, tool id and arguments
    answer: dict[str, Json]
    step_id: str = ""
    session_id: str = ""  # it was given to; a `wait` is answered anew under another one


@dataclass(frozen=True, slots=True)
class Push:
    """A message to one consumer of an agent, ids only: the stream that takes it reads what it names.

    `kind` is the event of section 3.2. `ref` is a step's id for `tool.result` and `approval.resolved`, the sequence of
    the signal's event for `signal.received`, else empty. `data` holds small facts that are nowhere else: `approved`, a
    cancellation's `reason`.
    """

    kind: str
    agent_id: str
    consumer_id: str
    execution_id: str
    session_id: str
    ref: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostedPush:
    """The same for a hosted agent, which has no stream: it is not stored, and may make it the executor's turn."""

    kind: str
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobPush:
    """The `job.assigned` for a connection, ids only."""

    to: Connection
    job_id: str
    execution_id: str
    step_id: str
    tool_id: str
    attempt: int
    deadline_ms: int
    not_before_ms: int


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits for a connection which offers its tool."""

    tool_id: str
    not_before_ms: int  # and its place in the queue; a job that may go at once has the time of its command here
    job_id: str
    execution_id: str
    step_id: str


@dataclass(frozen=True, slots=True)
class LostConsumer:
    """An agent's consumer that is gone, by the last stream it opened."""

    agent_id: str
    consumer_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Change:
    """Everything one command writes; the store applies it whole, or not at all.

    `before` is None for a new execution. Everything that can be derived from `before` and `after` is left to the store:
    the due row, list keys, the pending marker, session and session-of-consumer rows, step records that are new.
    """

    before: Execution | None
    after: Execution
    events: tuple[Event, ...]
    input: Json = None  # of a new execution
    again_of: str = ""  # of a new execution: which one it is once more
    output: Json = None  # of one that completes
    new_steps: tuple[StepRecord, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # by step id
    decisions: Mapping[str, Decided] = field(default_factory=dict)  # by step id
    history: tuple[HistoryEntry, ...] = ()
    signals: Mapping[int, Json] = field(default_factory=dict)  # payload by the sequence of `signal.received`
    answered: IdempotencyRecord | None = None
    freed_key: str = ""  # an idempotency key that is replaced because its step was cancelled
    pushes: tuple[Push, ...] = ()
    hosted_pushes: tuple[HostedPush, ...] = ()
    job_push: JobPush | None = None  # claims its connection: idle, and of the generation the chooser saw
    queue: tuple[QueuedJob, ...] = ()  # put
    unqueue: tuple[QueuedJob, ...] = ()  # removed
    notices: tuple[Notice, ...] = ()
    lost: LostConsumer | None = None  # must not have come back since it was looked at
    free: tuple[tuple[Connection, str], ...] = ()  # connections to free, each if it holds that job
    counts: Mapping[str, float] = field(default_factory=dict)  # metric rows to add to, see metrics.py
    durations: tuple[tuple[str, float], ...] = ()  # tool id and seconds of steps that succeeded

    def message_key(self, number: int) -> str:
        """The key of one of its messages, counted from 0; keys sort as messages were written."""
        after = self.after
        return f"{after.clock_ms:015d}#{after.id}#{after.version:09d}#{number:02d}"
