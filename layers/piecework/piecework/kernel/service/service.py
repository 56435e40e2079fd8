"""The kernel door's operations, one method per endpoint or occasion (specification sections 1, 2 and 10.1)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from piecework.edge.roles import UNLIMITED, Caller, Role
from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.kernel.decide import checks
from piecework.kernel.decide.answers import is_answer, needs_another_look
from piecework.kernel.decide.signals import step_let_through
from piecework.kernel.errors import Conflict, NotFound, SessionExpired
from piecework.kernel.model import timers
from piecework.kernel.model.change_builder import Decision
from piecework.kernel.model.changes import StepRecord
from piecework.kernel.model.commands import (
    AgentLost,
    Cancel,
    Create,
    Intent,
    JobResult,
    Report,
    Requeue,
    SendFailed,
    Signal,
    Started,
    StepResult,
)
from piecework.kernel.model.events import Event
from piecework.kernel.model.evolve import APPROVALS
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Approval, Details, Filter, Read, Summary, VersionConflict
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.model.state import Execution, Pause, Status, Step
from piecework.kernel.policy.windows import RateWindows
from piecework.kernel.service.assigning import RoundRobin
from piecework.kernel.service.bulk import Bulk
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.creating import Admit, Creating, again_id, created_id
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.due_timers import DueTimers, TimersRun
from piecework.kernel.service.forgetting import Forgetting
from piecework.kernel.service.intents import CHOICES, Intents, Judge
from piecework.kernel.service.reasons import Reason, Reasons
from piecework.kernel.service.sessions import Sessions
from piecework.kernel.wire.cursors import key_cursor, key_of, page_of, place_of
from piecework.kernel.wire.pages import page_of_approvals
from piecework.values import replace


class Kernel:
    """Clients, agents, runners and timers, all through here.

    `by` is the name of the caller's token, which every event of the command keeps; empty at a door without tokens, and
    for what the kernel does by itself.
    """

    def __init__(
        self,
        stores: Stores,
        commits: Commits,
        assigner: RoundRobin,
        dispatcher: Queues,
        judge: Judge,
        windows: RateWindows,
        admit: Admit = lambda executor: None,
    ) -> None:
        self._executions, self._agents, self._runners = stores.executions, stores.agents, stores.runners
        self._commits, self._assigner, self._dispatcher = commits, assigner, dispatcher
        self._settings, self._around = commits.settings, commits.environment
        self._sessions = Sessions(stores.executions, stores.agents)
        self._reasons = Reasons(stores.executions, assigner.service, commits.clock)
        self._creating = Creating(stores.executions, stores.agents, commits, assigner, admit)
        self._due_timers = DueTimers(stores, commits, assigner, dispatcher)
        self._intents = Intents(stores.executions, self._sessions, commits, dispatcher, judge, windows)

    def create(self, agent_id: str, given: Json, labels: Mapping[str, str], by: str = "", key: str = "") -> Details:
        """A new execution, given to a connected consumer at once; a repeat by the same name and key gets the same one.

        Raises:
            Conflict: the key has created an execution of another agent, input or labels.
        """
        command = Create(created_id(by, key), agent_id, given, labels)
        made = self._creating.once(command, by) if key else self._creating.create(command, by)
        return made or self.get(command.execution_id)

    def again(self, execution_id: str, key: str = "", by: str = "") -> Details:
        """A new execution with an ended one's agent, input and labels; a repeat with its key gets the same one.

        Raises:
            NotFound: no such execution.
            Conflict: it has not ended.
        """
        ended, id_ = self._settled(execution_id), again_id(execution_id, key)
        made = self._executions.view(id_) if id_ else None
        try:
            return self._reasons.with_reasons(made) if made else self._creating.again(ended, id_, by)
        except VersionConflict:  # the same request at the same time
            return self.get(id_)

    def get(self, execution_id: str) -> Details:
        """An execution as it is now, with its reasons; timers that have come are settled first.

        Raises:
            NotFound: no such execution.
        """
        return self._reasons.with_reasons(self._settled(execution_id))

    def executions(self, which: Filter, cursor: str, limit: int) -> tuple[list[Summary], str]:
        """A page of executions, newest first, and the cursor of the next one; empty when there is none.

        Raises:
            Invalid: this door did not give the cursor out.
        """
        return page_of(self._executions.rows(which, place_of(cursor), limit + 1), limit)

    def reasons(self, rows: Sequence[Summary]) -> dict[str, Reason]:
        """What at most 100 listed executions wait for or have failed by; those that are gone are left out."""
        return self._reasons.of_rows(rows)

    def cancel(self, execution_id: str, by: str = "") -> Details:
        """End an execution for its client.

        Raises:
            NotFound: no such execution.
            Conflict: it has ended.
        """

        self._cancel(execution_id, by)
        return self._view(execution_id)

    def cancel_all(self, which: Filter, cursor: str, confirmed: int | None, by: str = "") -> dict[str, Json]:
        """How many open executions a filter names; with that number confirmed, some of them end.

        Raises:
            Invalid: this door did not give the cursor out.
            CountChanged: another number was confirmed.
        """
        cancel = partial(self._cancel, only=which.status)
        return Bulk(self.executions, cancel, self._around.clock).cancel(which, cursor, confirmed, by)

    def forget(self, execution_id: str, reason: str, by: str = "") -> Details:
        """Erase what an ended execution was about; `forgotten` says whether that is complete, else repeat it.

        Raises:
            NotFound: no such execution.
            Conflict: it has not ended.
        """
        Forgetting(self._executions, self._settled, self._around.clock).forget(execution_id, reason, by)
        return self.get(execution_id)

    def signal(
        self,
        execution_id: str,
        signal_type: str,
        payload: Json,
        caller: Caller = UNLIMITED,
        also: str = "",
        *,
        is_answer: bool = False,
    ) -> dict[str, Json]:
        """Something from outside for an execution; `already` when it was done before.

        `also` is a name of a kernel door's token that means the same party as the caller, who may not answer what an
        agent asks that works by it. `is_answer` says that it is about a step, even if the agent waits for its type.

        Raises:
            NotFound: no such execution.
            Conflict: it has ended, or another answer about the step stands.
            Invalid: an approval that does not fit.
            Forbidden: the caller may not answer about a step, or about this one, or not send any other signal.
        """
        command = Signal(signal_type, payload, roles=caller.roles, is_answer=is_answer)
        looks = iter((True,))

        def attempt(read: Read, _now_ms: int, taken: int) -> Decision:
            checks.known(read)
            if needs_another_look(read, command) and next(looks, False):
                raise VersionConflict
            step = step_let_through(read, command)
            whole = self._with_connections(read, command, step, taken) if step else command
            whole = self._with_served(read, whole, caller, also)
            return self._commits.decided(read, whole, caller.name)

        step_id = command.step_id if signal_type in APPROVALS else ""
        answer = self._commits.run(execution_id, attempt, step_id=step_id, with_decision=bool(step_id))
        return dict(answer)

    def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        """A page of the log; empty for an unknown execution."""
        return self._executions.events(execution_id, after, limit)

    def approvals(self, limit: int) -> list[Approval]:
        """Steps that wait for a person."""
        return self._executions.approvals(limit)

    def approvals_page(self, cursor: str, limit: int, *, answered: bool = False) -> tuple[list[Approval], str]:
        """A page of approvals, those that wait the oldest first or those answered the newest first; the next cursor.

        Raises:
            Invalid: this door did not give the cursor out.
        """
        page, then = page_of_approvals(self._executions, key_of(cursor), limit, answered=answered)
        return page, key_cursor(then)

    def approval(self, execution_id: str, step_id: str) -> tuple[Approval, StepRecord]:
        """One step that a person is, or was, asked about; a time that has come is settled first.

        Raises:
            NotFound: nobody was asked about such a step.
        """
        self.get(execution_id)
        found = self._executions.approval(execution_id, step_id)
        if found is None:
            raise NotFound("no such approval")
        return found

    def pause(self, agent_id: str, reason: str, by: str = "") -> Pause:
        """Give an agent no new work: creates are refused, and what waits goes on waiting. A pause that holds stays."""
        return self._agents.pause(agent_id, Pause(self._around.clock(), by, reason))

    def resume(self, agent_id: str, reason: str, by: str = "") -> Pause | None:
        """Give an agent work again, some of what waits at once; its last pause, None if it was not paused lately."""
        pause = self._agents.resume(agent_id, self._around.clock(), by, reason)
        with suppress(PieceworkError):  # its streams find what waits
            self._assigner.offer(agent_id)
        return pause

    def intent(
        self, execution_id: str, session_id: str, intent: Intent, by: str = "", reports: tuple[Report, ...] = ()
    ) -> dict[str, Json]:
        """What an agent wants, and the answer of section 2.9; what a hosted run reports goes before it into the log.

        Raises:
            KernelError: it is refused.
        """
        with self._ending_lapsed(execution_id, session_id):
            return self._intents.take(execution_id, session_id, intent, by, reports)

    def step_result(
        self, execution_id: str, session_id: str, step_id: str, success: bool, data: Json, error: str, by: str = ""
    ) -> None:
        """An agent reports a step.

        Raises:
            KernelError: the session, the step or the execution does not take it.
        """
        command = StepResult(session_id, step_id, success, data, error)

        def attempt(read: Read, now_ms: int, _taken: int) -> Decision:
            self._sessions.check(read, session_id, now_ms)
            return self._commits.decided(read, command, by)

        with self._ending_lapsed(execution_id, session_id):
            self._commits.run(execution_id, attempt, step_id=step_id, session_id=session_id)

    def agent_lost(self, execution_id: str, session_id: str) -> bool:
        """The consumer of a session is gone for good; False when the execution has moved on."""

        def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
            if read.execution is None:
                return Decision(None, answer=False)
            needs_consumer = any(call.generation for call in read.execution.approvals.calls.values())
            consumer = self._consumer_of(read.execution) if needs_consumer else None
            return self._commits.decided(read, AgentLost(session_id, consumer))

        return bool(self._commits.run(execution_id, attempt))

    def send_failed(self, execution_id: str, session_id: str) -> bool:
        """An assignment was taken for its stream and could not be written."""
        return bool(self._commits.run_command(execution_id, SendFailed(session_id)))

    def started(self, step_id: str, execution_id: str, runner_id: str, by: str = "") -> None:
        """A runner has begun a step; only the first report of an active step is recorded.

        Raises:
            NotFound: no such execution or step.
        """

        def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
            checks.known(read)
            return self._commits.decided(read, Started(step_id, runner_id), by)

        self._commits.run(execution_id, attempt, step_id=step_id)

    def job_result(
        self,
        runner_id: str,
        job_id: str,
        execution_id: str,
        step_id: str,
        success: bool,
        data: Json,
        error: str,
        retryable: bool,
        by: str = "",
    ) -> None:
        """A runner reports a job; whatever comes of it, its connection is idle then.

        Raises:
            NotFound: no such execution or step.
            Conflict: the step has ended, or this is not its current job.
        """
        command = JobResult(job_id, step_id, success, data, error, retryable)

        def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
            checks.known(read)
            return self._commits.decided(read, command, by)

        try:
            self._commits.run(execution_id, attempt, step_id=step_id)
        except (NotFound, Conflict):
            self._free_late(runner_id, job_id)
            raise

    def requeue(self, execution_id: str, step_id: str, job_id: str) -> bool:
        """Put a job that nobody began back into its queue; False when somebody did, or it is not current."""
        return bool(self._commits.run_command(execution_id, Requeue(step_id, job_id)))

    def due_ms(self, execution_id: str) -> int | None:
        """When an execution must be looked at next; None when it is gone."""
        execution = self._executions.read(execution_id).execution
        return timers.due_at(execution, self._settings) if execution else None

    def run_due_timers(self, execution_id: str) -> TimersRun | None:
        """Do what an execution's timers ask for now; None if it is gone."""
        return self._due_timers.run_due_timers(execution_id)

    @contextmanager
    def _ending_lapsed(self, execution_id: str, session_id: str) -> Iterator[None]:
        """A session that turns out to have lapsed ends here, should nobody have noticed; the refusal stands."""
        try:
            yield
        except SessionExpired:
            with suppress(PieceworkError):
                self.agent_lost(execution_id, session_id)
            raise

    def _cancel(self, execution_id: str, by: str, only: Status | None = None) -> None:
        """End an execution; one that is not in that status any more counts as not found."""

        def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
            if only not in (None, checks.known(read).status):
                raise NotFound("no such execution in this status")
            return self._commits.decided(read, Cancel(), by)

        self._commits.run(execution_id, attempt)

    def _settled(self, execution_id: str) -> Details:
        view = self._view(execution_id)
        if not timers.must_expire(view.execution, self._around.clock(), self._settings):
            return view
        self.run_due_timers(execution_id)
        return self._view(execution_id)

    def _view(self, execution_id: str) -> Details:
        view = self._executions.view(execution_id)
        if view is None:
            raise NotFound("no such execution")
        return view

    def _with_connections(self, read: Read, command: Signal, step: Step, taken: int) -> Signal:
        """A signal with whom it sends the step to that it lets through: a runner, or the agent."""
        if step.remote:
            return replace(command, linked=self._choose(step.tool_id, taken))
        return replace(command, consumer=self._consumer_of(read.execution) if read.execution else None)

    def _with_served(self, read: Read, command: Signal, caller: Caller, also: str) -> Signal:
        """An answer by a token of agents, with whether the execution's own agent has connected by it or by `also`."""
        execution, is_agents = read.execution, caller.is_limited and Role.AGENT in caller.roles
        if execution is None or not (is_agents or also) or not is_answer(execution, command):
            return command
        if also and (also in execution.worked_by or self._agents.has_served(execution.agent_id, also)):
            return replace(command, works_as=also)
        if not is_agents:
            return command
        return replace(command, served=self._agents.has_served(execution.agent_id, caller.name))

    def _consumer_of(self, execution: Execution) -> Consumer | None:
        session = execution.session
        return self._agents.find(execution.agent_id, session.consumer_id) if session else None

    def _choose(self, tool_id: str, taken: int) -> RunnerConnection | None:
        return self._dispatcher.choose(tool_id) if tool_id and taken < CHOICES else None

    def _free_late(self, runner_id: str, job_id: str) -> None:
        """Free the connection of a refused result; if that fails, its runner must report again: nobody else can."""
        for linked in self._runners.connections(runner_id):
            if linked.job_id == job_id and self._runners.free(linked.connection, job_id):
                with suppress(PieceworkError):  # its next heartbeat looks for work
                    self._dispatcher.pump(linked.connection)
