"""The kernel door's stores in one process's memory; they pass the same contract tests as the tables.

store = new_store(clock, rules)
store.executions, store.agents, store.runners, store.outbox, store.counters, store.due_times
store.on_commit = crash       # called with the change before (False) and after (True) it is applied; may raise
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from threading import RLock
from typing import Any

from piecework.clock import DAY_MS
from piecework.durable.due import Due
from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.kernel.connected.ports import Connections, Owner, Owners
from piecework.kernel.errors import Invalid
from piecework.kernel.model.changes import Change, HistoryEntry, IdempotencyRecord, JobPush, Push, QueuedJob, StepRecord
from piecework.kernel.model.due_times import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE, pair_id
from piecework.kernel.model.events import Event
from piecework.kernel.model.metrics import counts_of
from piecework.kernel.model.payloads import emptied
from piecework.kernel.model.ports.agents import AgentQueue, Agents, Board, Consumer, Waiting
from piecework.kernel.model.ports.executions import (
    Approval,
    ApprovalPage,
    Beside,
    Details,
    Executions,
    Filter,
    Message,
    Outbox,
    Read,
    Standing,
    Summaries,
    Summary,
    VersionConflict,
)
from piecework.kernel.model.ports.runners import ConnectionTaken, RunnerConnection, Runners, ToolEntry
from piecework.kernel.model.ports.stores import Counters
from piecework.kernel.model.state import Connection, Execution, Forgotten, Pause, Status, Step
from piecework.kernel.model.timers import due_at
from piecework.kernel.settings import NAME_KEPT_MS, KernelSettings
from piecework.kernel.store import keys
from piecework.kernel.store.items import approval_of_step
from piecework.kernel.wire.frames import event_body
from tests.support.kernel.payloads import check_payloads
from tests.support.worker.door_fakes import FakeDueTimes

PAGE_BYTES = 4_000_000
Place = tuple[str, str, str]  # kind, owner, consumer


def new_store(clock: Callable[[], int], settings: KernelSettings | None = None) -> KernelStore:
    """Empty stores."""
    return KernelStore(clock, settings or KernelSettings())


@dataclass
class KernelStore:
    """Everything the door keeps, behind its ports; each port's call is atomic."""

    clock: Callable[[], int]
    settings: KernelSettings
    on_commit: Callable[[Change, bool], None] = lambda change, is_applied: None
    kept: dict[str, Kept] = field(default_factory=dict)
    session_of: dict[str, str] = field(default_factory=dict)
    consumers: dict[tuple[str, str], Consumer] = field(default_factory=dict)
    served: dict[tuple[str, str], int] = field(default_factory=dict)  # agent and name of a token: until when
    turns: dict[str, int] = field(default_factory=dict)
    tool_turns: dict[str, int] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)  # by the id of an execution or a job: until when
    links: dict[Connection, RunnerConnection] = field(default_factory=dict)
    known_tools: dict[str, tuple[str, ...]] = field(default_factory=dict)
    published: dict[str, list[ToolEntry]] = field(default_factory=dict)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)  # kind and id: when it connected
    pauses: dict[str, Any] = field(default_factory=dict)
    jobs: list[QueuedJob] = field(default_factory=list)
    answered: dict[tuple[str, str], Approval] = field(default_factory=dict)
    boxes: dict[Place, dict[str, Message]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    due_times: FakeDueTimes = field(default_factory=FakeDueTimes)
    generations: Any = field(default_factory=lambda: count(1))
    lock: RLock = field(default_factory=RLock)

    @property
    def executions(self) -> FakeExecutions:
        return FakeExecutions(self)

    @property
    def agents(self) -> FakeAgents:
        return FakeAgents(self)

    @property
    def runners(self) -> FakeRunners:
        return FakeRunners(self)

    @property
    def connections(self) -> FakeConnections:
        return FakeConnections(self)

    @property
    def outbox(self) -> FakeOutbox:
        return FakeOutbox(self)

    @property
    def counters(self) -> FakeCounters:
        return FakeCounters(self)


@dataclass
class Kept:
    """One execution with everything of it."""

    execution: Execution
    input: Json
    output: Json = None
    again_of: str = ""
    log: list[Event] = field(default_factory=list)
    steps: dict[str, StepRecord] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    signals: dict[int, Json] = field(default_factory=dict)
    answers: dict[str, IdempotencyRecord] = field(default_factory=dict)


class FakeExecutions(Executions):
    """Executions in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def read(
        self, execution_id: str, *, key: str = "", step_id: str = "", session_id: str = "", with_decision: bool = False
    ) -> Read:
        with self._store.lock:
            session_of = self._store.session_of.get(session_id)
            kept = self._store.kept.get(execution_id)
            if kept is None:
                return Read(None, session_of=session_of)
            return Read(kept.execution, kept.answers.get(key) if key else None, kept.steps.get(step_id), session_of)

    def commit(self, change: Change) -> None:
        with self._store.lock:
            self._store.on_commit(change, False)
            self._check(change)
            self._apply(change)
            self._store.on_commit(change, True)

    def view(self, execution_id: str) -> Details | None:
        kept = self._store.kept.get(execution_id)
        return Details(kept.execution, kept.input, kept.output, kept.again_of) if kept else None

    def message(self, agent_id: str, consumer_id: str, key: str, execution_id: str) -> Message | None:
        with self._store.lock:
            found = self._store.boxes.get(("agent", agent_id, consumer_id), {}).get(key)
            beside = Beside(self._store.agents.find(agent_id, consumer_id), self.view(execution_id))
            return replace(found, beside=beside) if found else None

    def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        kept = self._store.kept.get(execution_id)
        log = kept.log[after:][:limit] if kept else []
        most = len(log)
        while most > 1 and answer_bytes(log[:most]) > PAGE_BYTES:
            most -= 1
        return log[:most]

    def history(self, execution_id: str, limit: int) -> list[tuple[HistoryEntry, StepRecord]]:
        kept = self._store.kept.get(execution_id)
        return [(entry, kept.steps[entry.step_id]) for entry in kept.history[-limit:]] if kept else []

    def signal(self, execution_id: str, sequence: int) -> Json:
        kept = self._store.kept.get(execution_id)
        return kept.signals.get(sequence) if kept else None

    def rows(self, which: Filter, after: tuple[int, str] | None, limit: int) -> Summaries:
        with self._store.lock:
            rows = [row_of(kept.execution) for kept in self._store.kept.values() if _fits(kept.execution, which)]
        rows.sort(key=lambda row: (row.created_at_ms, row.id), reverse=True)
        later = [row for row in rows if after is None or (row.created_at_ms, row.id) < after]
        last = later[:limit][-1:]
        then = (last[0].created_at_ms, last[0].id) if len(later) > limit else None
        return Summaries(later[:limit], then)

    def holder(self, step_id: str, execution_ids: Sequence[str]) -> str:
        with self._store.lock:
            kept = self._store.kept
            return next((one for one in execution_ids if one in kept and step_id in kept[one].steps), "")

    def standing(self, execution_ids: Sequence[str]) -> Mapping[str, Standing]:
        with self._store.lock:
            found = [self._store.kept[one] for one in execution_ids if one in self._store.kept]
            return {
                kept.execution.id: Standing(
                    replace(kept.execution, labels={}),
                    kept.log[-1]
                    if kept.execution.status is Status.FAILED and not kept.execution.forgotten and kept.log
                    else None,
                )
                for kept in found
            }

    def approvals(self, limit: int, after: str = "") -> list[Approval]:
        with self._store.lock:
            found = [approval_of(kept.execution) for kept in self._store.kept.values()]
            listed = [self._listed(keys.waiting_approval(one.since_ms, one.execution_id), one) for one in found if one]
        return sorted((one for one in listed if one.key > after), key=lambda one: one.key)[:limit]

    def answered(self, limit: int, before: str = "") -> ApprovalPage:
        with self._store.lock:
            listed = [
                replace(
                    self._listed(key, one),
                    decided=self._store.kept[one.execution_id].steps[one.step_id].decided,
                    waits=False,
                )
                for key, one in self._store.answered.items()
                if one.execution_id in self._store.kept and one.step_id in self._store.kept[one.execution_id].steps
            ]
        before_it = (one for one in listed if not before or one.key < before)
        found = sorted(before_it, key=lambda one: one.key, reverse=True)
        return ApprovalPage(found[:limit], found[limit - 1].key if len(found) > limit else "")

    def approval(
        self, execution_id: str, step_id: str, *, with_arguments: bool = True
    ) -> tuple[Approval, StepRecord] | None:
        kept = self._store.kept.get(execution_id)
        record = kept.steps.get(step_id) if kept else None
        if record and not with_arguments:
            record = replace(record, arguments=None, has_arguments=False)
        return approval_of_step(kept.execution, record, record.question) if kept and record else None

    def _listed(self, key: tuple[str, str], approval: Approval) -> Approval:
        record = self._store.kept[approval.execution_id].steps[approval.step_id]
        return replace(approval, question=record.question, key=key[1])

    def note_forgotten(self, execution: Execution, forgotten: Forgotten) -> None:
        with self._store.lock:
            kept = self._store.kept.get(execution.id)
            if kept is None or kept.execution.version != execution.version:
                raise VersionConflict
            kept.execution = replace(execution, version=execution.version + 1, labels={}, forgotten=forgotten)
            kept.input = kept.output = None

    def erase(self, execution_id: str, goes_on: Callable[[], bool]) -> bool:
        with self._store.lock:
            kept = self._store.kept.get(execution_id)
            if kept:
                kept.log = [replace(event, payload=emptied(event.type, event.payload)) for event in kept.log]
                kept.steps, kept.history, kept.signals, kept.answers = {}, [], {}, {}
            return goes_on()

    def forget(self, execution_id: str) -> None:
        with self._store.lock:
            kept = self._store.kept.pop(execution_id, None)
            if kept:
                self._store.due_times.remove(self._due(kept.execution))

    def _check(self, change: Change) -> None:
        kept = self._store.kept.get(change.after.id)
        if (kept.execution.version if kept else None) != (change.before.version if change.before else None):
            raise VersionConflict
        answered = change.answered
        if kept and answered and answered.key in kept.answers and change.freed_key != answered.key:
            raise VersionConflict
        lost = getattr(change, "lost", None)
        if lost:
            consumer = self._store.consumers.get((lost.agent_id, lost.consumer_id))
            if consumer is None or consumer.generation != lost.generation:
                raise VersionConflict
        if change.job_push:
            linked = self._store.links.get(change.job_push.to)
            if linked is None or linked.job_id or not linked.is_open:
                raise ConnectionTaken

    def _apply(self, change: Change) -> None:
        check_payloads(change.events)
        store, after = self._store, change.after
        if change.before is None:
            store.kept[after.id] = Kept(after, change.input, again_of=getattr(change, "again_of", ""))
        else:
            store.due_times.remove(self._due(change.before))
        store.due_times.put(self._due(after))
        for notice in change.notices:
            store.due_times.put(notice.due(after.id, after.clock_ms))
        if not after.is_waiting:
            store.claims.pop(after.id, None)
        asked = approval_of(change.before) if change.before else None
        if asked and asked.step_id in change.decisions:
            at_ms = change.decisions[asked.step_id].at_ms
            store.answered[keys.answered_approval(at_ms, asked.execution_id, asked.step_id)] = asked
        self._keep(store.kept[after.id], change)
        if after.session:
            store.session_of.setdefault(after.session.id, after.id)
        store.jobs = [job for job in store.jobs if job not in change.unqueue] + list(change.queue)
        for connection, job_id in change.free:
            store.runners.free(connection, job_id)
        if change.job_push:
            linked = store.links[change.job_push.to]
            claimed = replace(linked, job_id=change.job_push.job_id, execution_id=after.id)
            store.links[linked.connection] = claimed
        self._push(change)
        store.counters.add(counts_of(change))

    def _keep(self, kept: Kept, change: Change) -> None:
        kept.execution = change.after
        kept.log += change.events
        kept.history += change.history
        kept.signals |= change.signals
        kept.steps |= {record.id: record for record in change.new_steps}
        for step_id, outcome in change.outcomes.items():
            kept.steps[step_id] = replace(kept.steps[step_id], outcome=outcome)
        for step_id, decided in getattr(change, "decisions", {}).items():
            kept.steps[step_id] = replace(kept.steps[step_id], decided=decided)
        if change.after.status is Status.COMPLETED:
            kept.output = change.output
        kept.answers.pop(change.freed_key, None)
        if change.answered:
            kept.answers[change.answered.key] = change.answered

    def _push(self, change: Change) -> None:
        for place, key, push in addressed(change):
            self._store.boxes.setdefault(place, {})[key] = Message(key, push, 0)

    def _due(self, execution: Execution) -> Due:
        return Due(due_at(execution, self._store.settings), EXECUTION_DUE, execution.id)


class FakeAgents(Agents):
    """Agents' consumers in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def connect(
        self, agent_id: str, consumer_id: str, lease_until_ms: int, by: str = ""
    ) -> tuple[Consumer, Consumer | None]:
        with self._store.lock:
            replaced = self.find(agent_id, consumer_id)
            self._store.seen["agent", agent_id] = self._store.clock()
            until_ms = self._keep_name(agent_id, replaced, by) if by else 0
            generation, since = next(self._store.generations), _since(replaced, self._store.clock())
            consumer = Consumer(agent_id, consumer_id, generation, lease_until_ms, True, 0, by, until_ms, since)
            self._store.consumers[agent_id, consumer_id] = consumer
            self._store.due_times.put(Due(lease_until_ms, AGENT_DUE, pair_id(agent_id, consumer_id)))
            return consumer, replaced

    def has_served(self, agent_id: str, name: str) -> bool:
        return self._store.served.get((agent_id, name), 0) > self._store.clock()

    def _keep_name(self, agent_id: str, old: Consumer | None, by: str) -> int:
        now_ms = self._store.clock()
        if old and old.by == by and old.named_until_ms - now_ms > NAME_KEPT_MS // 2:
            return old.named_until_ms
        until_ms = (now_ms + NAME_KEPT_MS) // 1000 * 1000
        self._store.served[agent_id, by] = until_ms
        return until_ms

    def refresh(self, consumer: Consumer, lease_until_ms: int) -> bool:
        return self._replace(consumer, lease_until_ms, is_open=True)

    def refresh_all(self, consumers: Sequence[Consumer], lease_until_ms: int) -> list[Consumer]:
        _check_rows([(consumer.agent_id, consumer.consumer_id) for consumer in consumers])
        return [consumer for consumer in consumers if not self.refresh(consumer, lease_until_ms)]

    def doubt(self, consumer: Consumer, until_ms: int) -> bool:
        with self._store.lock:
            found = self.find(consumer.agent_id, consumer.consumer_id)
            if not _is_same_lease(found, consumer):
                return False
            place = (consumer.agent_id, consumer.consumer_id)
            self._store.consumers[place] = replace(consumer, doubted_until_ms=until_ms)
            return True

    def end(self, consumer: Consumer, grace_until_ms: int) -> bool:
        return self._replace(consumer, grace_until_ms, is_open=False)

    def find(self, agent_id: str, consumer_id: str) -> Consumer | None:
        return self._store.consumers.get((agent_id, consumer_id))

    def agent_queue(self, agent_id: str) -> AgentQueue:
        with self._store.lock:
            consumers = [found for (agent, _), found in self._store.consumers.items() if agent == agent_id]
            executions = [kept.execution for kept in self._store.kept.values()]
        consumers.sort(key=lambda consumer: consumer.consumer_id.encode())
        waiting = [one for one in executions if one.agent_id == agent_id and one.is_waiting]
        waiting.sort(key=lambda one: (one.created_at_ms, one.id))
        ids = tuple(one.id for one in waiting[:100])
        pause = {"pause": self.pause_of(agent_id)} if hasattr(AgentQueue, "pause") else {}
        return AgentQueue(tuple(consumers), self._store.turns.get(agent_id, 0), ids, **pause)

    def waiting(self, agent_id: str) -> list[Waiting]:
        with self._store.lock:
            kept, claims = self._store.kept, self._store.claims
            return [
                Waiting(name, kept[name].execution.created_at_ms, claims.get(name, 0))
                for name in self.agent_queue(agent_id).waiting
            ]

    def board(self, agent_id: str) -> Board:
        return Board(self.agent_queue(agent_id).consumers, self.pause_of(agent_id))

    def consumers(self, agent_id: str) -> tuple[Consumer, ...]:
        return self.agent_queue(agent_id).consumers

    def pause_of(self, agent_id: str) -> Pause | None:
        return self._store.pauses.get(agent_id)

    def pause(self, agent_id: str, pause: Pause) -> Pause:
        with self._store.lock:
            self._store.seen["agent", agent_id] = self._store.clock()
            standing = self._store.pauses.get(agent_id)
            if standing is None or not standing.is_on:
                self._store.pauses[agent_id] = standing = pause
            return standing

    def resume(self, agent_id: str, at_ms: int, by: str, reason: str) -> Pause | None:
        with self._store.lock:
            standing = self._store.pauses.get(agent_id)
            if standing and standing.is_on:
                standing = replace(standing, resumed_ms=at_ms, resumed_by=by, resumed_reason=reason)
                self._store.pauses[agent_id] = standing
            return standing

    def next_turn(self, agent_id: str) -> int:
        with self._store.lock:
            turn = self._store.turns.get(agent_id, 0)
            self._store.turns[agent_id] = turn + 1
            return turn

    def take_turn(self, agent_id: str, turn: int) -> bool:
        """As earlier versions of the product do it."""
        with self._store.lock:
            return self._store.turns.get(agent_id, 0) == turn and self.next_turn(agent_id) == turn

    def claim(self, agent_id: str, waiting: Waiting, until_ms: int) -> bool:
        with self._store.lock:
            kept = self._store.kept.get(waiting.execution_id)
            if kept is None or not kept.execution.is_waiting:
                return False
            if self._store.claims.get(waiting.execution_id, 0) > self._store.clock():
                return False
            self._store.claims[waiting.execution_id] = until_ms
            return True

    def sessions(self, agent_id: str, consumer_id: str) -> list[str]:
        with self._store.lock:
            executions = [kept.execution for kept in self._store.kept.values()]
        held = [one for one in executions if one.agent_id == agent_id and one.session and not one.status.is_terminal]
        return sorted(one.id for one in held if one.session and one.session.consumer_id == consumer_id)

    def forget(self, consumer: Consumer) -> bool:
        with self._store.lock:
            place = (consumer.agent_id, consumer.consumer_id)
            found = self._store.consumers.get(place)
            if found is None or found.generation != consumer.generation:
                return False
            if found.lease_until_ms > consumer.lease_until_ms:
                return False
            del self._store.consumers[place]
            self._store.boxes.pop(("agent", *place), None)
            if not self.agent_queue(consumer.agent_id).consumers:
                self._store.turns.pop(consumer.agent_id, None)
            return True

    def _replace(self, consumer: Consumer, until_ms: int, *, is_open: bool) -> bool:
        with self._store.lock:
            found = self.find(consumer.agent_id, consumer.consumer_id)
            if found is None or found.generation != consumer.generation or not found.is_open:
                return False
            place = (consumer.agent_id, consumer.consumer_id)
            self._store.consumers[place] = replace(found, lease_until_ms=until_ms, is_open=is_open, **_undoubted(found))
            return True


