"""Tells the story of one execution in pure code: decide a command, apply its change, look at what came of it."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from piecework.kernel.decide.command import decide, decide_new
from piecework.kernel.decide.intents import must_look_up_step, needs_verdict
from piecework.kernel.model.changes import Change, HistoryEntry, IdempotencyRecord, Push, QueuedJob, StepRecord
from piecework.kernel.model.commands import Assign, Create, Intent, Signal, TakeIntent
from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Connection, Execution
from piecework.kernel.policy.verdicts import Decision, Verdict
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.payloads import check_payloads

ALLOW = Verdict(Decision.ALLOW, "", "ok")
ASK = Verdict(Decision.REQUIRE_APPROVAL, "a human must look", "gate")
DENY = Verdict(Decision.DENY, "tool not on the list", "default")
RUNNER = Connection("geo-1", "geo-1-a")


def linked(connection: Connection = RUNNER) -> RunnerConnection:
    return RunnerConnection(connection, generation=1, lease_until_ms=10**15, is_open=True, tools=("geo.lookup",))


@dataclass
class Story:
    """One execution, its log and everything its changes have written."""

    settings: KernelSettings = field(default_factory=KernelSettings)
    now_ms: int = 1_750_000_000_000
    execution: Execution | None = None
    log: list[Event] = field(default_factory=list)
    records: dict[str, StepRecord] = field(default_factory=dict)
    answers: dict[str, IdempotencyRecord] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    pushes: list[Push] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    queue: list[QueuedJob] = field(default_factory=list)
    signals: dict[int, Any] = field(default_factory=dict)
    last: Change | None = None
    ids: Any = field(default_factory=lambda: count(1))

    def new_id(self, _now_ms: int) -> str:
        return f"id-{next(self.ids):04d}"

    @property
    def state(self) -> Execution:
        assert self.execution is not None
        return self.execution

    @property
    def session(self) -> str:
        assert self.state.session is not None
        return self.state.session.id

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.log]

    @property
    def queued(self) -> list[str]:
        return [job.job_id for job in self.queue]

    def create(self, **given: Any) -> "Story":
        command = Create("exec-1", given.get("agent_id", "triage"), given.get("input"), given.get("labels", {}))
        self._apply(decide_new(command, self.now_ms, self.settings, self.new_id).change)
        return self

    def assigned(self, consumer_id: str = "triage-9f") -> "Story":
        if self.execution is None:
            self.create()
        self.do(Assign(consumer_id))
        return self

    def read(self, key: str = "", step_id: str = "") -> Read:
        found = Read(self.execution, self.answers.get(key) if key else None, self.records.get(step_id))
        if found.answered and must_look_up_step(found):
            return replace(found, step=self.records.get(found.answered.step_id))
        return found

    def do(self, command: Any, by: str = "") -> Any:
        """Decide a command, by the token of that name, until it is done and apply it; the answer."""
        intent = command.intent if isinstance(command, TakeIntent) else None
        while True:
            read = self.read(intent.idempotency_key if intent else "", getattr(command, "step_id", ""))
            decision = decide(read, command, self.now_ms, self.settings, self.new_id, by)
            self._apply(decision.change)
            if not decision.again:
                return decision.answer

    def act(
        self, intent: Intent, verdict: Verdict = ALLOW, to: RunnerConnection | None = None, **more: Any
    ) -> dict[str, Any]:
        asked = needs_verdict(self.read(intent.idempotency_key), intent)
        return self.do(TakeIntent(self.session, intent, verdict if asked else None, linked=to, **more))

    def invoke(
        self, tool_id: str = "notes.find", verdict: Verdict = ALLOW, to: RunnerConnection | None = None, **members: Any
    ) -> str:
        """A tool call; its step's id."""
        members = {"arguments": {"q": "vpn"}, "has_arguments": True} | members
        return self.act(Intent("invoke_tool", tool_id, **members), verdict, to)["step_id"]

    def remote(self, to: RunnerConnection | None = None, **members: Any) -> str:
        return self.invoke("geo.lookup", to=to, remote=True, **members)

    def wait(self, signal_type: str = "go", **members: Any) -> dict[str, Any]:
        return self.act(Intent("wait", signal_type=signal_type, **members))

    def signal(
        self,
        signal_type: str = "go",
        payload: Any = None,
        to: RunnerConnection | None = None,
        by: str = "",
        **more: Any,
    ) -> None:
        self.do(Signal(signal_type, payload, to, **more), by)

    def job_id(self, step_id: str) -> str:
        job = self.state.steps[step_id].job
        assert job is not None
        return job.id

    def later(self, milliseconds: int) -> "Story":
        self.now_ms += milliseconds
        return self

    def _apply(self, change: Change | None) -> None:
        if change is None:
            return
        assert change.before == self.execution
        check_payloads(change.events)
        self.last, self.execution = change, change.after
        self.log += change.events
        self.records |= {record.id: record for record in change.new_steps}
        for step_id, outcome in change.outcomes.items():
            self.records[step_id] = replace(self.records[step_id], outcome=outcome)
        for step_id, decided in getattr(change, "decisions", {}).items():
            self.records[step_id] = replace(self.records[step_id], decided=decided)
        if change.answered:
            self.answers[change.answered.key] = change.answered
        self.pushes += change.pushes
        self.history += change.history
        self.signals |= change.signals
        self.queue = [job for job in [*self.queue, *change.queue] if job not in change.unqueue]
