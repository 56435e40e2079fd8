"""A tool call as a policy sees it, and the verdict on it."""

from collections.abc import Mapping
from enum import StrEnum

from piecework.jsons import Json
from piecework.values import dataclass


class Decision(StrEnum):
    """What a policy can say about a call."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


class OnTimeout(StrEnum):
    """What becomes of a call that nobody has answered in time."""

    DENY = "deny"  # as if a person had said no
    FAIL = "fail"  # its execution fails


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a call waits for a person; the execution's own clock stands still meanwhile."""

    timeout_ms: int
    on_timeout: OnTimeout
    text: str  # the time as the file writes it


@dataclass(frozen=True, slots=True)
class Call:
    """An `invoke_tool` intent, with the age, the steps and the labels of its execution."""

    agent_id: str
    tool_id: str
    now_ms: int
    labels: Mapping[str, str]
    arguments: Json = None
    has_arguments: bool = False  # an explicit null is there, and counts as {}
    step_count: int = 0  # steps ever created, this one not counted
    age_ms: int = 0  # of the execution


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many allowed calls of one agent to one tool within a sliding window."""

    max: int
    window_ms: int
    text: str  # the window as the file writes it

    def refusal(self, rule_id: str) -> str:
        """What the agent reads when the window is full."""
        return f"rate limit exceeded: max {self.max} per {self.text} (rule: {rule_id})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one call. `rate_limit` still has to be taken from the shared windows."""

    decision: Decision
    reason: str
    rule_id: str
    timeout_ms: int | None = None  # None: the step timeout
    rate_limit: RateLimit | None = None
    wait: Wait | None = None  # of an approval; None: as long as its execution lives
    is_private: bool = False  # of an approval: its arguments are for approvers only
    notify: str = ""  # of an approval: notices are published under this name; empty: there are none
