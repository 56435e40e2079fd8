"""The composition root of the kernel door: one kernel over its tables, for each of the door's functions.

kernel_parts()                                   # HTTP, hosted agents
kernel_parts(heard=hall.ring_for)                # streams: changes of this process are heard at once
due_wiring()                                     # due times
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from piecework.errors import PieceworkError
from piecework.kernel.hosted_wiring import HOSTED_QUEUE_URL
from piecework.kernel.model.dues import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE, SWEEP
from piecework.settings import Reader

HALF_A_MINUTE_MS: Final = 30_000

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.durable.due import Due, DueTimes, Looks, Nudge
    from piecework.jsons import Json
    from piecework.kernel.model.changes import Change
    from piecework.kernel.model.ports import Agents, Counters, Executions, Outbox, Runners
    from piecework.kernel.rules import Rules
    from piecework.kernel.service.commits import Assigner
    from piecework.kernel.service.dispatching import Queues
    from piecework.kernel.service.effects import Effect
    from piecework.kernel.service.service import Kernel
    from piecework.kernel.store.bells import KernelBells
    from piecework.kernel.streams.bells import BellRows
    from piecework.kernel.streams.liveness import Liveness


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the door keeps things."""

    kernel: str
    due: str
    bucket: str
    due_queue_url: str  # for early looks at near due times; empty: only sweeps
    hosted_queue_url: str  # for wake-ups of hosted agents; empty: of a function that assigns none

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Tables:
        """Raises SettingsError when one is missing."""
        reader = Reader(env)
        tables = cls(
            kernel=reader.needed("PIECEWORK_KERNEL_TABLE"),
            due=reader.needed("PIECEWORK_DUE_TABLE"),
            bucket=reader.needed("PIECEWORK_BUCKET"),
            due_queue_url=reader.text("PIECEWORK_KERNEL_DUE_QUEUE_URL", ""),
            hosted_queue_url=reader.text(HOSTED_QUEUE_URL, ""),
        )
        reader.finish()
        return tables


@dataclass(frozen=True, slots=True)
class Stores:
    """The door's ports, over one table."""

    executions: Executions
    agents: Agents
    runners: Runners
    outbox: Outbox
    counters: Counters
    due_times: DueTimes
    bells: KernelBells


@dataclass(frozen=True, slots=True)
class KernelParts:
    """A kernel, and what stands around it."""

    kernel: Kernel
    executions: Executions  # every commit rings the bells
    agents: Agents
    runners: Runners
    outbox: Outbox
    counters: Counters
    due_times: DueTimes
    bells: KernelBells
    assigner: Assigner
    dispatcher: Queues
    liveness: Liveness
    rules: Rules
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class KernelDueWiring:
    """What the due function needs: due times, and who looks at each kind."""

    times: DueTimes
    fire: Mapping[str, Callable[[Due], bool]]  # whether that brought anything
    sweep_again: Callable[[], None]  # half a minute later
    clock: Callable[[], int]
    telemetry: LambdaTelemetry
    forward: Looks | None = None  # sends what a sweep meets on as messages; None without a queue


def kernel_parts(heard: Callable[[Change], None] | None = None) -> KernelParts:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.clients import Clients
    from piecework.clock import now_in_ms
    from piecework.kernel.hosted.wakes import Hosting
    from piecework.kernel.hosted_wiring import hosted_names
    from piecework.kernel.policy.sources import PolicySettings, policy_from
    from piecework.kernel.rules import Rules
    from piecework.kernel.service.assigning import RoundRobin
    from piecework.kernel.service.dispatching import Queues
    from piecework.kernel.service.service import Kernel, Ports
    from piecework.kernel.store.policy_bucket import PolicyBucket
    from piecework.kernel.store.rate_table import RateTable
    from piecework.kernel.streams.feeds import Stores as Streamed
    from piecework.kernel.streams.liveness import Liveness

    rules, tables = Rules.from_env(os.environ), Tables.from_env(os.environ)
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    stores = kernel_stores(clients, tables, rules, now_in_ms)
    executions = stores.executions
    wake = _waking(clients, tables.hosted_queue_url)
    effects = (counting(stores.counters), ringing(stores.bells), *filter(None, (heard, wake)))  # then the kernel's own
    policy = policy_from(PolicySettings.from_env(os.environ), PolicyBucket(lambda: clients.s3))
    windows = RateTable(clients.dynamodb, tables.kernel)
    kernel = Kernel(Ports(executions, stores.agents, stores.runners, policy, windows), rules, effects=effects)
    connected, dispatcher = RoundRobin(stores.agents, now_in_ms, kernel), Queues(stores.runners, now_in_ms, kernel)
    can_wake = bool(tables.hosted_queue_url)
    assigner = Hosting(connected, hosted_names(os.environ), stores.agents, kernel, can_wake=can_wake)
    kernel.connect(assigner, dispatcher)
    streamed = Streamed(executions, stores.agents, stores.runners)
    nudge = _nudge(clients, tables.due_queue_url)
    return KernelParts(
        kernel=kernel,
        executions=executions,
        agents=stores.agents,
        runners=stores.runners,
        outbox=stores.outbox,
        counters=stores.counters,
        due_times=stores.due_times,
        bells=stores.bells,
        assigner=assigner,
        dispatcher=dispatcher,
        liveness=Liveness(streamed, kernel, dispatcher, stores.due_times, now_in_ms, nudge),
        rules=rules,
        clock=now_in_ms,
    )


