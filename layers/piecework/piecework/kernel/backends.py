"""What the kernel door reaches outside itself: tables, a bucket, queues, secrets; and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from piecework.aws.chosen import clients_of
from piecework.aws.clients import Clients
from piecework.aws.due_table import DueTable
from piecework.aws.queues import Queue
from piecework.aws.table import THE_KERNEL, Table
from piecework.aws.telemetry import LambdaTelemetry
from piecework.edge.roles import RoleTable, parse_roles
from piecework.edge.tokens import Tokens, Warned, parse_tokens
from piecework.errors import PieceworkError, SettingsError
from piecework.kernel.model.due_times import message_of
from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.ports.executions import Executions, Outbox
from piecework.kernel.model.ports.runners import Runners
from piecework.kernel.model.ports.stores import Counters
from piecework.kernel.service.commits import Environment
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store.agents import KernelAgents
from piecework.kernel.store.counters import KernelCounters
from piecework.kernel.store.hints import KernelHints
from piecework.kernel.store.outbox import KernelOutbox
from piecework.kernel.store.rate_table import RateTable
from piecework.kernel.store.runners import KernelRunners
from piecework.kernel.store.table import KernelTable
from piecework.kernel.store.values import KernelValues
from piecework.kernel.streams.hints import Hints
from piecework.settings import needed

if TYPE_CHECKING:
    from piecework.durable.due import Due, DueTimes, Looks
    from piecework.durable.pauses import Admission
    from piecework.kernel.connected.ports import Connections
    from piecework.kernel.policy.windows import RateWindows
    from piecework.webhooks.deliveries import Delivery

HOSTED_QUEUE_URL: Final = "PIECEWORK_KERNEL_HOSTED_QUEUE_URL"
NO_ROLES: Final = "no name of a token has roles, so every caller may do everything, and agents may approve their calls"


class Places(NamedTuple):
    """Where the door keeps things."""

    table: str
    due_table: str
    bucket: str


class Backends:
    """What the door is built upon, each opened when it is first used; a missing setting raises SettingsError."""

    _env: Mapping[str, str]
    clock: Callable[[], int]

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
    def _announce(self) -> Callable[[Delivery], None] | None:
        """Hands a notice over to the sender of webhooks; None without one."""
        queue = self._queue("PIECEWORK_KERNEL_WEBHOOKS_QUEUE_URL")
        if queue is None:
            return None
        from piecework.kernel.model.notices import OWNER
        from piecework.webhooks.deliveries import Announcer, asking_on
        from piecework.webhooks.store import kernel_deliveries

        kept = kernel_deliveries(self.clients.dynamodb, self.places.table)
        return Announcer(kept, asking_on(queue, OWNER)).announce

    @cached_property
    def _wake_queue(self) -> Queue | None:
        return self._queue(HOSTED_QUEUE_URL)

    def _queue(self, setting: str) -> Queue | None:
        url = self._env.get(setting, "").strip()
        return Queue(lambda: self.clients.sqs, url) if url else None

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
