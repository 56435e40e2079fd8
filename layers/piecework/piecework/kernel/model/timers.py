"""When an execution must be looked at again; everything is derived from its checkpoint (specification 1.7, 10.3)."""

from piecework.kernel.model import hosted
from piecework.kernel.model.state import Execution, Job, Status, Step
from piecework.kernel.settings import KernelSettings


def due_at(execution: Execution, settings: KernelSettings) -> int:
    """The next time something may have to happen to an execution by itself."""
    if execution.status.is_terminal:
        return (execution.ended_at_ms or execution.updated_at_ms) + settings.retention_ms
    times = [execution.created_at_ms + settings.execution_timeout_ms]
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


def is_out_of_time(execution: Execution, now_ms: int, settings: KernelSettings) -> bool:
    """Whether the execution's own time is up."""
    return not execution.status.is_terminal and now_ms >= execution.created_at_ms + settings.execution_timeout_ms


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
    return is_out_of_time(execution, now_ms, settings) or overdue_step(execution, now_ms) is not None