def due_wiring() -> KernelDueWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.durable.due import Due

    parts = kernel_parts()
    fire = dict.fromkeys((EXECUTION_DUE, AGENT_DUE, RUNNER_DUE), parts.liveness.fire)

    def sweep_again() -> None:
        parts.liveness.nudge(Due(parts.clock() + HALF_A_MINUTE_MS, SWEEP, ""), HALF_A_MINUTE_MS)

    forward = _forward(os.environ.get("PIECEWORK_KERNEL_DUE_QUEUE_URL", ""))
    return KernelDueWiring(parts.due_times, fire, sweep_again, parts.clock, LambdaTelemetry(), forward)


def kernel_stores(clients: Clients, tables: Tables, rules: Rules, clock: Callable[[], int]) -> Stores:
    """The adapters of the door's ports."""
    from piecework.aws.due_table import DueTable
    from piecework.aws.table import THE_KERNEL, Table
    from piecework.kernel.store.agents import KernelAgents
    from piecework.kernel.store.bells import KernelBells
    from piecework.kernel.store.counters import KernelCounters
    from piecework.kernel.store.outbox import KernelOutbox
    from piecework.kernel.store.runners import KernelRunners
    from piecework.kernel.store.table import KernelTable
    from piecework.kernel.store.values import KernelValues

    rows, due_times = Table(clients.dynamodb, tables.kernel, THE_KERNEL), DueTable(clients.dynamodb, tables.due)
    values, counters = KernelValues(lambda: clients.s3, tables.bucket), KernelCounters(rows)
    return Stores(
        executions=KernelTable(rows, tables.due, values, rules),
        agents=KernelAgents(rows, due_times, clock),
        runners=KernelRunners(rows, values, due_times, clock),
        outbox=KernelOutbox(rows),
        counters=counters,
        due_times=due_times,
        bells=KernelBells(clients.dynamodb, tables.kernel),
    )


def due_message(due: Due) -> dict[str, Json]:
    """A due time on its way to who looks at it."""
    return {"kind": due.kind, "id": due.id, "due_ms": due.at_ms}


def _forward(queue_url: str) -> Looks | None:
    from piecework.aws.clients import Clients
    from piecework.aws.queues import Queue

    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    queue = Queue(lambda: clients.sqs, queue_url)

    def forward(portion: Sequence[Due]) -> int:
        try:
            return queue.send_all([due_message(due) for due in portion])
        except PieceworkError:
            return len(portion)

    return forward if queue_url else None


def counting(counters: Counters) -> Effect:
    """Adds up what a change adds to the numbers of /metrics."""
    from piecework.kernel.model.metrics import counts_of

    def count(change: Change) -> None:
        counters.add(counts_of(change))

    return count


def ringing(bells: BellRows) -> Effect:
    """Rings for the streams of other processes."""
    from piecework.kernel.streams.bells import ring

    def ring_rows(change: Change) -> None:
        ring(bells, change)

    return ring_rows


def _waking(clients: Clients, queue_url: str) -> Effect | None:
    from piecework.kernel.hosted.wakes import wakes
    from piecework.kernel.hosted_wiring import waking_by

    send = waking_by(clients, queue_url)

    def wake(change: Change) -> None:
        if wakes(change):
            send(change.after.id, 0)

    return wake if queue_url else None


def _nudge(clients: Clients, queue_url: str) -> Nudge:
    from piecework.aws.queues import Queue

    queue = Queue(lambda: clients.sqs, queue_url)

    def nudge(due: Due, delay_ms: int) -> None:
        if queue_url:
            with suppress(PieceworkError):  # a sweep looks as well
                queue.send(due_message(due), delay_ms)

    return nudge
