"""What the worker door reaches outside itself: tables, buckets, queues, secrets, a facilitator, a chain's node."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import PieceworkError, SettingsError
from piecework.reasons import Warn, silent
from piecework.settings import RuntimeSettings, needed
from piecework.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from piecework.aws.bucket import OverflowBucket
    from piecework.aws.clients import Clients
    from piecework.aws.due_table import DueTable
    from piecework.aws.queues import Queue
    from piecework.aws.steps_table import StepsTable
    from piecework.durable.due import Due
    from piecework.durable.pauses import Admission
    from piecework.extend.manifest import Bundle
    from piecework.webhooks.deliveries import Try
    from piecework.webhooks.store import DeliveriesTable
    from piecework.worker.chain.networks import Network
    from piecework.worker.chain.rpc import Chain
    from piecework.worker.payment.counts import SettlementCounts
    from piecework.worker.payment.facilitator import Facilitator
    from piecework.worker.record.execution import Execution
    from piecework.worker.store.contracts_table import ContractsTable
    from piecework.worker.store.deliverables_bucket import DeliverablesBucket
    from piecework.worker.store.executions_table import ExecutionsTable
    from piecework.worker.store.reader_table import ReaderTable
    from piecework.worker.store.stream_table import StreamTable
    from piecework.worker.stream.streams import StreamTokens


class Backends:
    """What a door is built upon, each opened when it is first used; a setting that is missing raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env

    @cached_property
    def settings(self) -> WorkerSettings:
        return WorkerSettings.from_env(self._env)

    @cached_property
    def telemetry(self) -> LambdaTelemetry:
        return LambdaTelemetry(self._env)

    @cached_property
    def counts(self) -> SettlementCounts:
        from piecework.worker.payment.counts import SettlementCounts

        return SettlementCounts(self.telemetry.count)

    @cached_property
    def clock(self) -> Callable[[], int]:
        from piecework.clock import now_in_ms

        return now_in_ms

    @cached_property
    def bundle(self) -> Bundle:
        """What this door can run."""
        from piecework.extend.manifest import Bundle, load

        settings = RuntimeSettings.from_env(self._env)
        return Bundle(load(settings.executors_path), settings.default_executor, door="worker")

    @cached_property
    def contracts(self) -> ContractsTable:
        from piecework.worker.store.contracts_table import ContractsTable

        (table,) = needed(self._env, "PIECEWORK_CONTRACTS_TABLE")
        return ContractsTable(self._clients.dynamodb, table)

    @cached_property
    def executions(self) -> ExecutionsTable:
        """The records; a function that only reads them has no table of due times."""
        from piecework.worker.store.executions_table import ExecutionsTable

        due_table = self._env.get("PIECEWORK_DUE_TABLE", "")
        return ExecutionsTable(self._clients.dynamodb, self._work_table, due_table)

    @cached_property
    def due_times(self) -> DueTable:
        from piecework.aws.due_table import DueTable

        (table,) = needed(self._env, "PIECEWORK_DUE_TABLE")
        return DueTable(self._clients.dynamodb, table)

    @cached_property
    def files(self) -> DeliverablesBucket:
        from piecework.worker.store.deliverables_bucket import DeliverablesBucket

        (bucket,) = needed(self._env, "PIECEWORK_BUCKET")
        return DeliverablesBucket(
            lambda: self._clients.s3,
            bucket,
            key=self._env.get("PIECEWORK_DELIVERABLES_KEY_ARN", ""),
            link_seconds=self.settings.url_ttl_seconds,
            credentials_end_ms=self._clients.credentials_end_ms,
            keep_days=self.settings.result_days,
        )

    @cached_property
    def texts(self) -> OverflowBucket:
        from piecework.aws.bucket import OverflowBucket

        (bucket,) = needed(self._env, "PIECEWORK_BUCKET")
        return OverflowBucket(lambda: self._clients.s3, bucket, keep_days=self.settings.result_days)

    @cached_property
    def steps(self) -> StepsTable:
        from piecework.aws.steps_table import work_steps

        return work_steps(self._clients.dynamodb, self._work_table)

    @cached_property
    def deliveries(self) -> DeliveriesTable:
        from piecework.webhooks.store import work_deliveries

        return work_deliveries(self._clients.dynamodb, self._work_table)

    @cached_property
    def stream_log(self) -> StreamTable:
        from piecework.worker.store.stream_table import StreamTable

        return StreamTable(self._clients.dynamodb, self._work_table)

    @cached_property
    def seats(self) -> ReaderTable:
        from piecework.worker.store.reader_table import ReaderTable

        return ReaderTable(self._clients.dynamodb, self._work_table)

    @cached_property
    def facilitator(self) -> Facilitator:
        from piecework.worker.payment.facilitator import HttpFacilitator

        (url,) = needed(self._env, "FACILITATOR_URL")
        auth, warn = self.settings.facilitator_auth, self.telemetry.warning
        if not auth:
            return HttpFacilitator(url, warn=warn)
        from piecework.worker.payment.cdp import cdp_authenticator

        return HttpFacilitator(url, cdp_authenticator(_secret(auth)), warn=warn)

    @cached_property
    def chain_of(self) -> Callable[[Network], Chain | None]:
        return chain_of(self.settings, self.telemetry.warning)

    @cached_property
    def tasks(self) -> Queue:
        """The queue of the task function."""
        return self._queue("PIECEWORK_TASK_QUEUE_URL")

    @cached_property
    def due_messages(self) -> Queue:
        """The queue of the due function."""
        return self._queue("PIECEWORK_DUE_QUEUE_URL")

    @cached_property
    def webhooks(self) -> Queue:
        """The queue of the webhook function."""
        return self._queue("PIECEWORK_WEBHOOK_QUEUE_URL")

    def admit(self, executor: str) -> None:
        """Return if new work may begin for an executor (empty: for work without one). Raises Paused."""
        if self._admission:
            self._admission.check("worker", executor)

    @cached_property
    def _admission(self) -> Admission | None:
        from piecework.aws.rows.pauses import PausesRow
        from piecework.durable.pauses import Admission

        table = self._env.get("PIECEWORK_TABLE", "")
        row = PausesRow(self._clients.dynamodb, table) if table else None
        return Admission(row, self.clock, self.telemetry.warning) if row else None

    def enqueue(self, execution: Execution) -> None:
        """Put a task into the queue. Raises PieceworkError."""
        from piecework.worker.task.resume import task_message

        self.tasks.send(task_message(execution))

    def nudge(self, due: Due, delay_ms: int) -> None:
        """Have a due time looked at after this delay. Raises PieceworkError."""
        from piecework.worker.task.resume import due_message

        self.due_messages.send(due_message(due), delay_ms)

    def forward(self, due: Due) -> None:
        """Have a due time looked at by the task function. Raises PieceworkError."""
        from piecework.worker.task.resume import due_message

        self.tasks.send(due_message(due))

    def forward_all(self, portion: Sequence[Due]) -> int:
        """As `forward` for several; how many could not be sent."""
        from piecework.worker.task.resume import due_message

        try:
            return self.tasks.send_all([due_message(due) for due in portion])
        except PieceworkError:
            return len(portion)

    def ask_webhook(self, wanted: Try, seconds: int) -> None:
        """Have a webhook tried after this delay. Raises PieceworkError."""
        from piecework.webhooks.deliveries import asking_on
        from piecework.worker.webhook.webhooks import OWNER

        asking_on(self.webhooks, OWNER)(wanted, seconds)

    def stream_tokens(self) -> StreamTokens:
        """Tokens under the key as it is now: from the secret on Lambda, from the environment on a local machine.

        Raises:
            SettingsError: the key is missing.
            Unavailable: the secret is out of reach.
        """
        from piecework.worker.stream.streams import StreamTokens

        local, arn = self._env.get("PIECEWORK_STREAM_KEY", ""), self._env.get("PIECEWORK_STREAM_KEY_ARN", "")
        key = local or (_secret(arn)() if arn else "")
        if not key:
            raise SettingsError("set PIECEWORK_STREAM_KEY_ARN")
        return StreamTokens(key.encode())

    @property
    def _work_table(self) -> str:
        (table,) = needed(self._env, "PIECEWORK_WORK_TABLE")
        return table

    @cached_property
    def _clients(self) -> Clients:
        from piecework.aws.chosen import clients_of

        return clients_of(self._env)

    def _queue(self, setting: str) -> Queue:
        from piecework.aws.queues import Queue

        (url,) = needed(self._env, setting)
        return Queue(lambda: self._clients.sqs, url)


def chain_of(settings: WorkerSettings, warn: Warn = silent) -> Callable[[Network], Chain | None]:
    """The node that may be asked about a chain: the one configured, for the network that is served in production."""
    return node_of(settings.base_rpc_url, settings.base_rpc_url_secret_arn, warn)


def node_of(base_rpc_url: str, secret_arn: str, warn: Warn = silent) -> Callable[[Network], Chain | None]:
    """The same by the node's URL, or by the secret that holds it; None without either."""
    from piecework.worker.chain.networks import BASE
    from piecework.worker.chain.rpc import RpcChain

    url = base_rpc_url or (_secret(secret_arn) if secret_arn else None)
    chain = RpcChain(url, chain_id=BASE.chain_id, warn=warn) if url else None
    return lambda network: chain if network == BASE else None


def _secret(arn: str) -> Callable[[], str]:
    def text() -> str:
        from piecework.aws.secrets import secret_text

        return secret_text(arn)

    return text
