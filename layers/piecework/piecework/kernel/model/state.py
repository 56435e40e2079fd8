"""What is kept of one execution so that a command can be decided without its log (specification sections 1 and 10.1).

An `Execution` is the checkpoint that every command reads and replaces. It holds no payloads: input, output, arguments,
results and signal payloads are values of their own, and messages to streams name them by their ids. Its size depends on
what is going on at the moment (active steps, stored signals), never on the length of its log.
"""

from collections.abc import Mapping
from enum import StrEnum

from piecework.kernel.model.kept_answers import Approvals
from piecework.values import dataclass, field


class Status(StrEnum):
    """Where an execution is (section 1.1)."""

    PENDING = "pending"
    RUNNING = "running"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether it never changes again."""
        return self in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class StepStatus(StrEnum):
    """Where a step is (section 1.2)."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the step has ended; a retried failure is not an end."""
        return self not in (StepStatus.PENDING, StepStatus.DISPATCHED, StepStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Connection:
    """A runner's connection: the pair that holds at most one job (section 1.6)."""

    runner_id: str
    consumer_id: str


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of a remote step: queued while `held_by` is None, else in that connection's hand."""

    id: str
    not_before_ms: int  # its place in the queue: the time of its command, or the earliest time of a retry
    held_by: Connection | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An active step; its arguments and its outcome are a `StepRecord`."""

    id: str
    tool_id: str
    remote: bool
    status: StepStatus
    attempt: int
    max_attempts: int
    created_at_ms: int
    deadline_ms: int | None  # None after a retry until its job is handed out
    job: Job | None = None  # of a remote step that is not waiting for an approval
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """The lease that ties an execution to one consumer; its id is the agent's credential (section 1.3)."""

    id: str
    consumer_id: str
    created_at_ms: int
    expires_at_ms: int  # the last sign of life and the agent timeout
    has_shown_life: bool = False  # an intent or a step result came under it


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a blocked execution waits for: `signal` and its type, or `approval` and its step's id."""

    reason: str
    ref: str
    until_ms: int | None = None  # of an approval with a time of its own: then the execution's clock stands still
    on_timeout: str = ""  # what happens then: `deny` or `fail`
    notify: str = ""  # of an approval: notices are published under this name
    as_of_ms: int = 0  # and deadlines of its steps are those of this time: they sleep until it is resumed


@dataclass(frozen=True, slots=True)
class StoredSignal:
    """A signal nobody has consumed yet; its payload is kept under its event's sequence."""

    sequence: int
    type: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """That an execution was forgotten on request; `complete` once all is erased."""

    at_ms: int
    by: str  # the name of the token; empty at a door without tokens
    reason: str
    again_of: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of an agent, which gets no new work: who ordered it, when and why; and who ended it, if it has ended."""

    at_ms: int
    by: str
    reason: str
    resumed_ms: int | None = None
    resumed_by: str = ""
    resumed_reason: str = ""

    @property
    def is_on(self) -> bool:
        """Whether it holds."""
        return self.resumed_ms is None


@dataclass(frozen=True, slots=True)
class Execution:
    """The checkpoint of one execution."""

    id: str
    agent_id: str
    labels: Mapping[str, str]
    status: Status
    version: int  # one more with every command
    sequence: int  # of the last event
    created_at_ms: int
    updated_at_ms: int  # of the last change of its status
    clock_ms: int  # time of the last command; never runs backwards, whatever the copies' clocks say
    session: Session | None = None
    blocked: Blocked | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)  # the active ones, oldest first
    step_count: int = 0  # steps ever created
    signals: tuple[StoredSignal, ...] = ()  # oldest first
    resumed_by: StoredSignal | None = None  # the signal that resumed it, until its agent shows that it has heard of it
    unattended_at_ms: int | None = None  # running or blocked without a session since then (sections 1.4, 1.7)
    ended_at_ms: int | None = None
    paused_ms: int = 0  # how long its clock stood still, in approvals with a time of their own
    is_tainted: bool = False
    worked_by: tuple[
        str, ...
    ] = ()  # names of tokens that its agent's intents and results came with, the first `MOST_NAMES`
    has_answered: bool = False  # a person has answered about a step of it, or may have
    approvals: Approvals = field(default_factory=Approvals, compare=False)  # kept beside what the log tells
    forgotten: Forgotten | None = field(default=None, compare=False)  # so is this

    def waits_for(self, reason: str, ref: str) -> bool:
        """Whether it is blocked for exactly this."""
        return self.blocked is not None and (self.blocked.reason, self.blocked.ref) == (reason, ref)

    @property
    def is_waiting(self) -> bool:
        """Whether a consumer of its agent should be given it: pending, or running with nobody working on it."""
        return self.status is Status.PENDING or (self.status is Status.RUNNING and self.session is None)
