"""The composition root of the worker door: builds what each of its functions needs from the process environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import PieceworkError
from piecework.reasons import Warn, silent
from piecework.settings import RuntimeSettings, needed
from piecework.worker.public_url import PublicUrl
from piecework.worker.rates import Rates
from piecework.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.durable.due import Due, DueTimes, Looks
    from piecework.extend.manifest import Bundle
    from piecework.worker.assembly import Ports, Worker
    from piecework.worker.chain.networks import Network
    from piecework.worker.chain.rpc import Chain
    from piecework.worker.contract.contracts import ContractRecord
    from piecework.worker.contract.registration import Registration
    from piecework.worker.payment.facilitator import Facilitator
    from piecework.worker.record.execution import Execution
    from piecework.worker.task.views import Views


@dataclass(frozen=True, slots=True)
class ContractsWiring:
    """What `/contracts` needs."""

    registration: Registration
    rates: Rates
    origin: str
    telemetry: LambdaTelemetry
    public_url: PublicUrl


@dataclass(frozen=True, slots=True)
class HireWiring:
    """What `/execute`, `/tasks` and the queue's tasks need."""

    worker: Worker
    rates: Rates
    origin: str
    clock: Callable[[], int]
    telemetry: LambdaTelemetry
    public_url: PublicUrl


@dataclass(frozen=True, slots=True)
class DueWiring:
    """What the due function needs: due times, and where a look at each kind is asked for."""

    times: DueTimes
    fire: Mapping[str, Callable[[Due], None]]
    clock: Callable[[], int]
    telemetry: LambdaTelemetry
    looks: Mapping[str, Looks]  # the same for what a sweep meets, ten in one request


def contracts_wiring() -> ContractsWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.clients import Clients
    from piecework.clock import now_in_ms
    from piecework.worker.contract.choosing import Offer
    from piecework.worker.contract.contracts import WorkerIdentity
    from piecework.worker.contract.registration import Registration
    from piecework.worker.store.contracts_table import ContractsTable
    from piecework.worker.store.executions_table import ExecutionsTable

    settings = WorkerSettings.from_env(os.environ)
    contracts_table, work_table = needed(os.environ, "PIECEWORK_CONTRACTS_TABLE", "PIECEWORK_WORK_TABLE")
    dynamodb = Clients(os.environ.get("AWS_ENDPOINT_URL")).dynamodb
    executions = ExecutionsTable(dynamodb, work_table, due_table="")  # only read here, which needs no due times
    public_url = PublicUrl.of(settings.public_base_url, os.environ)
    registration = Registration(
        ContractsTable(dynamodb, contracts_table),
        WorkerIdentity.of(settings),
        Offer.of(worker_bundle()),
        public_url,
        now_in_ms,
        executions.read,
    )
    return ContractsWiring(registration, Rates(), settings.cors_origin, LambdaTelemetry(os.environ), public_url)


def worker_bundle() -> Bundle:
    """What this door can run. Raises SettingsError when its default executor is not among that."""
    from piecework.extend.manifest import Bundle, load

    settings = RuntimeSettings.from_env(os.environ)
    return Bundle(load(settings.executors_path), settings.default_executor, door="worker")


def hire_wiring() -> HireWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.clock import now_in_ms
    from piecework.worker.assembly import Rules, assemble

    settings, telemetry = WorkerSettings.from_env(os.environ), LambdaTelemetry(os.environ)
    public_url = PublicUrl.of(settings.public_base_url, os.environ)
    rules = Rules(public_url, settings.x402_v1, settings.bind_payer, settings.result_days)
    rates = Rates()
    worker = assemble(
        _ports(settings, telemetry, public_url, rates),
        rules,
        inline_bytes=settings.inline_output_bytes,
        body_bytes=settings.max_body_bytes,
    )
    return HireWiring(worker, rates, settings.cors_origin, now_in_ms, telemetry, public_url)


def due_wiring() -> DueWiring:
    """Raises SettingsError when a setting is missing."""
    from piecework.aws.clients import Clients
    from piecework.aws.due_table import DueTable
    from piecework.aws.queues import Queue
    from piecework.clock import now_in_ms
    from piecework.worker.record.execution import RELEASED_DUE, TASK_DUE, WEBHOOK_DUE
    from piecework.worker.task.driving import due_message

    table, tasks_url = needed(os.environ, "PIECEWORK_DUE_TABLE", "PIECEWORK_TASK_QUEUE_URL")
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    tasks = Queue(lambda: clients.sqs, tasks_url)

    def look(due: Due) -> None:
        tasks.send(due_message(due))

    def look_all(portion: Sequence[Due]) -> int:
        try:
            return tasks.send_all([due_message(due) for due in portion])
        except PieceworkError:
            return len(portion)

    times, kinds = DueTable(clients.dynamodb, table), (TASK_DUE, WEBHOOK_DUE, RELEASED_DUE)
    telemetry = LambdaTelemetry(os.environ)
    return DueWiring(times, dict.fromkeys(kinds, look), now_in_ms, telemetry, dict.fromkeys(kinds, look_all))


