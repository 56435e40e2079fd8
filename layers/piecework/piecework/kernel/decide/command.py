"""Deciding commands: pure code from what was read, a command and the time to the one change that is stored."""

from piecework.kernel.decide import executions as decide_executions
from piecework.kernel.decide import intents as decide_intents
from piecework.kernel.decide import signals as decide_signals
from piecework.kernel.decide import steps as decide_steps
from piecework.kernel.model.commands import (
    Act,
    AgentLost,
    Assign,
    Cancel,
    Command,
    Create,
    Expire,
    HandOut,
    JobResult,
    Look,
    Recover,
    Requeue,
    SendFailed,
    Signal,
    Started,
    StepResult,
)
from piecework.kernel.model.drafts import Decision, Draft, NewId
from piecework.kernel.model.ports import Read
from piecework.kernel.rules import Rules


def decide_new(command: Create, now_ms: int, rules: Rules, new_id: NewId) -> Decision:
    """The first change of an execution."""
    return decide_executions.create(Draft(command.execution_id, None, now_ms, rules, new_id), command)


def decide(read: Read, command: Command, now_ms: int, rules: Rules, new_id: NewId) -> Decision:  # noqa: PLR0911
    """What a command comes to for an execution that exists.

    Raises:
        KernelError: the command is refused.
    """
    execution = read.execution
    if execution is None:
        raise RuntimeError("the caller answers for executions that do not exist")
    draft = Draft(execution.id, execution, max(now_ms, execution.clock_ms), rules, new_id)
    match command:
        case Act():
            return decide_intents.act(draft, read, command)
        case StepResult():
            return decide_steps.step_result(draft, read, command)
        case JobResult():
            return decide_steps.job_result(draft, read, command)
        case Started():
            return decide_steps.started(draft, read, command)
        case Signal():
            return decide_signals.signal(draft, read, command)
        case HandOut():
            return decide_steps.hand_out(draft, command)
        case Requeue():
            return decide_steps.requeue(draft, command)
        case Assign() | Cancel() | AgentLost() | SendFailed() | Recover() | Expire() | Look():
            return _lifecycle(draft, command)


def _lifecycle(draft: Draft, command: Assign | Cancel | AgentLost | SendFailed | Recover | Expire | Look) -> Decision:  # noqa: PLR0911
    match command:
        case Assign():
            return decide_executions.assign(draft, command)
        case Cancel():
            return decide_executions.cancel(draft)
        case AgentLost():
            return decide_executions.agent_lost(draft, command)
        case SendFailed():
            return decide_executions.send_failed(draft, command)
        case Recover():
            return decide_executions.recover(draft)
        case Expire():
            return decide_executions.expire(draft)
        case Look():
            return decide_executions.look(draft)