class FakeRunners(Runners):
    """Runners in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def connect(
        self, connection: Connection, tools: Sequence[str], lease_until_ms: int
    ) -> tuple[RunnerConnection, RunnerConnection | None]:
        store = self._store
        with store.lock:
            replaced = store.links.pop(connection, None)
            known = store.known_tools.setdefault(connection.runner_id, ())
            job = (replaced.job_id, replaced.execution_id) if replaced and not replaced.is_open else ("", "")
            offered = tuple(dict.fromkeys([*tools, *known]))
            generation = next(store.generations)
            store.seen["runner", connection.runner_id] = store.clock()
            since = {"since_ms": _since(replaced, store.clock())} if hasattr(RunnerConnection, "since_ms") else {}
            linked = RunnerConnection(
                connection, generation, lease_until_ms, True, offered, *job, connected_at_ms=store.clock(), **since
            )
            store.links[connection] = linked
            due = Due(lease_until_ms, RUNNER_DUE, pair_id(connection.runner_id, connection.consumer_id))
            store.due_times.put(due)
            return linked, replaced

    def refresh(self, linked: RunnerConnection, lease_until_ms: int) -> bool:
        return self._replace(linked, lease_until_ms, is_open=True)

    def refresh_all(self, linked: Sequence[RunnerConnection], lease_until_ms: int) -> list[RunnerConnection]:
        _check_rows([one.connection for one in linked])
        return [one for one in linked if not self.refresh(one, lease_until_ms)]

    def doubt(self, linked: RunnerConnection, until_ms: int) -> bool:
        with self._store.lock:
            found = self.find(linked.connection)
            if found is None or not _is_same_lease(found, linked):
                return False
            self._store.links[linked.connection] = replace(found, doubted_until_ms=until_ms)
            return True

    def end(self, linked: RunnerConnection, grace_until_ms: int) -> bool:
        return self._replace(linked, grace_until_ms, is_open=False)

    def find(self, connection: Connection) -> RunnerConnection | None:
        return self._store.links.get(connection)

    def connections(self, runner_id: str) -> list[RunnerConnection]:
        with self._store.lock:
            return [linked for linked in self._store.links.values() if linked.connection.runner_id == runner_id]

    def offering(self, tool_id: str) -> list[RunnerConnection]:
        with self._store.lock:
            return [linked for linked in self._store.links.values() if tool_id in linked.tools]

    def next_turn(self, tool_id: str) -> int:
        with self._store.lock:
            self._store.tool_turns[tool_id] = self._store.tool_turns.get(tool_id, -1) + 1
            return self._store.tool_turns[tool_id]

    def set_tools(self, runner_id: str, tools: Sequence[str]) -> bool:
        with self._store.lock:
            if runner_id not in self._store.known_tools:
                return False
            self._set_tools(runner_id, tools)
            return True

    def free(self, connection: Connection, job_id: str) -> bool:
        with self._store.lock:
            linked = self._store.links.get(connection)
            if linked is None or not job_id or linked.job_id != job_id:
                return False
            self._store.links[connection] = replace(linked, job_id="", execution_id="")
            return True

    def queued(self, tool_id: str, now_ms: int, limit: int) -> list[QueuedJob]:
        with self._store.lock:
            jobs = [job for job in self._store.jobs if job.tool_id == tool_id and job.not_before_ms <= now_ms]
        return sorted(jobs, key=lambda job: (job.not_before_ms, job.job_id))[:limit]

    def unclaimed(self, tool_id: str, now_ms: int) -> list[QueuedJob]:
        with self._store.lock:
            jobs = self.queued(tool_id, now_ms, 100)
            return [job for job in jobs if self._store.claims.get(job.job_id, 0) <= now_ms][:10]

    def claim_job(self, job: QueuedJob, until_ms: int) -> bool:
        with self._store.lock:
            if job not in self._store.jobs or self._store.claims.get(job.job_id, 0) > self._store.clock():
                return False
            self._store.claims[job.job_id] = until_ms
            return True

    def unclaim_job(self, job: QueuedJob) -> None:
        with self._store.lock:
            self._store.claims.pop(job.job_id, None)

    def publish(self, runner_id: str, tools: Sequence[ToolEntry]) -> None:
        with self._store.lock:
            self._store.published[runner_id] = list(tools)
            self._set_tools(runner_id, [tool.id for tool in tools])

    def directory(self, prefix: str) -> list[ToolEntry]:
        newest: dict[str, ToolEntry] = {}
        with self._store.lock:
            entries = [entry for found in self._store.published.values() for entry in found]
        for entry in sorted(entries, key=lambda entry: (entry.registered_at_ms, entry.runner_id)):
            newest[entry.id] = entry
        return [newest[name] for name in sorted(newest) if not prefix or _begins(name, prefix)]

    def forget(self, linked: RunnerConnection) -> bool:
        store, connection = self._store, linked.connection
        with store.lock:
            found = store.links.get(connection)
            if found is None or found.generation != linked.generation:
                return False
            if found.lease_until_ms > linked.lease_until_ms:
                return False
            del store.links[connection]
            store.boxes.pop(("runner", connection.runner_id, connection.consumer_id), None)
            if not self.connections(connection.runner_id):
                store.published.pop(connection.runner_id, None)
                store.known_tools[connection.runner_id] = ()
            return True

    def delete(self, runner_id: str) -> bool:
        with self._store.lock:
            if self._store.known_tools.pop(runner_id, None) is None:
                return False
            self._store.seen.pop(("runner", runner_id), None)
            for linked in self.connections(runner_id):
                del self._store.links[linked.connection]
            self._store.published.pop(runner_id, None)
            return True

    def _set_tools(self, runner_id: str, tools: Sequence[str]) -> None:
        self._store.known_tools[runner_id] = tuple(dict.fromkeys(tools))
        for linked in self.connections(runner_id):
            self._store.links[linked.connection] = replace(linked, tools=tuple(dict.fromkeys(tools)))

    def _replace(self, linked: RunnerConnection, until_ms: int, *, is_open: bool) -> bool:
        with self._store.lock:
            found = self._store.links.get(linked.connection)
            if found is None or found.generation != linked.generation or not found.is_open:
                return False
            self._store.links[linked.connection] = replace(
                found, lease_until_ms=until_ms, is_open=is_open, **_undoubted(found)
            )
            return True


class FakeConnections(Connections):
    """What lists show of connections, in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def agents(self, after: str, limit: int, hosted: Collection[str]) -> Owners:
        return self._owners("agent", after, limit, hosted)

    def runners(self, after: str, limit: int) -> Owners:
        return self._owners("runner", after, limit, ())

    def has_agent(self, agent_id: str) -> bool:
        return self._is_late(self._store.seen.get(("agent", agent_id), 0))

    def has_runner(self, runner_id: str) -> bool:
        return self._is_late(self._store.seen.get(("runner", runner_id), 0))

    def board(self, agent_id: str, most: int) -> Board:
        board = self._store.agents.board(agent_id)
        consumers = sorted(board.consumers, key=lambda one: keys.key_part(one.consumer_id))[:most]
        return Board(tuple(consumers), board.pause)

    def waiting(self, agent_id: str, most: int) -> int:
        with self._store.lock:
            executions = [kept.execution for kept in self._store.kept.values()]
        return min(most, sum(one.agent_id == agent_id and one.is_waiting for one in executions))

    def sessions(self, agent_id: str, consumer_id: str, most: int) -> list[str]:
        return self._store.agents.sessions(agent_id, consumer_id)[:most]

    def links(self, runner_id: str, most: int) -> list[RunnerConnection]:
        found = self._store.runners.connections(runner_id)
        return sorted(found, key=lambda one: keys.key_part(one.connection.consumer_id))[:most]

    def steps(self, execution_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
        assert len(execution_ids) <= 100
        with self._store.lock:
            found = {name: self._store.kept[name].execution for name in execution_ids if name in self._store.kept}
        return {name: tuple(execution.steps.values()) for name, execution in found.items()}

    def _owners(self, kind: str, after: str, limit: int, more: Collection[str]) -> Owners:
        if after and not keys.OWNER_KEY.fullmatch(after):
            raise Invalid("the cursor is not one that this door has given")
        with self._store.lock:
            listed = [one for (of, one), at in self._store.seen.items() if of == kind and self._is_late(at)]
        names = {keys.key_part(name): name for name in (*listed, *more) if keys.key_part(name) > after}
        page = tuple(Owner(names[key], key) for key in sorted(names)[:limit])
        return Owners(page, page[-1].key if len(names) > limit else "")

    def _is_late(self, at_ms: int) -> bool:
        return (at_ms + 30 * DAY_MS) // 1000 > self._store.clock() / 1000


class FakeOutbox(Outbox):
    """Messages in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def messages(self, kind: str, owner: str, consumer_id: str, limit: int) -> list[Message]:
        with self._store.lock:
            box = self._store.boxes.get((kind, owner, consumer_id), {})
            return [box[key] for key in sorted(box)][:limit]

    def take(self, kind: str, owner: str, consumer_id: str, key: str, generation: int) -> bool:
        with self._store.lock:
            box = self._store.boxes.get((kind, owner, consumer_id), {})
            if key not in box or box[key].taken_by not in (0, generation):
                return False
            box[key] = replace(box[key], taken_by=generation)
            return True

    def remove(self, kind: str, owner: str, consumer_id: str, keys: Sequence[str]) -> None:
        with self._store.lock:
            for key in keys:
                self._store.boxes.get((kind, owner, consumer_id), {}).pop(key, None)


class FakeCounters(Counters):
    """Numbers in memory."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def add(self, counts: Mapping[str, float]) -> None:
        with self._store.lock:
            for name, amount in counts.items():
                self._store.counts[name] = self._store.counts.get(name, 0) + amount

    def all(self) -> Mapping[str, float]:
        with self._store.lock:
            return dict(self._store.counts)


def answer_bytes(events: Sequence[Event]) -> int:
    """How long the events are in an answer, without what stands around and between them."""
    bodies = [event_body(event) for event in events]
    try:
        return sum(len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()) for body in bodies)
    except UnicodeEncodeError:
        return sum(len(json.dumps(body, separators=(",", ":"))) for body in bodies)


