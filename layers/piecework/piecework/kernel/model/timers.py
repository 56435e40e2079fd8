"""When an execution must be looked at again; everything is derived from its checkpoint (specification 1.7, 10.3)."""

from piecework.kernel.model import hosted
from piecework.kernel.model.state import Execution, Job, Status, Step
from piecework.kernel.settings import KernelSettings


def due_at(execution: Execution, settings: KernelSettings) -> int:
    """The next time something may have to happen to an execution by itself."""
    if execution.status.is_terminal:
        return (execution.ended_at_ms or execution.updated_at_ms) + settings.retention_ms
    until = waits_until(execution)
    times = [ends_at(execution, settings) if until is None else until]
    if execution.status is not Status.BLOCKED:
        times += [step.deadline_ms for step in execution.steps.values() if step.deadline_ms is not None]
    times += [job.not_before_ms for job in queued_jobs(execution) if job.not_before_ms > execution.clock_ms]
    if execution.unattended_at_ms is not None:
        times.append(execution.unattended_at_ms + settings.agent_timeout_ms)
    if hosted.is_idle(execution):
        times.append(execution.clock_ms + settings.agent_timeout_ms)
    return min(times)


def queued_jobs(execution: Execution) -> list[Job]:
    """The jobs of an execution that wait for a connection."""
    return [step.job for step in execution.steps.values() if step.job is not None and step.job.held_by is None]


def ends_at(execution: Execution, settings: KernelSettings) -> int:
    """When the execution's own time is up, unless it waits again for a person whose wait has its own end."""
    return execution.created_at_ms + execution.paused_ms + settings.execution_timeout_ms


def waits_until(execution: Execution) -> int | None:
    """Until when a person is waited for; None when nobody is, or for as long as the execution lives."""
    return execution.blocked.until_ms if execution.blocked else None


def deadline_at(execution: Execution, step: Step, now_ms: int) -> int | None:
    """A step's deadline if everything it waits for came now: while its execution's clock stands still, it moves on."""
    blocked = execution.blocked
    if step.deadline_ms is None or blocked is None or blocked.until_ms is None:
        return step.deadline_ms
    return step.deadline_ms + now_ms - blocked.as_of_ms


def is_out_of_time(execution: Execution, now_ms: int, settings: KernelSettings) -> bool:
    """Whether the execution's own time is up."""
    if execution.status.is_terminal or waits_until(execution) is not None:
        return False
    return now_ms >= ends_at(execution, settings)


def is_unanswered(execution: Execution, now_ms: int) -> bool:
    """Whether the time for a person's answer is up."""
    until = waits_until(execution)
    return until is not None and now_ms >= until


def overdue_step(execution: Execution, now_ms: int) -> Step | None:
    """The step that passed its deadline first; deadlines sleep while the execution is blocked."""
    if execution.status is not Status.RUNNING:
        return None
    late = [
        (step.deadline_ms, step.id) for step in execution.steps.values() if (step.deadline_ms or now_ms + 1) <= now_ms
    ]
    return execution.steps[min(late)[1]] if late else None


def must_expire(execution: Execution, now_ms: int, settings: KernelSettings) -> bool:
    """Whether a timer of section 1.7 ends the execution now."""
    return (
        is_out_of_time(execution, now_ms, settings)
        or is_unanswered(execution, now_ms)
        or overdue_step(execution, now_ms) is not None
    )
