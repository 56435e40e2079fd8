"""One execution's world: a client, an agent and a runner that go on whatever happens to the process they talk to.

world = World(store, clock)         # two processes over one store: `first` is tapped and may be killed, `other` lives
world.connect()                     # agent and runner, to the process that lives
world.tap.arm(point); ...           # see crash.py
world.recover()                     # everybody turns to the other process and plays on until the execution has ended
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from piecework.kernel.errors import ExecutionBlocked, KernelError, SessionExpired, SessionNotFound
from piecework.kernel.model.events import TERMINAL, Event
from piecework.kernel.model.evolve import fold
from piecework.kernel.model.metrics import executions, intents
from piecework.kernel.model.state import Connection, Execution, Status
from piecework.kernel.settings import KernelSettings
from tests.support.crash import Tap, Tapped
from tests.support.fakes import FakeClock
from tests.support.kernel.doors import PORTS
from tests.support.kernel.stage import GATED, KernelStage, Line

RECOVERY_SECONDS = 90
COUNTED = ("execution.created", *TERMINAL)


def told_by(log: Sequence[Event]) -> Counter[str]:
    """What /metrics must count of an execution that has ended, but for the time that steps and the policy took."""
    counts = Counter(executions(event.type.partition(".")[2]) for event in log if event.type in COUNTED)
    for event in log:
        if event.type == "intent.accepted":
            counts[intents(event.payload["intent_type"], "accepted")] += 1
        elif event.type == "step.approval_required":
            counts[intents("invoke_tool", "pending_approval")] += 1
        elif event.type == "intent.denied":
            counts[intents("invoke_tool", "denied")] += 1
        elif event.type == "step.completed":
            counts["steps"] += 1
    return counts


def shown_by(rows: Mapping[str, float]) -> Counter[str]:
    """The same of the rows behind /metrics; steps of all tools in one number."""
    times = {row for row in rows if row.startswith(("steps", "policy"))}
    buckets = (rows[row] for row in times if row.startswith("steps") and not row.endswith("sum"))
    counts = {row: rows[row] for row in rows.keys() - times} | {"steps": sum(buckets)}
    return Counter({row: int(amount) for row, amount in counts.items() if amount})


def tapped_ports(store: Any, tap: Tap) -> Any:
    """A store whose every call may be the process's last."""
    return SimpleNamespace(**{name: Tapped(getattr(store, name), tap) for name in PORTS})


