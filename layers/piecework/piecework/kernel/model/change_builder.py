"""A change in the making: appends events, keeps the state that follows from them, and collects what goes with them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from piecework.jsons import Json
from piecework.kernel.model.changes import (
    Change,
    Decided,
    HistoryEntry,
    HostedPush,
    IdempotencyRecord,
    JobPush,
    LostConsumer,
    Outcome,
    Push,
    QueuedJob,
    StepRecord,
)
from piecework.kernel.model.events import Event
from piecework.kernel.model.evolve import evolve
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.kept_answers import Approvals
from piecework.kernel.model.notices import Notice, What
from piecework.kernel.model.payloads import StepCancelled
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Blocked, Connection, Execution, Job, Step, StepStatus
from piecework.kernel.settings import ENDED_AT_ONCE, SESSION_AFTER_END_MS, KernelSettings
from piecework.values import dataclass, field, replace

HISTORY_ERROR: Final = 4_096  # characters of an error that `history` keeps; the event has all of it

NewId = Callable[[int], str]  # of the present time
Entry = tuple[str, Mapping[str, Json], str]  # type, payload, step id


@dataclass
class ChangeBuilder:
    """One command's change to an execution; `state` is always what the events so far lead to."""

    execution_id: str
    before: Execution | None
    now_ms: int
    settings: KernelSettings
    new_id: NewId
    by: str = ""  # who causes it, by the name of the token
    events: list[Event] = field(default_factory=list)
    input: Json = None
    again_of: str = ""
    output: Json = None
    new_steps: list[StepRecord] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    decisions: dict[str, Decided] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    signals: dict[int, Json] = field(default_factory=dict)
    answered: IdempotencyRecord | None = None
    freed_key: str = ""
    pushes: list[Push] = field(default_factory=list)
    hosted_pushes: list[HostedPush] = field(default_factory=list)
    job_push: JobPush | None = None
    queue: list[QueuedJob] = field(default_factory=list)
    unqueue: list[QueuedJob] = field(default_factory=list)
    free: list[tuple[Connection, str]] = field(default_factory=list)
    lost: LostConsumer | None = None
    notices: list[Notice] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    durations: list[tuple[str, float]] = field(default_factory=list)
    _state: Execution | None = None

    @property
    def state(self) -> Execution:
        """The execution as it will be."""
        found = self._state or self.before
        if found is None:
            raise RuntimeError("a new execution begins with its first event")
        return found

    @state.setter
    def state(self, state: Execution) -> None:
        self._state = state

    @property
    def approvals(self) -> Approvals:
        """What the execution will remember of calls that needed a person."""
        return self.state.approvals

    @approvals.setter
    def approvals(self, approvals: Approvals) -> None:
        if approvals is not self.state.approvals:
            self.state = replace(self.state, approvals=approvals)

    def fresh(self) -> str:
        """A new id."""
        return self.new_id(self.now_ms)

    def append(
        self, kind: str, payload: Mapping[str, Json], step_id: str = "", *, cause: str = "", chain: str = ""
    ) -> Event:
        """Add an event; without a cause it names itself, without a chain it begins one (section 4.1)."""
        event_id = self.fresh()
        before = self._state or self.before
        event = Event(
            id=event_id,
            execution_id=self.execution_id,
            sequence=before.sequence + 1 if before else 1,
            type=kind,
            at_ms=self.now_ms,
            payload=payload,
            causation_id=cause or event_id,
            correlation_id=chain or event_id,
            step_id=step_id,
            by=self.by,
        )
        self._state = evolve(before, event)
        self.events.append(event)
        return event

    def batch(self, entries: Iterable[Entry], *, cause: str = "", chain: str = "") -> list[Event]:
        """Add events that name one another in turn and share a chain, a new one unless it is given."""
        chain = chain or self.fresh()
        added: list[Event] = []
        for kind, payload, step_id in entries:
            event = self.append(kind, payload, step_id, cause=cause, chain=chain)
            cause = event.id
            added.append(event)
        return added

    def push(self, kind: str, ref: str = "", **data: Json) -> None:
        """A message to whom the session belongs, if there is one: a consumer, or a hosted agent."""
        session = self.state.session
        if session and session.consumer_id == HOSTED:
            self.hosted_pushes.append(HostedPush(kind, data))
        elif session:
            to = (self.state.agent_id, session.consumer_id, self.state.id, session.id)
            self.pushes.append(Push(kind, *to, ref, data))

    def keep_session(self, *, shows_life: bool = True) -> None:
        """Give the agent its full time again; after its intents and results it has also shown life."""
        self._extend_session(self.settings.agent_timeout_ms, shows_life=shows_life)

    def keep_session_after_end(self) -> None:
        """Keep the session for a while, so that an intent after the end is answered 409."""
        self._extend_session(SESSION_AFTER_END_MS, shows_life=False)

    def _extend_session(self, by_ms: int, *, shows_life: bool) -> None:
        session = self.state.session
        if session:
            until = max(session.expires_at_ms, self.now_ms + by_ms)
            has_shown = session.has_shown_life or shows_life
            session = replace(session, expires_at_ms=until, has_shown_life=has_shown)
            self.state = replace(self.state, session=session)

    def set_step(self, step: Step) -> None:
        """Put beside the events what they do not tell of a step."""
        self.state = replace(self.state, steps={**self.state.steps, step.id: step})

    def dispatch(self, step_id: str, linked: RunnerConnection | None) -> None:
        """Send a step's job to the connection that was chosen, or put it in the queue."""
        step = self.state.steps[step_id]
        job = step.job
        if job is None:
            raise RuntimeError("a step without a job cannot be dispatched")
        if linked is None:
            self.queue.append(queued(self.state, step, job))
            return
        self.set_step(replace(step, job=replace(job, held_by=linked.connection)))
        self.approvals = self.state.approvals.worked_on(step_id)
        self.job_push = JobPush(
            to=linked.connection,
            job_id=job.id,
            execution_id=self.state.id,
            step_id=step.id,
            tool_id=step.tool_id,
            attempt=step.attempt,
            deadline_ms=step.deadline_ms or self.now_ms,
            not_before_ms=job.not_before_ms if step.attempt > 1 else 0,
        )

    def drop_job(self, step: Step, *, frees: bool) -> None:
        """Take a step's job out of the queue; a connection that holds it is freed only by a result."""
        if step.job is None:
            return
        if step.job.held_by is None:
            self.unqueue.append(queued(self.state, step, step.job))
        elif frees:
            self.free.append((step.job.held_by, step.job.id))

    def note(self, step: Step, status: StepStatus, error: str = "") -> None:
        """Write a terminal attempt down for `history`."""
        self.history.append(
            HistoryEntry(step.id, step.attempt, step.tool_id, status, self.now_ms, error[:HISTORY_ERROR])
        )

    def cancelling(self, steps: Sequence[Step], reason: str, *, keeps_answers: bool = False) -> list[Entry]:
        """The entries that cancel steps; their queued jobs go with them, a yes that reached nobody may stay."""
        entries: list[Entry] = []
        for step in steps:
            self.drop_job(step, frees=False)
            self.note(step, StepStatus.CANCELLED, reason)
            keeps = keeps_answers and self.approvals.can_keep(step.id) and not self._is_asked_about(step)
            if keeps:
                self.approvals = self.approvals.keep(step.id, approved=True)
            cancelled = StepCancelled(reason=reason)
            if keeps:
                cancelled["answer_kept"] = True
            entries.append(("step.cancelled", cancelled, step.id))
        return entries

    def _is_asked_about(self, step: Step) -> bool:
        return self.state.blocked is not None and self.state.blocked.ref == step.id

    def notice(self, what: What, blocked: Blocked | None) -> None:
        """Publish something about the approval that an execution waits, or waited, for, if its rule says so."""
        if blocked and blocked.notify:
            self.notices.append(Notice(what, blocked.ref))

    def count(self, row: str) -> None:
        """Add one to a metric."""
        self.counts[row] = self.counts.get(row, 0) + 1

    def change(self) -> Change:
        """Everything collected, one version on."""
        version = self.before.version + 1 if self.before else 1
        return Change(
            before=self.before,
            after=replace(self.state, version=version, clock_ms=self.now_ms),
            events=tuple(self.events),
            input=self.input,
            again_of=self.again_of,
            output=self.output,
            new_steps=tuple(self.new_steps),
            outcomes=self.outcomes,
            decisions=self.decisions,
            history=tuple(self.history),
            signals=self.signals,
            answered=self.answered,
            freed_key=self.freed_key,
            pushes=tuple(self.pushes),
            hosted_pushes=tuple(self.hosted_pushes),
            job_push=self.job_push,
            queue=tuple(self.queue),
            unqueue=tuple(self.unqueue),
            free=tuple(self.free),
            lost=self.lost,
            notices=tuple(self.notices),
            counts=self.counts,
            durations=tuple(self.durations),
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command comes to: a change or none, the answer to its caller, and whether it must be decided once more."""

    change: Change | None
    answer: Json = None
    again: bool = False


def queued(state: Execution, step: Step, job: Job) -> QueuedJob:
    """The queue's row for a step's job."""
    return QueuedJob(step.tool_id, job.not_before_ms, job.id, state.id, step.id)


def excess(state: Execution) -> list[Step]:
    """Steps that must be ended ahead, because one transaction could not end all of them; the oldest stay."""
    return list(state.steps.values())[ENDED_AT_ONCE:][:ENDED_AT_ONCE]
