"""The composition root: the kernel door's parts, made from the process environment when they are first used.

A function touches what it uses, so it imports and opens nothing else: who fires due times never loads a policy. Tests
put stores of their own in the place of the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from piecework.aws.chosen import clients_of
from piecework.aws.clients import Clients
from piecework.aws.due_table import DueTable
from piecework.aws.queues import Queue, Topic
from piecework.aws.table import THE_KERNEL, Table
from piecework.aws.telemetry import LambdaTelemetry
from piecework.clock import now_in_ms
from piecework.edge.roles import RoleTable, parse_roles
from piecework.edge.tokens import Tokens, Warned, parse_tokens
from piecework.errors import PieceworkError, SettingsError
from piecework.extend.manifest import Bundle, load
from piecework.kernel.hosted.wakes import Hosting, wakes
from piecework.kernel.model.due_times import message_of
from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.ports.executions import Executions, Outbox
from piecework.kernel.model.ports.runners import Runners
from piecework.kernel.model.ports.stores import Counters, Stores
from piecework.kernel.service.assigning import RoundRobin, assign
from piecework.kernel.service.commits import Commits, Environment
from piecework.kernel.service.dispatching import Queues, dispatch
from piecework.kernel.service.service import Kernel
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store.agents import KernelAgents
from piecework.kernel.store.counters import KernelCounters
from piecework.kernel.store.hints import KernelHints
from piecework.kernel.store.outbox import KernelOutbox
from piecework.kernel.store.rate_table import RateTable
from piecework.kernel.store.runners import KernelRunners
from piecework.kernel.store.table import KernelTable
from piecework.kernel.store.values import KernelValues
from piecework.kernel.streams.hints import Hints, send_hints
from piecework.settings import Parts, needed

if TYPE_CHECKING:
    from piecework.durable.due import Due, DueTimes, Looks
    from piecework.durable.pauses import Admission
    from piecework.kernel.connected.lists import Connected
    from piecework.kernel.connected.ports import Connections
    from piecework.kernel.hosted.runs import Hosted
    from piecework.kernel.model.changes import Change
    from piecework.kernel.policy.rules import Policy
    from piecework.kernel.policy.verdicts import Call, Verdict
    from piecework.kernel.policy.windows import RateWindows
    from piecework.kernel.service.effects import Effect
    from piecework.kernel.service.notices import Notices
    from piecework.kernel.streams.liveness import Liveness
    from piecework.kernel.streams.opening import Streams
    from piecework.webhooks.deliveries import Delivery, Try

HOSTED_QUEUE_URL: Final = "PIECEWORK_KERNEL_HOSTED_QUEUE_URL"
NO_ROLES: Final = "no name of a token has roles, so every caller may do everything, and agents may approve their calls"


class Places(NamedTuple):
    """Where the door keeps things."""

    table: str
    due_table: str
    bucket: str


class KernelDoor(Parts):
    """The kernel door; a part that lacks a setting, or finds one without meaning, raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ, hears: Sequence[Effect] = ()) -> None:
        """`hears` are told of every change of this process, as its own streams are."""
        self._env, self._hears, self.clock = env, hears, now_in_ms

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What follows each commit, in this order; see service/effects.py."""
        return (self._send_hints, *self._hears, self._wake, self._dispatch, self._offer)

    @cached_property
    def kernel(self) -> Kernel:
        """The door's operations."""
        giving = (self.commits, self.assigner, self.dispatcher)
        return Kernel(self.stores, *giving, self._judge, self.windows, self._admit)

    @cached_property
    def streams(self) -> Streams:
        """Opens the streams of agents, runners and readers of a log."""
        from piecework.kernel.streams.opening import Streams

        giving = (self.kernel, self.assigner, self.dispatcher, self.liveness)
        return Streams(self.stores, self.outbox, *giving, self.settings, self.clock)

    @cached_property
    def liveness(self) -> Liveness:
        """Looks at what a due time is about."""
        from piecework.kernel.streams.liveness import Liveness

        return Liveness(self.stores, self.kernel, self.dispatcher, self.due_times, self.clock, self.nudge)

    @cached_property
    def hosted(self) -> Hosted:
        """Runs hosted agents."""
        from piecework.aws.steps_table import hosted_steps
        from piecework.kernel.hosted.runs import Hosted
        from piecework.kernel.store.hosted import HostedLeases

        if not self.can_wake:
            raise SettingsError(f"set {HOSTED_QUEUE_URL}")
        return Hosted(
            executions=self.executions,
            kernel=self.kernel,
            leases=HostedLeases(self.clients.dynamodb, self.places.table),
            steps=hosted_steps(self.clients.dynamodb, self.places.table),
            executor_of=self._bundle.named,
            wake=self.wake,
            log=self.telemetry,
            settings=self.settings,
            clock=self.clock,
            longest_wait_ms=self._longest_wait_ms,
        )

    @cached_property
    def notices(self) -> Notices:
        """Publishes notices about approvals."""
        from piecework.kernel.service.notices import Notices

        topic = self._env.get("PIECEWORK_KERNEL_TOPIC_ARN", "").strip()
        publish = Topic(lambda: self.clients.sns, topic).publish if topic else None
        return Notices(self.executions, publish, self._announce if self._webhooks_queue else None)

    @cached_property
    def commits(self) -> Commits:
        """Carries commands out, and lets the effects follow."""
        return Commits(self.executions, self.settings, self.environment, self.effects)

    @cached_property
    def assigner(self) -> RoundRobin:
        """Brings executions and their agents together, hosted ones too."""
        give = partial(assign, self.commits)
        return Hosting(self.agents, self.clock, give, self.hosted_names, can_wake=self.can_wake)

    @cached_property
    def dispatcher(self) -> Queues:
        """Brings jobs and runners together."""
        return Queues(self.runners, self.clock, partial(dispatch, self.commits))

    @cached_property
    def policy(self) -> Policy:
        """What every tool call is asked about; nothing but intents loads it."""
        from piecework.kernel.policy.sources import PolicySettings, policy_from
        from piecework.kernel.store.policy_bucket import PolicyBucket

        return policy_from(PolicySettings.from_env(self._env), PolicyBucket(lambda: self.clients.s3))

    @cached_property
    def stores(self) -> Stores:
        """What commands and streams read and write."""
        return Stores(self.executions, self.agents, self.runners)

    @cached_property
    def executions(self) -> Executions:
        return KernelTable(self._table, self.places.due_table, self._values, self.settings)

    @cached_property
    def agents(self) -> Agents:
        return KernelAgents(self._table, self.due_times, self.clock)

    @cached_property
    def runners(self) -> Runners:
        return KernelRunners(self._table, self._values, self.due_times, self.clock)

    @cached_property
    def connections(self) -> Connections:
        from piecework.kernel.store.listing.connected import KernelConnections

        return KernelConnections(self._table, self.clock)

    @cached_property
    def connected(self) -> Connected:
        """Lists who is connected."""
        from piecework.kernel.connected.lists import Connected

        return Connected(self.connections, self.clock, self.hosted_names)

    @cached_property
    def outbox(self) -> Outbox:
        return KernelOutbox(self._table)

    @cached_property
    def counters(self) -> Counters:
        return KernelCounters(self._table)

    @cached_property
    def due_times(self) -> DueTimes:
        return DueTable(self.clients.dynamodb, self.places.due_table)

    @cached_property
    def hints(self) -> Hints:
        return KernelHints(self.clients.dynamodb, self.places.table)

    @cached_property
    def windows(self) -> RateWindows:
        return RateTable(self.clients.dynamodb, self.places.table)

    @cached_property
    def settings(self) -> KernelSettings:
        return KernelSettings.from_env(self._env)

    @cached_property
    def places(self) -> Places:
        return Places(*needed(self._env, "PIECEWORK_KERNEL_TABLE", "PIECEWORK_DUE_TABLE", "PIECEWORK_BUCKET"))

    @cached_property
    def clients(self) -> Clients:
        return clients_of(self._env)

    @cached_property
    def environment(self) -> Environment:
        return Environment(self.clock)

    @cached_property
    def telemetry(self) -> LambdaTelemetry:
        return LambdaTelemetry(None if self.starts_ahead else self._env)

    @cached_property
    def starts_ahead(self) -> bool:
        """Whether nobody waits for this start: a snapshot keeps it, or concurrency is provisioned."""
        return self._env.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand") != "on-demand"

    @cached_property
    def hosted_names(self) -> frozenset[str]:
        """The agent ids that registered executors serve; a broken executor keeps its name. No module is imported."""
        return frozenset((*self._bundle.names, *self._bundle.broken_names))

    @cached_property
    def can_wake(self) -> bool:
        """Whether this function may send wake-ups; one that may not assigns no hosted agents."""
        return self._wake_queue is not None

    def wake(self, execution_id: str, delay_ms: int) -> None:
        """Have a hosted execution looked at after a delay in milliseconds."""
        if self._wake_queue:
            self._wake_queue.send({"execution_id": execution_id}, delay_ms)

    def nudge(self, due: Due, delay_ms: int) -> None:
        """Have a due time looked at early, if there is a queue; a sweep looks as well."""
        if self._due_queue:
            with suppress(PieceworkError):
                self._due_queue.send(message_of(due), delay_ms)

    @cached_property
    def forward(self) -> Looks | None:
        """Sends what a sweep meets on as messages; None without a queue."""
        queue = self._due_queue

        def forward(portion: Sequence[Due]) -> int:
            try:
                return queue.send_all([message_of(due) for due in portion]) if queue else 0
            except PieceworkError:
                return len(portion)

        return forward if queue else None

    def hand_over(self, portion: Sequence[Due]) -> int:
        """Hand notices on to their queue, then remove them; how many stay. Without a queue nobody wants them."""
        queue = self._notices_queue
        try:
            if queue and queue.send_all([message_of(due) for due in portion]):
                return len(portion)  # which of them the queue took is not told: one may be told twice
            for due in portion:
                self.due_times.remove(due)
        except PieceworkError:
            return len(portion)
        return 0

    def tokens(self) -> Tokens:
        """Tokens from the environment on a local machine, from the secret on Lambda; without any, the door is open.

        Raises:
            SettingsError: they are not a list of name=secret; a secret without an entry opens nothing.
            Unavailable: the secret is out of reach.
        """
        local = self._env.get("PIECEWORK_KERNEL_TOKENS", "")
        arn = self._env.get("PIECEWORK_KERNEL_TOKENS_SECRET_ARN", "")
        if not local and arn:
            from piecework.aws.secrets import secret_text

            local = secret_text(arn)
            if not parse_tokens(local):
                raise SettingsError("the tokens secret holds no name=secret entry")
        return self._warned.of(parse_tokens(local))

    @cached_property
    def _warned(self) -> Warned:
        return Warned(lambda: self.telemetry.warning)

    @cached_property
    def roles(self) -> RoleTable:
        """What the bearer of each token may do. The log says it once if roles are not given: then agents may approve.

        Raises:
            SettingsError: they are not a list of name=role+role.
        """
        table = parse_roles(self._env.get("PIECEWORK_KERNEL_TOKEN_ROLES", ""))
        if not table.is_limited:
            self.telemetry.outcome("approval_is_no_boundary", {"why": NO_ROLES}, {})
        return table

    @cached_property
    def origins(self) -> tuple[str, ...]:
        """The origins whose pages may call; without any, CORS is off."""
        return tuple(filter(None, (origin.strip() for origin in self._env.get("REBUNO_CORS_ORIGINS", "").split(","))))

    @cached_property
    def _due_queue(self) -> Queue | None:
        return self._queue("PIECEWORK_KERNEL_DUE_QUEUE_URL")

    @cached_property
    def _notices_queue(self) -> Queue | None:
        return self._queue("PIECEWORK_KERNEL_NOTICES_QUEUE_URL")

    @cached_property
    def _webhooks_queue(self) -> Queue | None:
        return self._queue("PIECEWORK_KERNEL_WEBHOOKS_QUEUE_URL")

    def _announce(self, delivery: Delivery) -> None:
        from piecework.kernel.model.notices import OWNER
        from piecework.webhooks.deliveries import Announcer, message_of
        from piecework.webhooks.store import kernel_deliveries

        def ask(wanted: Try, seconds: int) -> None:
            if self._webhooks_queue:
                self._webhooks_queue.send(message_of(wanted, OWNER), seconds * 1000)

        Announcer(kernel_deliveries(self.clients.dynamodb, self.places.table), ask).announce(delivery)

    @cached_property
    def _wake_queue(self) -> Queue | None:
        return self._queue(HOSTED_QUEUE_URL)

    def _queue(self, setting: str) -> Queue | None:
        url = self._env.get(setting, "").strip()
        return Queue(lambda: self.clients.sqs, url) if url else None

    @cached_property
    def _bundle(self) -> Bundle:
        return Bundle(load(self._env.get("PIECEWORK_EXECUTORS_PATH", "")), door="kernel")

    @cached_property
    def _table(self) -> Table:
        return Table(self.clients.dynamodb, self.places.table, THE_KERNEL)

    @cached_property
    def _values(self) -> KernelValues:
        return KernelValues(lambda: self.clients.s3, self.places.bucket)

    @cached_property
    def _admission(self) -> Admission | None:
        """Tells what is paused; functions that create no executions do not know where that stands."""
        from piecework.aws.rows.pauses import PausesRow
        from piecework.durable.pauses import Admission

        table = self._env.get("PIECEWORK_TABLE", "")
        row = PausesRow(self.clients.dynamodb, table) if table else None
        return Admission(row, self.clock, self.telemetry.warning) if row else None

    def _admit(self, executor: str) -> None:
        if self._admission:
            self._admission.check("kernel", executor)

    def _judge(self, call: Call) -> Verdict:
        return self.policy.decide(call)

    def _longest_wait_ms(self, agent_id: str) -> int:
        from piecework.kernel.policy.rules import longest_wait_ms

        return longest_wait_ms(self.policy, agent_id)

    def _send_hints(self, change: Change) -> None:
        send_hints(self.hints, change)

    def _wake(self, change: Change) -> None:
        if self.can_wake and wakes(change):
            self.wake(change.after.id, 0)

    def _dispatch(self, change: Change) -> None:
        self.dispatcher.follow(change)

    def _offer(self, change: Change) -> bool:
        return self.assigner.follow(change)
