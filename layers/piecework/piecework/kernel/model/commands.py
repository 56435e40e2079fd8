"""What can be asked of an execution; each is decided in `decide.py` and stored as one change."""

from collections.abc import Mapping
from typing import Final

from piecework.edge.roles import EVERY, Roles
from piecework.jsons import Json
from piecework.kernel.model.fingerprints import fingerprint, matches
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.policy.verdicts import Verdict
from piecework.values import dataclass

INVOKE_TOOL: Final = "invoke_tool"
WAIT: Final = "wait"
COMPLETE: Final = "complete"
FAIL: Final = "fail"


@dataclass(frozen=True, slots=True)
class Intent:
    """What an agent wants; empty texts stand for members that are absent."""

    type: str
    tool_id: str = ""
    arguments: Json = None
    has_arguments: bool = False
    output: Json = None
    has_output: bool = False
    error: str = ""
    signal_type: str = ""
    idempotency_key: str = ""
    remote: bool = False

    @property
    def fingerprint(self) -> str:
        """Of what a repeat with the same key must agree in (section 2.9)."""
        return fingerprint(self._compared)

    def is_told_by(self, stored: str) -> bool:
        """Whether a stored fingerprint is of an intent like this."""
        return matches(stored, self._compared)

    @property
    def _compared(self) -> Json:
        return [self.type, self.tool_id, self.signal_type, self.has_arguments, self.arguments]


@dataclass(frozen=True, slots=True)
class Create:
    """A client creates an execution."""

    execution_id: str
    agent_id: str
    input: Json
    labels: Mapping[str, str]
    consumer_id: str = ""  # it is given to this one at once; empty: it waits
    again_of: str = ""  # the execution that it is once more


@dataclass(frozen=True, slots=True)
class Assign:
    """A connected consumer is given an execution that waits."""

    consumer_id: str


Report = tuple[str, Mapping[str, Json]]  # what a hosted run did before an intent: an event's type and its payload


@dataclass(frozen=True, slots=True)
class TakeIntent:
    """An agent's intent under its session; `verdict` is the policy's on a tool call, `over_limit` of its rate."""

    session_id: str
    intent: Intent
    verdict: Verdict | None = None
    over_limit: bool = False
    policy_seconds: float = 0.0
    linked: RunnerConnection | None = None
    reports: tuple[Report, ...] = ()  # of a hosted run


@dataclass(frozen=True, slots=True)
class StepResult:
    """An agent reports a step."""

    session_id: str
    step_id: str
    success: bool
    data: Json
    error: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """A runner reports a job."""

    job_id: str
    step_id: str
    success: bool
    data: Json
    error: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A runner has begun to work on a step."""

    step_id: str
    runner_id: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Something from outside, by a caller with these roles.

    For a step that it lets through: `linked` is a runner's connection, `consumer` the agent's, whose session it is.
    """

    type: str
    payload: Json
    linked: RunnerConnection | None = None
    consumer: Consumer | None = None
    roles: Roles = EVERY
    served: bool | None = None  # by a token of agents: whether the execution's agent has connected with it
    works_as: str = ""  # a name that is the caller's too, if the execution's agent works by the token of that name
    is_answer: bool = False  # it answers about a step, whatever the agent waits for; else that tells what it is

    @property
    def step_id(self) -> str:
        """The step that it is about, where it says so."""
        named = self.payload.get("step_id") if isinstance(self.payload, dict) else None
        return named if isinstance(named, str) else ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A client ends an execution."""


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The stream of a session's consumer is gone for good; `consumer` as it was found, where that tells something."""

    session_id: str
    consumer: Consumer | None = None


@dataclass(frozen=True, slots=True)
class SendFailed:
    """An assignment could not be written to its stream."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Recover:
    """Nobody works on the execution and no consumer of its agent is connected."""


@dataclass(frozen=True, slots=True)
class Expire:
    """A timer of the execution may have come."""


@dataclass(frozen=True, slots=True)
class MoveClock:
    """A timer has come and there was nothing to do: move the execution's clock on, so that its next due time shows."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A queued job goes to an idle connection."""

    step_id: str
    job_id: str
    linked: RunnerConnection
    queued_at_ms: int
    tool_id: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """A job was lost with its connection before anybody began it."""

    step_id: str
    job_id: str


Command = (
    Assign
    | TakeIntent
    | StepResult
    | JobResult
    | Started
    | Signal
    | Cancel
    | AgentLost
    | SendFailed
    | Recover
    | Expire
    | MoveClock
    | Dispatch
    | Requeue
)