class World:
    """Everybody who has to do with one execution."""

    def __init__(
        self, store: Any, clock: FakeClock, tapped: Any = None, tap: Tap | None = None, sweep_seconds: int = 1
    ) -> None:
        self.clock, self.tap, settings = clock, tap or Tap(), KernelSettings()
        self.first = KernelStage(settings, clock, tapped or tapped_ports(store, self.tap))
        self.other = KernelStage(settings, clock, store)
        self.store, self.stage, self.sweep_seconds = store, self.first, sweep_seconds
        self.agent_id, self.tool, self.connection = "triage", "geo.lookup", Connection("geo-1", "one")
        self.execution_id = ""
        self.consumer_id = "one"
        self.session: Any = None
        self.agent: Line | None = None
        self.runner: Line | None = None
        self.heard: set[str] = set()  # sessions
        self.jobs: list[Any] = []
        self.done_jobs: set[str] = set()
        self.waiting_for: set[str] = set()  # sessions whose handler has asked to wait

    @property
    def state(self) -> Execution:
        return self.other.state(self.execution_id)

    @property
    def types(self) -> list[str]:
        return self.other.types(self.execution_id)

    def create(self) -> None:
        self.execution_id = self.stage.create({"ticket": 91}, self.agent_id)
        self.listen()

    def connect(self) -> None:
        self.connect_agent()
        self.connect_runner()

    def connect_agent(self) -> None:
        self.agent = self.stage.agent(self.agent_id, self.consumer_id)
        self.listen()

    def connect_runner(self) -> None:
        self.runner = self.stage.runner(self.connection.runner_id, self.connection.consumer_id, f"{self.tool},{GATED}")
        self.listen()

    def listen(self) -> None:
        """What the streams have brought so far."""
        for line in (self.agent, self.runner):
            if line and not line.has_ended:
                line.look()
        self.hear()

    def hear(self) -> None:
        """What has been written to the streams so far, whatever became of their writer."""
        lines = dict.fromkeys([*self.first.lines, *self.other.lines])
        for data in (data for line in lines for data in line.of("execution.assigned")):
            if data["session_id"] not in self.heard and self.execution_id in ("", data["execution_id"]):
                self.heard.add(data["session_id"])
                self.session, self.execution_id = data, data["execution_id"]
        known = {job["id"] for job in self.jobs}
        self.jobs += [job for line in lines for job in line.of("job.assigned") if job["id"] not in known]

    def invoke(self, tool_id: str = "", *, remote: bool = True, key: str = "tool") -> str:
        return self.stage.invoke(self.session, tool_id or self.tool, remote=remote, key=key)

    def call(self, tool_id: str = "", *, remote: bool = True, key: str = "tool") -> str:
        """A tool call, and what the runner hears of it."""
        step_id = self.invoke(tool_id, remote=remote, key=key)
        self.listen()
        return step_id

    def finish(self, job: Any, **other: Any) -> None:
        given = {"success": True, "data": {"city": "Zürich"}, "error": "", "retryable": False} | other
        ids = (self.connection.runner_id, job["id"], job["execution_id"], job["step_id"])
        self.stage.kernel.job_result(*ids, **given)

    def wait(self) -> None:
        self.stage.intend(self.session, "wait", signal_type="go")
        self.waiting_for.add(self.session["session_id"])

    def lose_agent(self) -> None:
        """Its process is gone without a word; the next one has a consumer id of its own."""
        self.consumer_id = "two"
        if self.agent:
            self.stage.lines.remove(self.agent)
        self.agent, self.session = None, None

    def lose_runner(self) -> None:
        if self.runner:
            self.stage.lines.remove(self.runner)
        self.runner = None

    def killed(self) -> None:
        """The first process is gone: everybody turns to the other, with what they have heard."""
        self.hear()
        self.first.lines.clear()
        if self.stage is self.first:
            self.stage, self.agent, self.runner = self.other, None, None

    def recover(self, expects: Callable[[], bool]) -> bool:
        """Play on until it has ended as expected; False when that does not happen in time."""
        self.tap.arm(None)
        self.killed()
        self.clock.move(2)
        for _ in range(RECOVERY_SECONDS):
            self.tick()
            if expects():
                return True
        return False

    def tick(self) -> None:
        """A second of everybody's life."""
        self.clock.move(1)
        if self.clock() // 1_000 % self.sweep_seconds == 0:
            self.stage.sweep()
        if self.agent is None:
            self.connect_agent()
        if self.runner is None:
            self.connect_runner()
        self.listen()
        self._work()
        with suppress(KernelError):
            self._handle()
        with suppress(KernelError):
            self._answer()
        self.listen()

    def _work(self) -> None:
        for job in self.jobs:
            if job["id"] not in self.done_jobs:
                self.done_jobs.add(job["id"])
                with suppress(KernelError):
                    self.finish(job)

    def _handle(self) -> None:
        """The agent's handler: call a tool, report what is local, wait for a signal, complete."""
        if self.session is None or not self.execution_id or self.agent is None:
            return
        try:
            for step in self.state.steps.values():
                if not step.remote:
                    with suppress(KernelError):
                        self.stage.report(self.session, step.id)
            step_id = self.invoke()
            self.listen()
            if not any(result["step_id"] == step_id for result in self.agent.of("tool.result")):
                return
            self._wait_and_complete()
        except (SessionExpired, SessionNotFound):
            self.session = None

    def _wait_and_complete(self) -> None:
        session_id = self.session["session_id"]
        if session_id not in self.waiting_for:
            with suppress(ExecutionBlocked):
                self.wait()
            self.waiting_for.add(session_id)
        if self.state.status is Status.RUNNING:
            self.stage.intend(self.session, "complete", output={"done": True})

    def _answer(self) -> None:
        """The client's side: resume what waits, approve what asks."""
        blocked = self.state.blocked if self.execution_id else None
        if blocked and blocked.reason == "signal":
            self.stage.kernel.signal(self.execution_id, blocked.ref, {"by": "mia"})
        elif blocked:
            self.stage.kernel.signal(self.execution_id, "step.approve", {"step_id": blocked.ref, "approved": True})

    def problems(self) -> list[str]:
        """What is wrong with an execution that has ended, and with what it leaves behind."""
        log = self.store.executions.events(self.execution_id, 0, 1000)
        ends = Counter(
            event.step_id
            for event in log
            if event.type in ("step.completed", "step.timed_out", "step.cancelled")
            or (event.type == "step.failed" and not event.payload["retryable"])
        )
        state = fold(log)
        link = self.store.runners.find(self.connection)
        wrong = {
            "a gap in the log": [event.sequence for event in log] != list(range(1, len(log) + 1)),
            "an end before the last event": any(event.type in TERMINAL for event in log[:-1]),
            "GET and the log differ": (state.status, state.sequence) != (self.state.status, self.state.sequence),
            "a step without exactly one end": ends
            != Counter(event.step_id for event in log if event.type == "step.created"),
            "a busy connection": link is not None and link.job_id != "",
            "a job in the queue": bool(self.store.runners.queued(self.tool, self.clock() + 10**9, 10)),
            "a waiting marker": bool(self.store.agents.agent_queue(self.agent_id).waiting),
            "numbers that the log does not tell": told_by(log) != shown_by(self.store.counters.all()),
        }
        return [problem for problem, is_so in wrong.items() if is_so]
