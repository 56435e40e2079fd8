"""Deciding commands: pure code from what was read, a command and the time to the one change that is stored."""

from piecework.kernel.decide import executions as decide_executions
from piecework.kernel.decide import intents as decide_intents
from piecework.kernel.decide import signals as decide_signals
from piecework.kernel.decide import steps as decide_steps
from piecework.kernel.model.change_builder import ChangeBuilder, Decision, NewId
from piecework.kernel.model.commands import (
    AgentLost,
    Assign,
    Cancel,
    Command,
    Create,
    Dispatch,
    Expire,
    JobResult,
    MoveClock,
    Recover,
    Requeue,
    SendFailed,
    Signal,
    Started,
    StepResult,
    TakeIntent,
)
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.settings import KernelSettings


def decide_new(command: Create, now_ms: int, settings: KernelSettings, new_id: NewId, by: str = "") -> Decision:
    """The first change of an execution, by the token of that name."""
    return decide_executions.create(ChangeBuilder(command.execution_id, None, now_ms, settings, new_id, by), command)


def decide(  # noqa: PLR0911
    read: Read, command: Command, now_ms: int, settings: KernelSettings, new_id: NewId, by: str = ""
) -> Decision:
    """What a command comes to for an execution that exists; by the token of that name, or by the kernel itself.

    Raises:
        KernelError: the command is refused.
    """
    execution = read.execution
    if execution is None:
        raise RuntimeError("the caller answers for executions that do not exist")
    builder = ChangeBuilder(execution.id, execution, max(now_ms, execution.clock_ms), settings, new_id, by)
    match command:
        case TakeIntent():
            return decide_intents.act(builder, read, command)
        case StepResult():
            return decide_steps.step_result(builder, read, command)
        case JobResult():
            return decide_steps.job_result(builder, read, command)
        case Started():
            return decide_steps.started(builder, read, command)
        case Signal():
            return decide_signals.signal(builder, read, command)
        case Dispatch():
            return decide_steps.dispatch(builder, command)
        case Requeue():
            return decide_steps.requeue(builder, command)
        case Assign() | Cancel() | AgentLost() | SendFailed() | Recover() | Expire() | MoveClock():
            return _lifecycle(builder, command)


def _lifecycle(  # noqa: PLR0911
    builder: ChangeBuilder, command: Assign | Cancel | AgentLost | SendFailed | Recover | Expire | MoveClock
) -> Decision:
    match command:
        case Assign():
            return decide_executions.assign(builder, command)
        case Cancel():
            return decide_executions.cancel(builder)
        case AgentLost():
            return decide_executions.agent_lost(builder, command)
        case SendFailed():
            return decide_executions.send_failed(builder, command)
        case Recover():
            return decide_executions.recover(builder)
        case Expire():
            return decide_executions.expire(builder)
        case MoveClock():
            return decide_executions.move_clock(builder)
