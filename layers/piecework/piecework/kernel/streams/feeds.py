"""What agent and runner streams have of their own: connections, what a message says, and how a lost one is undone.

`push_streams.py` has what they share: heartbeats, taking, rotation.
"""

from collections.abc import Callable
from typing import Final, Protocol

from piecework.kernel.model.changes import JobPush, Push
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Beside, Executions, Message, Read
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.model.state import Connection, Execution, Step, StepStatus
from piecework.kernel.service.assigning import MOST_AT_ONCE, RoundRobin
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.service import Kernel
from piecework.kernel.streams.hints import ASSIGNED, Named
from piecework.kernel.wire.frames import HISTORY_ENTRIES, assigned_body, frame, job_body, result_body

CANCELLED: Final = "execution.cancelled"
JOB: Final = "job.assigned"


Expect = Callable[[str, str, int], None]  # has somebody look at an owner's consumer at a time


class AgentFeed:
    """One connection of an agent."""

    kind: Final = "agent"

    def __init__(
        self, consumer: Consumer, stores: Stores, kernel: Kernel, assigner: RoundRobin, expect: Expect
    ) -> None:
        self.lease, self._stores, self._kernel, self._assigner = consumer, stores, kernel, assigner
        self._expect = expect
        self.owner, self.consumer_id, self.generation = consumer.agent_id, consumer.consumer_id, consumer.generation

    def end(self, grace_until_ms: int) -> bool:
        """The stream has ended; a successor has until then."""
        has_ended = self._stores.agents.end(self.lease, grace_until_ms)
        if has_ended:
            self._expect(self.owner, self.consumer_id, grace_until_ms)
        return has_ended

    def is_newest(self, message: Message | None = None) -> bool:
        """Whether no newer connection has replaced this one, by what was read with a message or else by a new look."""
        beside = message.beside if message else None
        found = beside.consumer if beside else self._stores.agents.find(self.owner, self.consumer_id)
        return found is not None and found.generation == self.generation

    def fetch(self, named: Named) -> list[Message]:
        """The message that a hint names, with what it takes to write it."""
        found = self._stores.executions.message(self.owner, self.consumer_id, named.key, named.execution_id)
        return [found] if found else []

    def seek_work(self) -> bool:
        """Have what waits for this agent given out; whether there may be more."""
        return self._assigner.offer(self.owner) >= MOST_AT_ONCE

    def is_once(self, message: Message) -> bool:
        """Whether the message must not be written twice: it starts a handler."""
        return isinstance(message.push, Push) and message.push.kind == ASSIGNED

    def frame_of(self, message: Message) -> bytes | None:
        """The frame of a message, if what it says is still true."""
        push = message.push
        if not isinstance(push, Push):
            return None
        if push.kind == ASSIGNED:
            return _assigned(self._stores.executions, push, message.beside)
        read = self._stores.executions.read(push.execution_id, step_id=push.ref if push.kind in _ABOUT_STEPS else "")
        if push.kind == CANCELLED:
            known = {"execution_id": push.execution_id, "session_id": push.session_id}
            return frame(push.kind, known | {"reason": push.data.get("reason", "")})
        return _BODIES[push.kind](self._stores.executions, push, read) if _is_current(push, read.execution) else None

    def is_settled(self, message: Message) -> bool:
        """Whether the agent has acted under an assignment, or it is not the current one."""
        push = message.push
        if not isinstance(push, Push):
            return True
        execution = self._stores.executions.read(push.execution_id).execution
        session = execution.session if execution and _is_current(push, execution) else None
        return session is None or session.has_shown_life

    def undo(self, message: Message) -> None:
        """An assignment that may never have reached its agent is given out again, if the agent has not used it."""
        push = message.push
        if isinstance(push, Push) and not self.is_settled(message):
            self._kernel.send_failed(push.execution_id, push.session_id)

    def drop(self, message: Message) -> None:
        """A message is out of date, and nothing depends on it."""


