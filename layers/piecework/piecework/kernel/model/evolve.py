"""How each event changes an execution (specification sections 1.1 to 1.5): the fold of a log is the execution's state.

Deciding a command goes through here too, so what GET shows and what the log says cannot drift apart. What no event
tells (who holds a job, when a session lapses) is put beside it by `change_builder.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

from piecework.kernel.clocks import millis
from piecework.kernel.model import payloads
from piecework.kernel.model.events import TERMINAL, Event
from piecework.kernel.model.kept_answers import Approvals
from piecework.kernel.model.state import Blocked, Execution, Job, Session, Status, Step, StepStatus, StoredSignal
from piecework.kernel.settings import MOST_NAMES
from piecework.values import replace

T = TypeVar("T")

DECISIONS: Final = ("step.approve", "step.deny")  # signal types by which a person answers about a step
ALIAS: Final = "approval"  # does so too while an approval is waited for
APPROVALS: Final = (*DECISIONS, ALIAS)
INTENDED: Final = frozenset({"intent.accepted", "intent.denied", "step.created"})  # one of them in each intent
REPORTED: Final = frozenset({"step.completed", "step.failed"})
STORABLE_BYTES: Final = 256  # no `wait` can name a longer signal type

MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELLED}),
    Status.RUNNING: frozenset({Status.BLOCKED, Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.PENDING}),
    Status.BLOCKED: frozenset({Status.RUNNING, Status.PENDING, Status.FAILED, Status.CANCELLED}),
}
STEP_MOVES: Final[Mapping[StepStatus, frozenset[StepStatus]]] = {
    StepStatus.PENDING: frozenset(StepStatus) - {StepStatus.PENDING},
    StepStatus.DISPATCHED: frozenset(StepStatus) - {StepStatus.PENDING},
    StepStatus.RUNNING: frozenset(StepStatus) - {StepStatus.PENDING, StepStatus.RUNNING},
    StepStatus.FAILED: frozenset({StepStatus.PENDING}),  # by a retry only
}


class LogBroken(Exception):
    """An event does not fit what came before it: the execution is tainted."""


def fold(log: Iterable[Event]) -> Execution:
    """The state that a log tells.

    Raises:
        LogBroken: the log is empty, has a gap, or an event that does not fit.
    """
    state: Execution | None = None
    for event in log:
        state = evolve(state, event)
    if state is None:
        raise LogBroken("the log is empty")
    return state


def evolve(state: Execution | None, event: Event) -> Execution:
    """The execution after one more event.

    Raises:
        LogBroken: the event does not fit.
    """
    if state is None:
        return _created(event)
    if event.sequence != state.sequence + 1 or state.status.is_terminal or event.type not in CHANGES:
        raise LogBroken(f"{event.type} at {event.sequence} does not follow {state.sequence}")
    changed = replace(CHANGES[event.type](state, event), sequence=event.sequence)
    is_new = event.by and event.by not in state.worked_by and len(state.worked_by) < MOST_NAMES
    if not is_new or not _is_agents(state, event):
        return changed
    return replace(changed, worked_by=(*state.worked_by, event.by))


def _is_agents(state: Execution, event: Event) -> bool:
    """Whether nobody but its agent causes this: it sends intents, and results of local steps, but denies no call."""
    if event.type not in REPORTED:
        return event.type in INTENDED
    step = state.steps.get(event.step_id)
    return step is not None and not step.remote and not state.waits_for("approval", step.id)


def is_approval(state: Execution, signal_type: str) -> bool:
    """Whether a signal of this type resolves what the execution waits for."""
    return state.blocked is not None and state.blocked.reason == "approval" and signal_type in APPROVALS


def _payload(_type: type[T], event: Event) -> T:
    """The payload of an event whose type holds that."""
    return cast("T", event.payload)


def _created(event: Event) -> Execution:
    if event.type != "execution.created" or event.sequence != 1:
        raise LogBroken("a log begins with execution.created")
    payload = _payload(payloads.ExecutionCreated, event)
    return Execution(
        id=event.execution_id,
        agent_id=payload["agent_id"],
        labels=payload["labels"],
        status=Status.PENDING,
        version=0,
        sequence=1,
        created_at_ms=event.at_ms,
        updated_at_ms=event.at_ms,
        clock_ms=event.at_ms,
    )


def _moved(state: Execution, status: Status, event: Event) -> Execution:
    if status not in MOVES[state.status]:
        raise LogBroken(f"{event.type} while {state.status}")
    return replace(state, status=status, updated_at_ms=event.at_ms)


def _started(state: Execution, event: Event) -> Execution:
    payload = _payload(payloads.ExecutionStarted, event)
    session = Session(payload["session_id"], payload["consumer_id"], event.at_ms, expires_at_ms=event.at_ms)
    approvals = state.approvals.new_run()
    return replace(_moved(state, Status.RUNNING, event), session=session, unattended_at_ms=None, approvals=approvals)


def _blocked(state: Execution, event: Event) -> Execution:
    payload = _payload(payloads.ExecutionBlocked, event)
    blocked = Blocked(payload["reason"], payload["ref"], notify=payload.get("notify", ""))
    if "expires_at" in payload:
        until, end = millis(payload["expires_at"]), payload.get("on_timeout", "")
        blocked = replace(blocked, until_ms=until, on_timeout=end, as_of_ms=event.at_ms)
    return replace(_moved(state, Status.BLOCKED, event), blocked=blocked, resumed_by=None)


def _resumed(state: Execution, event: Event) -> Execution:
    """A resume uses a stored signal up; without a session nobody got it, and it stays for the run that follows.

    With one, its agent may be gone unnoticed: until the next intent a reset puts the signal back.
    """
    resumed = state if state.status is Status.RUNNING else _moved(_awake(state, event), Status.RUNNING, event)
    signal_type = payloads.resuming_signal(_payload(payloads.ExecutionResumed, event))
    resumed = replace(resumed, blocked=None, has_answered=state.has_answered or signal_type is None)
    if signal_type is None or state.session is None:
        return resumed
    used = oldest_signal(state, signal_type)
    if used is None:
        raise LogBroken("resumed by a signal that never came")
    return replace(resumed, signals=tuple(stored for stored in state.signals if stored != used), resumed_by=used)


def _awake(state: Execution, event: Event) -> Execution:
    """The end of a wait with a time of its own: the execution's clock has stood still, and so have its steps'."""
    if state.blocked is None or state.blocked.until_ms is None:
        return state
    return replace(_slept(state, event), paused_ms=state.paused_ms + event.at_ms - state.updated_at_ms)


def _slept(state: Execution, event: Event) -> Execution:
    """In such a wait deadlines are put off by the time that it lasts."""
    blocked = state.blocked
    if blocked is None or blocked.until_ms is None:
        return state
    gone_ms = event.at_ms - blocked.as_of_ms
    steps = {
        step.id: step if step.deadline_ms is None else replace(step, deadline_ms=step.deadline_ms + gone_ms)
        for step in state.steps.values()
    }
    return replace(state, steps=steps, blocked=replace(blocked, as_of_ms=event.at_ms))


def oldest_signal(state: Execution, signal_type: str) -> StoredSignal | None:
    """The first stored signal of a type."""
    return next((stored for stored in state.signals if stored.type == signal_type), None)


def _ended(status: Status) -> Callable[[Execution, Event], Execution]:
    def ended(state: Execution, event: Event) -> Execution:
        if any(not step.status.is_terminal for step in state.steps.values()):
            raise LogBroken(f"{event.type} with an active step")
        return replace(
            _moved(state, status, event),
            blocked=None,
            signals=(),
            resumed_by=None,
            unattended_at_ms=None,
            ended_at_ms=event.at_ms,
            approvals=Approvals(),
        )

    return ended


def _reset(state: Execution, event: Event) -> Execution:
    if state.steps:
        raise LogBroken("reset with an active step")
    back = (state.resumed_by,) if state.resumed_by else ()
    signals = tuple(sorted((*back, *state.signals), key=lambda stored: stored.sequence))
    reset = _moved(_awake(state, event), Status.PENDING, event)
    return replace(reset, session=None, blocked=None, unattended_at_ms=None, signals=signals, resumed_by=None)


def _agent_gone(state: Execution, event: Event) -> Execution:
    since = event.at_ms if state.unattended_at_ms is None else state.unattended_at_ms
    return replace(state, session=None, unattended_at_ms=since)


def _signalled(state: Execution, event: Event) -> Execution:
    signal_type = _payload(payloads.SignalReceived, event)["signal_type"]
    if is_approval(state, signal_type) or len(signal_type.encode()) > STORABLE_BYTES:
        return state
    return replace(state, signals=(*state.signals, StoredSignal(event.sequence, signal_type)))


def _intended(state: Execution, _: Event) -> Execution:
    return replace(state, resumed_by=None) if state.resumed_by else state


def _told(state: Execution, _: Event) -> Execution:
    """What a run reports changes nothing."""
    return state


def _step_created(state: Execution, event: Event) -> Execution:
    payload = _payload(payloads.StepCreated, event)
    if event.step_id in state.steps:
        raise LogBroken("a step is created twice")
    step = Step(
        id=event.step_id,
        tool_id=payload["tool_id"],
        remote=payloads.is_remote(payload),
        status=StepStatus.PENDING,
        attempt=payload["attempt"],
        max_attempts=payload["max_attempts"],
        created_at_ms=event.at_ms,
        deadline_ms=millis(payload["deadline"]),
    )
    return replace(state, steps={**state.steps, step.id: step}, step_count=state.step_count + 1)


def _step(state: Execution, event: Event) -> Step:
    step = state.steps.get(event.step_id)
    if step is None:
        raise LogBroken(f"{event.type} of a step that is not active")
    return step


def _with(state: Execution, step: Step) -> Execution:
    return replace(state, steps={**state.steps, step.id: step})


def _step_moved(step: Step, status: StepStatus, event: Event) -> Step:
    if status not in STEP_MOVES[step.status]:
        raise LogBroken(f"{event.type} of a step that is {step.status}")
    return replace(step, status=status)


def _approval_required(state: Execution, event: Event) -> Execution:
    asked = _payload(payloads.StepApprovalRequired, event)
    return _with(state, replace(_step(state, event), remote=asked["remote"]))


def _dispatched(state: Execution, event: Event) -> Execution:
    state = _slept(state, event)
    step = _step_moved(_step(state, event), StepStatus.DISPATCHED, event)
    payload = _payload(payloads.StepDispatched, event)
    job_id = payload["job_id"]
    job = Job(job_id, step.job.not_before_ms if step.job else event.at_ms) if job_id else None
    return _with(state, replace(step, deadline_ms=millis(payload["deadline"]), job=job))


def _step_started(state: Execution, event: Event) -> Execution:
    return _with(state, _step_moved(_step(state, event), StepStatus.RUNNING, event))


def _step_failed(state: Execution, event: Event) -> Execution:
    failed = _step_moved(_step(state, event), StepStatus.FAILED, event)
    return _with(state, failed) if _payload(payloads.StepFailed, event)["retryable"] else _without(state, event.step_id)


def _retried(state: Execution, event: Event) -> Execution:
    step = _step_moved(_step(state, event), StepStatus.PENDING, event)
    attempt = _payload(payloads.StepRetried, event)["next_attempt"]
    return _with(state, replace(step, attempt=attempt, deadline_ms=None, job=None))


def _step_ended(state: Execution, event: Event) -> Execution:
    _step_moved(_step(state, event), ENDS[event.type], event)
    return _without(state, event.step_id)


def _without(state: Execution, step_id: str) -> Execution:
    steps = {found: step for found, step in state.steps.items() if found != step_id}
    return replace(state, steps=steps, approvals=state.approvals.worked_on(step_id))


ENDS: Final[Mapping[str, StepStatus]] = {
    "step.completed": StepStatus.SUCCEEDED,
    "step.timed_out": StepStatus.TIMED_OUT,
    "step.cancelled": StepStatus.CANCELLED,
}
ENDED: Final[Mapping[str, Status]] = {
    "execution.completed": Status.COMPLETED,
    "execution.failed": Status.FAILED,
    "execution.cancelled": Status.CANCELLED,
}
CHANGES: Final[Mapping[str, Callable[[Execution, Event], Execution]]] = {
    "execution.started": _started,
    "execution.blocked": _blocked,
    "execution.resumed": _resumed,
    "execution.reset": _reset,
    "intent.accepted": _intended,
    "intent.denied": _intended,
    "step.created": _step_created,
    "step.dispatched": _dispatched,
    "step.started": _step_started,
    "step.completed": _step_ended,
    "step.failed": _step_failed,
    "step.timed_out": _step_ended,
    "step.retried": _retried,
    "step.cancelled": _step_ended,
    "step.approval_required": _approval_required,
    "signal.received": _signalled,
    "agent.timeout": _agent_gone,
    "run.step": _told,
    "run.progress": _told,
    "run.tokens": _told,
} | {name: _ended(ENDED[name]) for name in TERMINAL}