def _ports(settings: WorkerSettings, telemetry: LambdaTelemetry, public_url: PublicUrl, rates: Rates) -> Ports:
    from piecework.aws.bucket import OverflowBucket
    from piecework.aws.clients import Clients
    from piecework.aws.due_table import DueTable
    from piecework.aws.queues import Queue
    from piecework.aws.steps_table import work_steps
    from piecework.clock import now_in_ms
    from piecework.worker.assembly import Ports
    from piecework.worker.edges_wiring import recording, stream_url
    from piecework.worker.payment.counts import SettlementCounts
    from piecework.worker.store.contracts_table import ContractsTable
    from piecework.worker.store.deliverables_bucket import DeliverablesBucket
    from piecework.worker.store.executions_table import ExecutionsTable
    from piecework.worker.task.driving import due_message, task_message

    contracts, work, due, bucket = needed(
        os.environ, "PIECEWORK_CONTRACTS_TABLE", "PIECEWORK_WORK_TABLE", "PIECEWORK_DUE_TABLE", "PIECEWORK_BUCKET"
    )
    tasks_url, due_url = needed(os.environ, "PIECEWORK_TASK_QUEUE_URL", "PIECEWORK_DUE_QUEUE_URL")
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    tasks, nudges = Queue(lambda: clients.sqs, tasks_url), Queue(lambda: clients.sqs, due_url)
    return Ports(
        contracts=ContractsTable(clients.dynamodb, contracts),
        executions=ExecutionsTable(clients.dynamodb, work, due),
        due_times=DueTable(clients.dynamodb, due),
        files=DeliverablesBucket(
            lambda: clients.s3,
            bucket,
            key=os.environ.get("PIECEWORK_DELIVERABLES_KEY_ARN", ""),
            link_seconds=settings.url_ttl_seconds,
            credentials_end_ms=clients.credentials_end_ms,
            keep_days=settings.result_days,
        ),
        texts=OverflowBucket(lambda: clients.s3, bucket, keep_days=settings.result_days),
        steps=work_steps(clients.dynamodb, work),
        facilitator=_facilitator(settings, telemetry.warning),
        chain_of=chain_of(settings, telemetry.warning),
        enqueue=lambda execution: tasks.send(task_message(execution)),
        nudge=lambda due, delay_ms: nudges.send(due_message(due), delay_ms),
        announce=_announce(clients, work),
        bundle=worker_bundle(),
        log=telemetry,
        counts=SettlementCounts(telemetry.count),
        telling=recording(clients, work, settings.stream_unpaid_output),
        stream_url=stream_url(public_url, now_in_ms),
        count=rates.known,
    )


def _facilitator(settings: WorkerSettings, warn: Warn) -> Facilitator:
    from piecework.worker.payment.facilitator import HttpFacilitator

    (url,) = needed(os.environ, "FACILITATOR_URL")
    if not settings.facilitator_auth:
        return HttpFacilitator(url, warn=warn)
    from piecework.aws.secrets import secret_text
    from piecework.worker.payment.cdp import cdp_authenticator

    return HttpFacilitator(url, cdp_authenticator(lambda: secret_text(settings.facilitator_auth)), warn=warn)


def chain_of(settings: WorkerSettings, warn: Warn = silent) -> Callable[[Network], Chain | None]:
    """The node that may be asked about a chain: the one configured, for the network that is served in production."""
    from piecework.worker.chain.networks import BASE
    from piecework.worker.chain.rpc import RpcChain

    arn = settings.base_rpc_url_secret_arn
    url = settings.base_rpc_url or (_secret(arn) if arn else None)
    chain = RpcChain(url, chain_id=BASE.chain_id, warn=warn) if url else None
    return lambda network: chain if network == BASE else None


def _secret(arn: str) -> Callable[[], str]:
    def text() -> str:
        from piecework.aws.secrets import secret_text

        return secret_text(arn)

    return text


def _announce(clients: Clients, work_table: str) -> Callable[[Execution, ContractRecord, Views], None]:
    """Tells the seeker's webhook of an end; what that needs is imported with the first contract that has one."""

    def announce(execution: Execution, contract: ContractRecord, views: Views) -> None:
        from piecework.worker.edges_wiring import announcer
        from piecework.worker.webhook.webhooks import delivery_of

        delivery = delivery_of(
            contract,
            views.recorded(execution, contract).body,
            generation=execution.generation,
            occurred_at_ms=execution.outcome.finished_at_ms,
            poll_url=views.bodies.poll_url(execution),
        )
        announcer(clients, work_table).announce(delivery)

    return announce
