"""What each type of event holds (specification section 4.2), and what two of them say only in the words of the log.

Others read the log, so its payloads keep the specification's form. Where that form leaves a meaning to a text or a
number, what writes and what reads it lie here: `resumed_by_signal` and `resuming_signal`, `is_remote`.
"""

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypedDict

from piecework.jsons import Json

Private = Literal[True]  # the rule keeps the arguments for approvers: others get `questions.HIDDEN` instead
SIGNAL_RESUMES: Final = "signal received: "  # and the signal's type


class ExecutionCreated(TypedDict):
    """The first event."""

    agent_id: str
    input: Json
    labels: dict[str, str]
    again_of: NotRequired[str]  # the execution that it is once more


class ExecutionStarted(TypedDict):
    """It was given to a consumer."""

    session_id: str
    consumer_id: str


class ExecutionBlocked(TypedDict):
    """It waits for a signal of the type `ref`, or for a person's answer about the step `ref`."""

    reason: Literal["signal", "approval"]
    ref: str
    tool_id: NotRequired[str]  # this and the following: of an approval
    arguments: NotRequired[Json]
    remote: NotRequired[bool]  # left out when false
    expires_at: NotRequired[str]  # this and the following: of a wait with a time of its own
    on_timeout: NotRequired[Literal["deny", "fail"]]
    private: NotRequired[Private]
    notify: NotRequired[str]  # the name under which notices of an approval are published


class ExecutionResumed(TypedDict):
    """What it waited for has come; `resuming_signal` says whether that was a signal."""

    reason: str


class ExecutionCompleted(TypedDict):
    """Its agent has ended it well."""

    output: Json


class ExecutionFailed(TypedDict):
    """Its agent has given up, or its time is over."""

    error: str


class ExecutionCancelled(TypedDict):
    """A client has ended it."""

    reason: str


class ExecutionReset(TypedDict):
    """It waits for another consumer, from the start."""

    reason: Literal["agent_disconnect", "recovery", "send_failed"]
    from_status: str


class GivenMembers(TypedDict, total=False):
    """The members of a tool call that events show only if they are there."""

    arguments: Json
    idempotency_key: str
    private: Private


class IntentDetails(GivenMembers, total=False):
    """The members of an intent that its type has, where they were given."""

    tool_id: str
    output: Json
    error: str
    signal_type: str


class IntentAccepted(TypedDict):
    """An agent's intent was taken."""

    intent_type: str
    details: NotRequired[IntentDetails]


class IntentDenied(GivenMembers):
    """The policy, its rate limit or a person says no."""

    intent_type: str
    tool_id: str
    reason: str
    rule_id: str
    answered_as: NotRequired[str]  # the step that a person was asked about


class StepCreated(TypedDict):
    """A tool is to be called; `is_remote` says by whom."""

    tool_id: str
    tool_version: int  # always 0
    arguments: Json
    max_attempts: int
    attempt: int
    deadline: str
    remote: NotRequired[bool]  # of a call that a person has let through before
    answered_as: NotRequired[str]  # the step that this person was asked about
    private: NotRequired[Private]


class StepDispatched(TypedDict):
    """A job goes to a runner or a queue, or a local step is let through; an id is empty where there is none."""

    runner_id: str
    job_id: str
    deadline: str


class StepStarted(TypedDict):
    """A runner has begun."""

    runner_id: str


class StepCompleted(TypedDict):
    """The tool has answered."""

    result: Json


class StepFailed(TypedDict):
    """The tool has failed; `retryable` says that another attempt follows."""

    error: str
    retryable: bool
    answer_kept: NotRequired[bool]  # a person's answer waits for the next run


class StepTimedOut(TypedDict):
    """Its time is over."""


class StepRetried(TypedDict):
    """Another attempt follows."""

    next_attempt: int


class StepCancelled(TypedDict):
    """Its execution ends or starts over."""

    reason: str
    answer_kept: NotRequired[bool]


class StepApprovalRequired(TypedDict):
    """A person is asked."""

    tool_id: str
    arguments: Json
    remote: bool
    reason: str
    private: NotRequired[Private]


class SignalReceived(TypedDict):
    """Something came from outside."""

    signal_type: str
    payload: Json


class AgentTimeout(TypedDict):
    """A consumer is gone."""

    session_id: str  # empty when nobody had one


class RunStep(TypedDict):
    """A hosted run has recorded a `run.step`; what the step gave is not told."""

    name: str
    place: int  # among the steps of this name in its run
    started_at: str
    ended_at: str
    bytes: int  # of its result as JSON
    left_out: NotRequired[int]  # further steps that are not told


class RunProgress(TypedDict):
    """A hosted run says how far it has come."""

    pct: float
    text: str
    at: str


