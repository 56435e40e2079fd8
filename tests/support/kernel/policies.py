"""Builders for policies and calls, and rate windows in memory."""

import textwrap
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from piecework.kernel.policy.loading import load_file
from piecework.kernel.policy.rules import RuleSet
from piecework.kernel.policy.verdicts import Call
from piecework.kernel.policy.windows import RateWindows, Window, window_id
from tests.support.fakes import START_MS


def a_call(tool_id: str = "kb.search", **other: Any) -> Call:
    """A call; arguments are there when they are named."""
    defaults: dict[str, Any] = {"agent_id": "support", "now_ms": START_MS, "labels": {}}
    return Call(tool_id=tool_id, has_arguments="arguments" in other, **{**defaults, **other})


def a_policy(text: str, name: str = "policy.yaml") -> RuleSet:
    """The policy of a file with this text."""
    return load_file(textwrap.dedent(text).encode(), name)


def holds(when: str, call: Call) -> bool:
    """Whether a rule with this `when` (flow style) matches a call."""
    policy = a_policy(f"rules: [{{id: asked, when: {when}, then: {{decision: allow}}}}]")
    return policy.decide(call).rule_id == "asked"


def at(text: str) -> int:
    """Epoch milliseconds of an ISO time."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@dataclass
class FakeRateWindows(RateWindows):
    """Windows in a dictionary, each call atomic."""

    windows: dict[str, Window] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, agent_id: str, tool_id: str, most: int, window_ms: int, now_ms: int) -> bool:
        name = window_id(agent_id, tool_id)
        with self.lock:
            taken = self.windows.get(name, Window()).taken(most, window_ms, now_ms)
            if taken is None:
                return False
            self.windows[name] = taken
            return True