def addressed(change: Change) -> list[tuple[Place, str, Push | JobPush]]:
    """A change's messages: to whom, their keys, and what they say."""
    messages: list[tuple[Place, Push | JobPush]] = [
        (("agent", push.agent_id, push.consumer_id), push) for push in change.pushes
    ]
    if change.job_push:
        messages.append((("runner", change.job_push.to.runner_id, change.job_push.to.consumer_id), change.job_push))
    return [(place, change.message_key(number), push) for number, (place, push) in enumerate(messages)]


def row_of(execution: Execution) -> Summary:
    """An execution as lists show it."""
    created, updated = execution.created_at_ms, execution.updated_at_ms
    return Summary(execution.id, execution.status, execution.agent_id, execution.labels, created, updated)


def approval_of(execution: Execution) -> Approval | None:
    """What an execution asks a person, if it does."""
    if execution.blocked is None or execution.blocked.reason != "approval":
        return None
    step = execution.steps.get(execution.blocked.ref)
    return (
        None
        if step is None
        else Approval(execution.id, execution.agent_id, step.id, step.tool_id, execution.updated_at_ms)
    )


def _check_rows(rows: Sequence[Any]) -> None:
    """As DynamoDB does: a transaction writes each row once, and up to 100 of them."""
    if len(set(rows)) < len(rows) or len(rows) > 100:
        raise PieceworkError("the kernel table refuses this request for good")


def _since(replaced: Consumer | RunnerConnection | None, now_ms: int) -> int:
    return replaced.since_ms if replaced and replaced.lease_until_ms > now_ms else now_ms


def _is_same_lease(found: Consumer | RunnerConnection | None, asked: Consumer | RunnerConnection) -> bool:
    if found is None or found.generation != asked.generation:
        return False
    return found.is_open and found.lease_until_ms == asked.lease_until_ms


def _undoubted(connection: Consumer | RunnerConnection) -> dict[str, Any]:
    """A doubt counts for the lease that it was noted for."""
    return {"doubted_until_ms": 0} if getattr(connection, "doubted_until_ms", 0) else {}


def _fits(execution: Execution, which: Filter) -> bool:
    if which.status not in (None, execution.status) or which.agent_id not in ("", execution.agent_id):
        return False
    if not (which.created_after_ms or 0) <= execution.created_at_ms:
        return False
    if which.created_before_ms is not None and execution.created_at_ms >= which.created_before_ms:
        return False
    return which.labels.items() <= execution.labels.items()


def _begins(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith((f"{prefix}.", f"{prefix}_"))
