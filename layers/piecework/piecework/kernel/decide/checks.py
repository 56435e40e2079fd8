"""What is checked before a command is decided, in the specification's order (sections 1.3, 1.6)."""

from piecework.kernel.errors import (
    Conflict,
    ExecutionBlocked,
    ExecutionTainted,
    ExecutionTerminal,
    Invalid,
    NotFound,
    StepResolved,
)
from piecework.kernel.model.commands import COMPLETE, FAIL, INVOKE_TOOL, WAIT, Intent
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.state import Execution, Status, Step
from piecework.kernel.settings import MAX_ACTIVE_STEPS

ID_BYTES = 256
ERROR_BYTES = 4096


def lengths(intent: Intent) -> None:
    """Raises Invalid when a text of an intent is too long."""
    for name, text, limit in (
        ("tool_id", intent.tool_id, ID_BYTES),
        ("signal_type", intent.signal_type, ID_BYTES),
        ("error", intent.error, ERROR_BYTES),
    ):
        if len(text.encode("utf-8", "surrogatepass")) > limit:
            raise Invalid(f"intent.{name} is longer than {limit} bytes")


def fields(intent: Intent) -> None:
    """Raises Invalid when an intent lacks what its type needs."""
    if intent.type not in (INVOKE_TOOL, WAIT, COMPLETE, FAIL):
        raise Invalid("intent.type must be invoke_tool, wait, complete or fail")
    for kind, name, text in (
        (INVOKE_TOOL, "tool_id", intent.tool_id),
        (WAIT, "signal_type", intent.signal_type),
        (FAIL, "error", intent.error),
    ):
        if intent.type == kind and not text:
            raise Invalid(f"{kind} needs intent.{name}")


def is_connected(consumer: Consumer | None, now_ms: int) -> bool:
    """Whether a consumer keeps its sessions: its stream is in its grace, or open and not found to be lost.

    Who finds an open stream lost ends its sessions (liveness.py). A lease alone is not proof: its process may be busy.
    """
    return consumer is not None and (consumer.is_open or consumer.lease_until_ms > now_ms)


def sound(execution: Execution) -> None:
    """Raises ExecutionTainted when the log contradicts itself."""
    if execution.is_tainted:
        raise ExecutionTainted


def not_ended(execution: Execution) -> None:
    """Raises ExecutionTerminal when it has ended."""
    if execution.status.is_terminal:
        raise ExecutionTerminal(f"{execution.status}")


def takes_intents(execution: Execution) -> None:
    """Raises Conflict unless intents are accepted now: tainted, terminal, blocked."""
    sound(execution)
    not_ended(execution)
    if execution.status is Status.BLOCKED:
        raise ExecutionBlocked("waiting for a signal or an approval")


def takes_another_step(execution: Execution) -> None:
    """Raises Conflict when an execution has as many active steps as its checkpoint can hold."""
    if len(execution.steps) >= MAX_ACTIVE_STEPS:
        raise Conflict(f"an execution has at most {MAX_ACTIVE_STEPS} active steps")


def known(read: Read) -> Execution:
    """The execution that was read. Raises NotFound when it does not exist."""
    if read.execution is None:
        raise NotFound("no such execution")
    return read.execution


def awaits_approval(execution: Execution, step_id: str) -> bool:
    """Whether this step is what the execution is blocked for."""
    return execution.waits_for("approval", step_id)


def open_step(read: Read, step_id: str) -> Step:
    """The active step that a result is about.

    Raises:
        NotFound: no such step.
        StepResolved: it has ended.
        Conflict: it still waits for an approval.
    """
    execution = known(read)
    step = execution.steps.get(step_id)
    if step is None:
        if read.step is None:
            raise NotFound("no such step")
        raise StepResolved
    if awaits_approval(execution, step_id):
        raise Conflict("the step waits for an approval")
    return step