class RunnerFeed:
    """One connection of a runner."""

    kind: Final = "runner"

    def __init__(
        self, linked: RunnerConnection, stores: Stores, kernel: Kernel, dispatcher: Queues, expect: Expect
    ) -> None:
        self.lease, self._stores, self._kernel, self._dispatcher = linked, stores, kernel, dispatcher
        self._expect = expect
        self.owner, self.consumer_id = linked.connection.runner_id, linked.connection.consumer_id
        self.generation = linked.generation

    def end(self, grace_until_ms: int) -> bool:
        """The stream has ended; a successor has until then."""
        has_ended = self._stores.runners.end(self.lease, grace_until_ms)
        if has_ended:
            self._expect(self.owner, self.consumer_id, grace_until_ms)
        return has_ended

    def is_newest(self, _message: Message | None = None) -> bool:
        """Whether no newer connection has replaced this one."""
        found = self._stores.runners.find(self.lease.connection)
        return found is not None and found.generation == self.generation

    def seek_work(self) -> bool:
        """Take a job that waits, if the connection is idle; it has one hand."""
        self._dispatcher.pump(self.lease.connection)
        return False

    def is_once(self, message: Message) -> bool:
        """A job must not be written twice."""
        return True

    def frame_of(self, message: Message) -> bytes | None:
        """The job, if it is still its step's current one and in this connection's hand."""
        push = message.push
        if not isinstance(push, JobPush):
            return None
        read = self._stores.executions.read(push.execution_id, step_id=push.step_id)
        if read.step is None or held_step(read.execution, push.job_id, self.lease.connection) is None:
            return None
        if not self._holds(push):
            self.undo(message)
            return None
        return frame(JOB, job_body(push, read.step))

    def is_settled(self, message: Message) -> bool:
        """Whether the runner has begun a job, or it is not in its hand any more."""
        push = message.push
        if not isinstance(push, JobPush):
            return True
        step = held_step(self._stores.executions.read(push.execution_id).execution, push.job_id, push.to)
        return step is None or step.status is not StepStatus.DISPATCHED

    def undo(self, message: Message) -> None:
        """A job that may never have reached its runner goes back to the queue, unless it was begun."""
        push = message.push
        if isinstance(push, JobPush) and give_back(self._stores.executions, self._kernel, push.to, push):
            self._dispatcher.pump_tool(push.tool_id)

    def drop(self, message: Message) -> None:
        """A job that is out of date will not have a result that frees the connection."""
        push = message.push
        if isinstance(push, JobPush) and self._stores.runners.free(push.to, push.job_id):
            self._dispatcher.pump(push.to)

    def _holds(self, push: JobPush) -> bool:
        """Whether the connection is busy with this job; a runner that came back counts as idle, or has another one."""
        found = self._stores.runners.find(self.lease.connection)
        return found is not None and found.job_id == push.job_id


class HeldJob(Protocol):
    """A job in a connection's hand."""

    @property
    def execution_id(self) -> str: ...

    @property
    def job_id(self) -> str: ...


def give_back(executions: Executions, kernel: Kernel, connection: Connection, job: HeldJob) -> bool:
    """Put a job back into its queue if nobody has begun it; False when there is nothing to put back."""
    step = held_step(executions.read(job.execution_id).execution, job.job_id, connection)
    if step is None or step.status is not StepStatus.DISPATCHED:
        return False
    return kernel.requeue(job.execution_id, step.id, job.job_id)


def held_step(execution: Execution | None, job_id: str, connection: Connection) -> Step | None:
    """The active step whose current job is in that connection's hand."""
    if execution is None or execution.status.is_terminal:
        return None
    for step in execution.steps.values():
        if step.job is not None and step.job.id == job_id and step.job.held_by == connection:
            return step
    return None


def _is_current(push: Push, execution: Execution | None) -> bool:
    if execution is None or execution.status.is_terminal or execution.session is None:
        return False
    return execution.session.id == push.session_id


def _assigned(executions: Executions, push: Push, beside: Beside | None) -> bytes | None:
    view = beside.execution if beside else executions.view(push.execution_id)
    if view is None or not _is_current(push, view.execution):
        return None
    history = executions.history(push.execution_id, HISTORY_ENTRIES) if view.execution.step_count else []
    return frame(push.kind, assigned_body(view, push.session_id, history))


def _result(executions: Executions, push: Push, read: Read) -> bytes | None:
    if read.step is None or read.step.outcome is None:
        return None
    return frame(push.kind, result_body(push, read.step.outcome))


def _signal(executions: Executions, push: Push, read: Read) -> bytes | None:
    known = {"execution_id": push.execution_id, "session_id": push.session_id}
    return frame(push.kind, {**executions.signal(push.execution_id, int(push.ref)), **known})


def _resolved(executions: Executions, push: Push, read: Read) -> bytes | None:
    known = {"execution_id": push.execution_id, "session_id": push.session_id, "step_id": push.ref}
    return frame(push.kind, known | {"approved": push.data.get("approved", False)})


_ABOUT_STEPS: Final = frozenset({"tool.result"})
_BODIES: Final[dict[str, Callable[[Executions, Push, Read], bytes | None]]] = {
    "tool.result": _result,
    "signal.received": _signal,
    "approval.resolved": _resolved,
}
