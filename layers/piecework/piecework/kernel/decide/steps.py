"""Results of steps and jobs, and the way of jobs to runners (specification sections 1.2, 1.6, 2.10 to 2.12)."""

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import checks
from piecework.kernel.errors import Conflict, StepResolved
from piecework.kernel.model import timers
from piecework.kernel.model.change_builder import ChangeBuilder, Decision, queued
from piecework.kernel.model.changes import Outcome, QueuedJob
from piecework.kernel.model.commands import Dispatch, JobResult, Requeue, Started, StepResult
from piecework.kernel.model.payloads import StepCompleted, StepDispatched, StepFailed, StepRetried, StepStarted
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.state import Job, Step, StepStatus
from piecework.values import replace

NOTHING = Decision(None, answer=False)


def step_result(builder: ChangeBuilder, read: Read, command: StepResult) -> Decision:
    """An agent's report ends its local step, whatever the execution waits for."""
    checks.sound(builder.state)
    step = checks.open_step(read, command.step_id)
    if step.remote:
        raise Conflict("the step is remote: only the runner that has its job reports it")
    builder.keep_session()
    _end(builder, step, success=command.success, data=command.data, error=command.error)
    return Decision(builder.change())


def job_result(builder: ChangeBuilder, read: Read, command: JobResult) -> Decision:
    """A runner's report on the step's current job ends the step, or has it tried again."""
    checks.sound(builder.state)
    step = checks.open_step(read, command.step_id)
    if not step.remote or step.job is None or step.job.id != command.job_id:
        raise StepResolved("this is not the step's current job")
    builder.drop_job(step, frees=True)
    if command.retryable and not command.success and step.attempt < step.max_attempts:
        _retry(builder, step, command.error)
    else:
        _end(builder, step, success=command.success, data=command.data, error=command.error)
    return Decision(builder.change())


def started(builder: ChangeBuilder, read: Read, command: Started) -> Decision:
    """Only the first report of a step that has not ended is news."""
    step = builder.state.steps.get(command.step_id)
    if step is None and read.step is None:
        checks.open_step(read, command.step_id)
    if step is None or step.status is StepStatus.RUNNING or checks.awaits_approval(builder.state, step.id):
        return NOTHING
    builder.append("step.started", StepStarted(runner_id=command.runner_id), step.id)
    return Decision(builder.change(), answer=True)


def dispatch(builder: ChangeBuilder, command: Dispatch) -> Decision:
    """A queued job goes to a connection; one that is not current any more only leaves the queue."""
    row = QueuedJob(command.tool_id, command.queued_at_ms, command.job_id, builder.state.id, command.step_id)
    builder.unqueue.append(row)
    step = builder.state.steps.get(command.step_id)
    if step is None or step.job is None or step.job.id != command.job_id or step.job.held_by is not None:
        return Decision(builder.change(), answer=False)
    if step.job.not_before_ms > builder.now_ms:
        return NOTHING
    until = timers.deadline_at(builder.state, step, builder.now_ms) or builder.now_ms + builder.settings.step_timeout_ms
    runner_id = command.linked.connection.runner_id
    payload = StepDispatched(runner_id=runner_id, job_id=step.job.id, deadline=rfc3339(until))
    builder.append("step.dispatched", payload, step.id)
    builder.dispatch(step.id, command.linked)
    return Decision(builder.change(), answer=True)


def requeue(builder: ChangeBuilder, command: Requeue) -> Decision:
    """A job that nobody began goes back to its place in the queue, under a new id: the old one is nobody's now."""
    step = builder.state.steps.get(command.step_id)
    job = step.job if step else None
    if step is None or job is None or job.id != command.job_id or job.held_by is None:
        return NOTHING
    if step.status is StepStatus.RUNNING:
        return NOTHING
    builder.free.append((job.held_by, job.id))
    _queue(builder, step, Job(builder.fresh(), job.not_before_ms))
    return Decision(builder.change(), answer=True)


def _end(builder: ChangeBuilder, step: Step, *, success: bool, data: Json, error: str) -> None:
    if success:
        builder.append("step.completed", StepCompleted(result=data), step.id, chain=builder.fresh())
        builder.outcomes[step.id] = Outcome(StepStatus.SUCCEEDED, result=data)
        builder.note(step, StepStatus.SUCCEEDED)
        builder.durations.append((step.tool_id, (builder.now_ms - step.created_at_ms) / 1000))
    else:
        builder.append("step.failed", StepFailed(error=error, retryable=False), step.id, chain=builder.fresh())
        builder.outcomes[step.id] = Outcome(StepStatus.FAILED, result=data, error=error)
        builder.note(step, StepStatus.FAILED, error)
    builder.push("tool.result", step.id)


def _retry(builder: ChangeBuilder, step: Step, error: str) -> None:
    attempt = step.attempt + 1
    builder.note(step, StepStatus.FAILED, error)
    builder.batch(
        [
            ("step.failed", StepFailed(error=error, retryable=True), step.id),
            ("step.retried", StepRetried(next_attempt=attempt), step.id),
        ]
    )
    job = Job(builder.fresh(), builder.now_ms + builder.settings.retry_delay_ms(attempt))
    _queue(builder, builder.state.steps[step.id], job)


def _queue(builder: ChangeBuilder, step: Step, job: Job) -> None:
    builder.set_step(replace(step, job=job))
    builder.queue.append(queued(builder.state, step, job))
