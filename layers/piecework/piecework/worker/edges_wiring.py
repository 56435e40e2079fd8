"""The composition root of the worker door's edges: webhooks and streams."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import SettingsError, Unavailable
from piecework.jsons import Json
from piecework.settings import needed
from piecework.worker.public_url import PublicUrl
from piecework.worker.rates import Rates
from piecework.worker.settings import WorkerSettings
from piecework.worker.stream.streams import Recording, StreamTokens
from piecework.worker.webhook.webhooks import Announcer, Try

OPEN_SECONDS = 900  # Lambda ends every run by then
HELD_SECONDS = 60  # of a piecewise answer, which waits 20 s at most

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.worker.record.execution import Execution
    from piecework.worker.stream.readers import Readers
    from piecework.worker.stream.streams import Streams
    from piecework.worker.webhook.webhooks import Sender


@dataclass(frozen=True, slots=True)
class WebhookWiring:
    """What the webhook function needs."""

    sender: Sender
    telemetry: LambdaTelemetry


@dataclass(frozen=True, slots=True)
class StreamsWiring:
    """What the streams function needs; tokens are looked up as they are now, since keys may be rotated."""

    streams: Streams
    tokens: Callable[[], StreamTokens]
    stays_open: bool
    rates: Rates
    readers: Readers
    origin: str
    clock: Callable[[], int]
    telemetry: LambdaTelemetry
    public_url: PublicUrl = field(default_factory=lambda: PublicUrl(""))


def webhook_wiring() -> WebhookWiring:
    """Raises SettingsError when a setting is missing."""
    from piecework.aws.clients import Clients
    from piecework.clock import now_in_ms
    from piecework.worker.store.deliveries_table import DeliveriesTable
    from piecework.worker.webhook.webhooks import SafePost, Sender

    (table,) = needed(os.environ, "PIECEWORK_WORK_TABLE")
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    telemetry = LambdaTelemetry(os.environ)
    deliveries = DeliveriesTable(clients.dynamodb, table)
    sender = Sender(deliveries, SafePost(), _asking(clients), now_in_ms, warn=telemetry.warning)
    return WebhookWiring(sender, telemetry)


def streams_wiring() -> StreamsWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.bucket import OverflowBucket
    from piecework.aws.clients import Clients
    from piecework.clock import now_in_ms
    from piecework.worker.answer.bodies import Bodies
    from piecework.worker.store.contracts_table import ContractsTable
    from piecework.worker.store.deliverables_bucket import DeliverablesBucket
    from piecework.worker.store.executions_table import ExecutionsTable
    from piecework.worker.store.reader_table import ReaderTable
    from piecework.worker.store.stream_table import StreamTable
    from piecework.worker.stream.readers import Readers
    from piecework.worker.stream.streams import HiredTasks, Streams

    settings = WorkerSettings.from_env(os.environ)
    contracts, work, bucket = needed(
        os.environ, "PIECEWORK_CONTRACTS_TABLE", "PIECEWORK_WORK_TABLE", "PIECEWORK_BUCKET"
    )
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    public_url = PublicUrl.of(settings.public_base_url, os.environ)
    tasks = HiredTasks(
        ContractsTable(clients.dynamodb, contracts),
        ExecutionsTable(clients.dynamodb, work, due_table=""),  # only read here, which needs no due times
        Bodies(
            public_url,
            DeliverablesBucket(
                lambda: clients.s3,
                bucket,
                link_seconds=settings.url_ttl_seconds,
                credentials_end_ms=clients.credentials_end_ms,
            ),
            now_in_ms,
        ),
        OverflowBucket(lambda: clients.s3, bucket),
    )
    streams = Streams(StreamTable(clients.dynamodb, work), tasks, now_in_ms)
    stays_open = settings.sse_mode == "streaming"
    readers = Readers(ReaderTable(clients.dynamodb, work), now_in_ms, OPEN_SECONDS if stays_open else HELD_SECONDS)
    telemetry = LambdaTelemetry(os.environ)
    return StreamsWiring(
        streams, stream_tokens, stays_open, Rates(), readers, settings.cors_origin, now_in_ms, telemetry, public_url
    )


def manifest_body() -> dict[str, Json]:
    """What /manifest tells; the door's address stays empty where requests tell it.

    Raises:
        SettingsError: a setting is missing or has no meaning.
    """
    from piecework.worker.manifest import manifest_of
    from piecework.worker.wiring import worker_bundle

    bundle = worker_bundle()
    return manifest_of(WorkerSettings.from_env(os.environ), bundle.entries, bundle.default)


def announcer(clients: Clients, work_table: str) -> Announcer:
    """Hands deliveries over to the webhook function."""
    from piecework.worker.store.deliveries_table import DeliveriesTable

    return Announcer(DeliveriesTable(clients.dynamodb, work_table), _asking(clients))


def recording(clients: Clients, work_table: str, unpaid_output: bool) -> Recording:
    """What the flow tells a task's stream."""
    from piecework.worker.store.stream_table import StreamTable

    return Recording(StreamTable(clients.dynamodb, work_table), unpaid_output)


def stream_url(public_url: PublicUrl, clock: Callable[[], int]) -> Callable[[Execution], str | None]:
    """The flow's `stream_url`; a worker without a key offers no streams."""
    has_key = any(os.environ.get(name) for name in ("PIECEWORK_STREAM_KEY", "PIECEWORK_STREAM_KEY_ARN"))

    def url(execution: Execution) -> str | None:
        if not has_key:
            return None
        try:
            tokens = stream_tokens()
        except Unavailable:  # an answer that a payment depends on must not fail for want of its stream
            return None
        return tokens.url(public_url, execution.contract_id, execution.task_id, clock())

    return url


def stream_tokens() -> StreamTokens:
    """Tokens under the key from the secret on Lambda, from the environment on a local machine.

    Raises:
        SettingsError: there is no key.
        Unavailable: the secret is out of reach.
    """
    local, arn = os.environ.get("PIECEWORK_STREAM_KEY", ""), os.environ.get("PIECEWORK_STREAM_KEY_ARN", "")
    if not local and arn:
        from piecework.aws.secrets import secret_text

        local = secret_text(arn)
    if not local:
        raise SettingsError("set PIECEWORK_STREAM_KEY_ARN")
    return StreamTokens(local.encode())


def _asking(clients: Clients) -> Callable[[Try, int], None]:
    from piecework.aws.queues import Queue
    from piecework.worker.webhook.webhooks import message_of

    (url,) = needed(os.environ, "PIECEWORK_WEBHOOK_QUEUE_URL")
    queue = Queue(lambda: clients.sqs, url)

    def ask(wanted: Try, seconds: int) -> None:
        queue.send(message_of(wanted), seconds * 1000)

    return ask