class RunTokens(TypedDict, total=False):
    """What model calls of a hosted run took so far in this run, as its executor notes it."""

    model: str
    model_calls: int
    input_tokens: int
    output_tokens: int


PAYLOADS: Final[Mapping[str, type]] = {
    "execution.created": ExecutionCreated,
    "execution.started": ExecutionStarted,
    "execution.blocked": ExecutionBlocked,
    "execution.resumed": ExecutionResumed,
    "execution.completed": ExecutionCompleted,
    "execution.failed": ExecutionFailed,
    "execution.cancelled": ExecutionCancelled,
    "execution.reset": ExecutionReset,
    "intent.accepted": IntentAccepted,
    "intent.denied": IntentDenied,
    "step.created": StepCreated,
    "step.dispatched": StepDispatched,
    "step.started": StepStarted,
    "step.completed": StepCompleted,
    "step.failed": StepFailed,
    "step.timed_out": StepTimedOut,
    "step.retried": StepRetried,
    "step.cancelled": StepCancelled,
    "step.approval_required": StepApprovalRequired,
    "signal.received": SignalReceived,
    "agent.timeout": AgentTimeout,
    "run.step": RunStep,
    "run.progress": RunProgress,
    "run.tokens": RunTokens,
}


def resumed_by_signal(signal_type: str) -> ExecutionResumed:
    """What an execution that waited for a signal resumes with."""
    return ExecutionResumed(reason=f"{SIGNAL_RESUMES}{signal_type}")


def resuming_signal(payload: ExecutionResumed) -> str | None:
    """The type of the signal that has resumed an execution; None when an answer to an approval has, or its time."""
    reason = payload["reason"]
    return reason.removeprefix(SIGNAL_RESUMES) if reason.startswith(SIGNAL_RESUMES) else None


def is_remote(payload: StepCreated) -> bool:
    """Whether a runner calls the tool: such a step is tried more than once, unless a person has let it through."""
    return payload.get("remote", payload["max_attempts"] > 1)


KEPT: Final[Mapping[str, frozenset[str]]] = {  # of an event of a forgotten execution: ids, names, times, counts
    "execution.created": frozenset({"agent_id", "again_of"}),
    "execution.started": frozenset({"session_id", "consumer_id"}),
    "execution.blocked": frozenset(
        {"reason", "ref", "tool_id", "remote", "expires_at", "on_timeout", "private", "notify"}
    ),
    "execution.resumed": frozenset({"reason"}),
    "execution.reset": frozenset({"reason", "from_status"}),
    "intent.accepted": frozenset({"intent_type"}),
    "intent.denied": frozenset({"intent_type", "tool_id", "rule_id", "answered_as", "private"}),
    "step.created": frozenset(
        {"tool_id", "tool_version", "max_attempts", "attempt", "deadline", "remote", "answered_as", "private"}
    ),
    "step.dispatched": frozenset({"runner_id", "job_id", "deadline"}),
    "step.started": frozenset({"runner_id"}),
    "step.failed": frozenset({"retryable", "answer_kept"}),
    "step.retried": frozenset({"next_attempt"}),
    "step.cancelled": frozenset({"answer_kept"}),
    "step.approval_required": frozenset({"tool_id", "remote", "private"}),
    "signal.received": frozenset({"signal_type"}),
    "agent.timeout": frozenset({"session_id"}),
    "run.step": frozenset({"name", "place", "started_at", "ended_at", "bytes", "left_out"}),
    "run.progress": frozenset({"pct", "at"}),
    "run.tokens": frozenset({"model", "model_calls", "input_tokens", "output_tokens"}),
}
EMPTY: Final[Mapping[str, Mapping[str, Json]]] = {  # what stands for a member that every event of the type has
    "execution.created": {"input": None, "labels": {}},
    "execution.completed": {"output": None},
    "execution.failed": {"error": ""},
    "execution.cancelled": {"reason": ""},
    "intent.denied": {"reason": ""},
    "step.created": {"arguments": None},
    "step.completed": {"result": None},
    "step.failed": {"error": ""},
    "step.cancelled": {"reason": ""},
    "step.approval_required": {"arguments": None, "reason": ""},
    "signal.received": {"payload": None},
    "run.progress": {"text": ""},
}


def emptied(kind: str, payload: Mapping[str, Json]) -> dict[str, Json]:
    """What stays of an event's payload when its execution is forgotten; of a type that is not known here, nothing.

    The fold of an emptied log is still the execution's state.
    """
    kept = KEPT.get(kind, frozenset())
    return {name: value for name, value in payload.items() if name in kept} | dict(EMPTY.get(kind, {}))
