"""The whole kernel in one process, over its stores in memory: real domain, streams that are looked at step by step.

stage = KernelStage()
agent = stage.agent("triage", "one")
execution = stage.kernel.create("triage", {"n": 1}, {}).execution.id
agent.take("execution.assigned")["session_id"]
stage.pass_time(seconds=5)      # open streams look, due times are swept
agent.close()                   # as a client does
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from piecework.errors import PieceworkError
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.due_times import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE
from piecework.kernel.model.state import Execution, Status
from piecework.kernel.policy.verdicts import Call, Decision, Verdict
from piecework.kernel.service.commits import Environment
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.opening import Stream
from piecework.kernel.streams.push_streams import PushStream
from piecework.kernel.wire.frames import HEARTBEAT
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.doors import a_door
from tests.support.kernel.fakes import new_store

LOOK_SECONDS = 0.25
KINDS = (EXECUTION_DUE, AGENT_DUE, RUNNER_DUE)
GATED = "pay.refund"


class Everything:
    """A policy that allows every call, and asks a person about one tool."""

    def decide(self, call: Call) -> Verdict:
        if call.tool_id == GATED:
            return Verdict(Decision.REQUIRE_APPROVAL, "a person must look", "gate")
        return Verdict(Decision.ALLOW, "", "ok")


@dataclass(eq=False)
class Line:
    """A client at the end of a stream: what it has read so far, in frames."""

    stage: "KernelStage"
    stream: Stream
    seen: list[tuple[str, Any]] = field(default_factory=list)
    beats: list[int] = field(default_factory=list)
    has_ended: bool = False
    is_lost: bool = False  # it has left, and nobody has noticed
    beats_at: int = 0  # when the next heartbeat is due

    def look(self) -> None:
        """What one look of the stream brings."""
        if self.has_ended:
            return
        self.keep()
        step = self.stream.step()
        for frame in step.frames:
            self.read(frame)
        if step.ends:
            self.has_ended = True
            self.stage.lines.remove(self)
        else:
            self.stream.sent()

    def keep(self) -> None:
        """What the server does beside the looks: a heartbeat, and the leases that are due."""
        now = self.stage.clock()
        self.beats_at = self.beats_at or now + self.stage.settings.heartbeat_ms
        if now >= self.beats_at:
            self.beats_at += (
                1 + (now - self.beats_at) // self.stage.settings.heartbeat_ms
            ) * self.stage.settings.heartbeat_ms
            self.read(HEARTBEAT)
        if self.stage.keeper and isinstance(self.stream, PushStream):
            self.stage.keeper.keep([self.stream])

    def close(self) -> None:
        """The client leaves, and that is seen."""
        self.has_ended = True
        self.stage.lines.remove(self)
        self.stream.closed()

    def of(self, kind: str) -> list[Any]:
        """The data of all frames of a kind so far."""
        return [data for event, data in self.seen if event == kind]

    def take(self, kind: str) -> Any:
        """The one frame of that kind; the stream is looked at before."""
        self.look()
        [data] = self.of(kind)
        return data

    def read(self, frame: bytes) -> None:
        """One frame arrives."""
        if frame == HEARTBEAT:
            self.beats.append(self.stage.clock())
            return
        lines = [line for line in frame.decode("ascii").splitlines() if line and not line.startswith("id: ")]
        event, data = lines
        if not self.is_lost:
            self.seen.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))


class KernelStage:
    """One kernel; `copy()` is a further process over the same stores."""

    def __init__(
        self,
        settings: KernelSettings | None = None,
        clock: FakeClock | None = None,
        store: Any = None,
        policy: Any = None,
        sleep: Callable[[float], None] = lambda seconds: None,
        **other: Any,
    ) -> None:
        self.clock, self.settings, self._sleep = clock or FakeClock(START_MS), settings or KernelSettings(), sleep
        self.store = store or new_store(self.clock, self.settings)
        environment = Environment(clock=self.clock, sleep=sleep)
        parts = {"policy": policy or Everything(), "environment": environment, "nudge": lambda due, delay_ms: None}
        self.door = a_door(self.store, self.clock, self.settings, **parts, **other)
        self.kernel, self.dispatcher = self.door.kernel, self.door.dispatcher
        self.liveness, self.streams = self.door.liveness, self.door.streams
        has_keeper = hasattr(self.streams, "keeper")  # the streams of earlier versions renew their leases themselves
        self.keeper: Any = self.streams.keeper() if has_keeper else None
        self.lines: list[Line] = []

    def copy(self) -> "KernelStage":
        """Another process, over the same stores and the same time."""
        other = KernelStage(self.settings, self.clock, self.store, sleep=self._sleep)
        other.lines = self.lines
        return other

    def agent(self, agent_id: str = "triage", consumer_id: str = "one", by: str = "") -> Line:
        """A consumer connects, by the token of that name."""
        return self._line(self.streams.agent(agent_id, consumer_id, *filter(None, [by])))

    def runner(self, runner_id: str = "geo-1", consumer_id: str = "one", tools: str = "geo.lookup") -> Line:
        """A runner connects."""
        return self._line(self.streams.runner(runner_id, consumer_id, tools.split(",")))

    def monitor(self, execution_id: str, after: int = 0) -> Line:
        """Somebody follows an execution."""
        return self._line(self.streams.monitor(execution_id, after))

    def create(self, given: Any = None, agent_id: str = "triage") -> str:
        """A new execution's id."""
        return self.kernel.create(agent_id, given, {}).execution.id

    def invoke(self, session: Any, tool_id: str = "geo.lookup", *, remote: bool = False, key: str = "") -> str:
        """A tool call under an assignment; its step's id."""
        intent = Intent("invoke_tool", tool_id, {"zip": "8001"}, True, remote=remote, idempotency_key=key)
        answer = self.kernel.intent(session["execution_id"], session["session_id"], intent)
        return str(answer["step_id"])

    def intend(self, session: Any, kind: str, **other: Any) -> Any:
        """Another intent under an assignment."""
        return self.kernel.intent(session["execution_id"], session["session_id"], Intent(kind, **other))

    def report(self, session: Any, step_id: str, data: Any = None, error: str = "") -> None:
        """The result of a local step."""
        self.kernel.step_result(session["execution_id"], session["session_id"], step_id, not error, data, error)

    def finish(self, job: Any, data: Any = None, runner_id: str = "geo-1") -> None:
        """A job's good result."""
        self.kernel.job_result(runner_id, job["id"], job["execution_id"], job["step_id"], True, data, "", False)

    def started(self, job: Any, runner_id: str = "geo-1") -> None:
        """A runner has begun its job."""
        self.kernel.started(job["step_id"], job["execution_id"], runner_id)

    def signal(self, execution_id: str, signal_type: str, payload: Any) -> None:
        self.kernel.signal(execution_id, signal_type, payload)

    def cancel(self, execution_id: str) -> None:
        self.kernel.cancel(execution_id)

    def state(self, execution_id: str) -> Execution:
        """The checkpoint, as it is stored."""
        execution = self.store.executions.read(execution_id).execution
        assert execution is not None
        return execution

    def status(self, execution_id: str) -> Status:
        """What GET would tell, timers aside."""
        return self.state(execution_id).status

    def types(self, execution_id: str) -> list[str]:
        """The log, by type."""
        return [event.type for event in self.store.executions.events(execution_id, 0, 1000)]

    def pass_time(self, seconds: float, until: Callable[[], bool] | None = None, every: float = LOOK_SECONDS) -> float:
        """Let time pass: open streams look, due times are swept; returns the seconds it took until `until` held.

        A look asks 32 partitions for due times: where they lie in DynamoDB, `every` says how seldom one is enough.
        """
        for number in range(round(seconds / every)):
            if until is not None and until():
                return number * every
            self.clock.move(every)
            self.sweep()
            for line in list(self.lines):
                line.look()
        assert until is None or until(), f"not within {seconds} s"
        return seconds

    def sweep(self) -> None:
        """Fire every due time that has come."""
        for kind in KINDS:
            for due in list(self.store.due_times.ripe(kind, self.clock())):
                with suppress(PieceworkError):  # the next sweep meets it again
                    self.liveness.check(due)

    def _line(self, stream: Stream) -> Line:
        line = Line(self, stream)
        self.lines.append(line)
        line.look()
        return line


def rotating(seconds: float = 45) -> KernelSettings:
    """The rules where closes are not seen."""
    return replace(KernelSettings(), rotation_ms=int(seconds * 1000))


def supersede(older: Line) -> None:
    """What one process does with its own older stream of the same consumer."""
    assert isinstance(older.stream, PushStream)
    older.stream.supersede()
