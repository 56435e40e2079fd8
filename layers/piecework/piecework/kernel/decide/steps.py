"""Results of steps and jobs, and the way of jobs to runners (specification sections 1.2, 1.6, 2.10 to 2.12)."""

from dataclasses import replace

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import checks
from piecework.kernel.errors import ConflictError, StepResolved
from piecework.kernel.model.changes import Outcome, QueuedJob
from piecework.kernel.model.commands import HandOut, JobResult, Requeue, Started, StepResult
from piecework.kernel.model.drafts import Decision, Draft, queued
from piecework.kernel.model.payloads import StepCompleted, StepDispatched, StepFailed, StepRetried, StepStarted
from piecework.kernel.model.ports import Read
from piecework.kernel.model.state import Job, Step, StepStatus

NOTHING = Decision(None, answer=False)


def step_result(draft: Draft, read: Read, command: StepResult) -> Decision:
    """An agent's report ends its local step, whatever the execution waits for."""
    checks.sound(draft.state)
    step = checks.open_step(read, command.step_id)
    if step.remote:
        raise ConflictError("the step is remote: only the runner that has its job reports it")
    draft.keep_session()
    _end(draft, step, success=command.success, data=command.data, error=command.error)
    return Decision(draft.change())


def job_result(draft: Draft, read: Read, command: JobResult) -> Decision:
    """A runner's report on the step's current job ends the step, or has it tried again."""
    checks.sound(draft.state)
    step = checks.open_step(read, command.step_id)
    if not step.remote or step.job is None or step.job.id != command.job_id:
        raise StepResolved("this is not the step's current job")
    draft.drop_job(step, frees=True)
    if command.retryable and not command.success and step.attempt < step.max_attempts:
        _retry(draft, step, command.error)
    else:
        _end(draft, step, success=command.success, data=command.data, error=command.error)
    return Decision(draft.change())


def started(draft: Draft, read: Read, command: Started) -> Decision:
    """Only the first report of a step that has not ended is news."""
    step = draft.state.steps.get(command.step_id)
    if step is None and read.step is None:
        checks.open_step(read, command.step_id)
    if step is None or step.status is StepStatus.RUNNING or checks.awaits_approval(draft.state, step.id):
        return NOTHING
    draft.append("step.started", StepStarted(runner_id=command.runner_id), step.id)
    return Decision(draft.change(), answer=True)


def hand_out(draft: Draft, command: HandOut) -> Decision:
    """A queued job goes to a connection; one that is not current any more only leaves the queue."""
    row = QueuedJob(command.tool_id, command.queued_at_ms, command.job_id, draft.state.id, command.step_id)
    draft.unqueue.append(row)
    step = draft.state.steps.get(command.step_id)
    if step is None or step.job is None or step.job.id != command.job_id or step.job.held_by is not None:
        return Decision(draft.change(), answer=False)
    if step.job.not_before_ms > draft.now_ms:
        return NOTHING
    until = step.deadline_ms or draft.now_ms + draft.rules.step_timeout_ms
    runner_id = command.linked.connection.runner_id
    payload = StepDispatched(runner_id=runner_id, job_id=step.job.id, deadline=rfc3339(until))
    draft.append("step.dispatched", payload, step.id)
    draft.dispatch(step.id, command.linked)
    return Decision(draft.change(), answer=True)


def requeue(draft: Draft, command: Requeue) -> Decision:
    """A job that nobody began goes back to its place in the queue, under a new id: the old one is nobody's now."""
    step = draft.state.steps.get(command.step_id)
    job = step.job if step else None
    if step is None or job is None or job.id != command.job_id or job.held_by is None:
        return NOTHING
    if step.status is StepStatus.RUNNING:
        return NOTHING
    draft.free.append((job.held_by, job.id))
    _queue(draft, step, Job(draft.fresh(), job.not_before_ms))
    return Decision(draft.change(), answer=True)


def _end(draft: Draft, step: Step, *, success: bool, data: Json, error: str) -> None:
    if success:
        draft.append("step.completed", StepCompleted(result=data), step.id, chain=draft.fresh())
        draft.outcomes[step.id] = Outcome(StepStatus.SUCCEEDED, result=data)
        draft.note(step, StepStatus.SUCCEEDED)
        draft.durations.append((step.tool_id, (draft.now_ms - step.created_at_ms) / 1000))
    else:
        draft.append("step.failed", StepFailed(error=error, retryable=False), step.id, chain=draft.fresh())
        draft.outcomes[step.id] = Outcome(StepStatus.FAILED, result=data, error=error)
        draft.note(step, StepStatus.FAILED, error)
    draft.push("tool.result", step.id)


def _retry(draft: Draft, step: Step, error: str) -> None:
    attempt = step.attempt + 1
    draft.note(step, StepStatus.FAILED, error)
    draft.batch(
        [
            ("step.failed", StepFailed(error=error, retryable=True), step.id),
            ("step.retried", StepRetried(next_attempt=attempt), step.id),
        ]
    )
    job = Job(draft.fresh(), draft.now_ms + draft.rules.retry_delay_ms(attempt))
    _queue(draft, draft.state.steps[step.id], job)


def _queue(draft: Draft, step: Step, job: Job) -> None:
    draft.set_step(replace(step, job=job))
    draft.queue.append(queued(draft.state, step, job))
