"""A kernel over its stores in memory whose clock only moves when told, with rivals and crashes on request."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from piecework.kernel.model.commands import Intent
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Connection, Execution
from piecework.kernel.policy.verdicts import Call, Decision, Verdict
from piecework.kernel.service.commits import Environment
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.doors import a_door
from tests.support.kernel.fakes import new_store

FOR_EVER = 10**15


class Killed(Exception):
    """The process is gone, before or after its write."""


@dataclass
class Says:
    """A policy that answers by tool id; everything else is allowed."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def decide(self, call: Call) -> Verdict:
        self.calls.append(call)
        return self.verdicts.get(call.tool_id, Verdict(Decision.ALLOW, "", "ok"))


@dataclass
class Windows:
    """Rate windows that only count."""

    taken: int = 0

    def take(self, agent_id: str, tool_id: str, most: int, window_ms: int, now_ms: int) -> bool:
        if self.taken >= most:
            return False
        self.taken += 1
        return True


class House:
    """Everything in one process; agents and runners are connected by a word."""

    def __init__(self, settings: KernelSettings | None = None) -> None:
        self.now, self._ids, self.slept = 1_750_000_000_000, count(1), 0.0
        self.store, self.policy, self.windows = new_store(self.clock, settings), Says(), Windows()
        environment = Environment(self.clock, lambda _: f"id-{next(self._ids):04d}", self._sleep, lambda: 1.0)
        parts = {"policy": self.policy, "windows": self.windows, "environment": environment, **self.parts()}
        self.door = a_door(self.store, self.clock, settings, **parts)
        self.kernel, self.assigner, self.dispatcher = self.door.kernel, self.door.assigner, self.door.dispatcher

    def parts(self) -> dict[str, Any]:
        """What else is put in the place of the door's own."""
        return {}

    def clock(self) -> int:
        return self.now

    def join(self, consumer_id: str = "c1", agent_id: str = "triage") -> None:
        self.store.consumers[agent_id, consumer_id] = Consumer(agent_id, consumer_id, 1, FOR_EVER, is_open=True)

    def leave(self, consumer_id: str = "c1", agent_id: str = "triage") -> None:
        self.store.consumers.pop((agent_id, consumer_id), None)

    def link(self, runner_id: str = "geo-1", *tools: str) -> RunnerConnection:
        connection = Connection(runner_id, f"{runner_id}-a")
        self.store.links[connection] = RunnerConnection(connection, 1, FOR_EVER, True, tools or ("geo.lookup",))
        return self.store.links[connection]

    def running(self, consumer_id: str = "c1") -> str:
        self.join(consumer_id)
        return self.kernel.create("triage", None, {}).execution.id

    def state(self, execution_id: str) -> Execution:
        return self.store.kept[execution_id].execution

    def session(self, execution_id: str) -> str:
        session = self.state(execution_id).session
        return session.id if session else "none"

    def types(self, execution_id: str) -> list[str]:
        return [event.type for event in self.kernel.events(execution_id, 0, 1000)]

    def act(self, execution_id: str, intent: Intent, session_id: str = "") -> dict[str, Any]:
        return self.kernel.intent(execution_id, session_id or self.session(execution_id), intent)

    def invoke(self, execution_id: str, tool_id: str = "notes.find", **members: Any) -> str:
        return self.act(execution_id, Intent("invoke_tool", tool_id, **members))["step_id"]

    def remote(self, execution_id: str, **members: Any) -> str:
        return self.invoke(execution_id, "geo.lookup", remote=True, **members)

    def job(self, execution_id: str, step_id: str) -> Any:
        return self.state(execution_id).steps[step_id].job

    def result(self, execution_id: str, step_id: str, job_id: str = "", **members: Any) -> None:
        given = {"success": True, "data": None, "error": "", "retryable": False} | members
        job_id = job_id or self.job(execution_id, step_id).id
        self.kernel.job_result("geo-1", job_id, execution_id, step_id, **given)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds
