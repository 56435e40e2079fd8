"""The composition root of hosted agents: who they are, how they are woken, and the function that runs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from piecework.settings import Reader

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.kernel.hosted.runs import Hosted

HOSTED_QUEUE_URL: Final = "PIECEWORK_KERNEL_HOSTED_QUEUE_URL"
EXECUTORS_PATH: Final = "PIECEWORK_EXECUTORS_PATH"

WakeLater = Callable[[str, int], None]  # an execution's id, and a delay in milliseconds


@dataclass(frozen=True, slots=True)
class KernelHostedWiring:
    """What the hosted function needs."""

    hosted: Hosted
    clock: Callable[[], int]
    telemetry: LambdaTelemetry


def kernel_hosted_wiring() -> KernelHostedWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.clients import Clients
    from piecework.aws.steps_table import hosted_steps
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.extend.manifest import Bundle, load
    from piecework.kernel.hosted.runs import Hosted, HostedPorts
    from piecework.kernel.store.hosted import HostedLeases
    from piecework.kernel.wiring import kernel_parts
    from piecework.settings import RuntimeSettings

    reader = Reader(os.environ)
    table, queue_url = reader.needed("PIECEWORK_KERNEL_TABLE"), reader.needed(HOSTED_QUEUE_URL)
    reader.finish()
    settings, telemetry = RuntimeSettings.from_env(os.environ), LambdaTelemetry()
    clients, parts = Clients(os.environ.get("AWS_ENDPOINT_URL")), kernel_parts()
    ports = HostedPorts(
        executions=parts.executions,
        kernel=parts.kernel,
        leases=HostedLeases(clients.dynamodb, table),
        steps=hosted_steps(clients.dynamodb, table),
        executor_of=Bundle(load(settings.executors_path), door="kernel").named,
        wake=waking_by(clients, queue_url),
        log=telemetry,
    )
    return KernelHostedWiring(Hosted(ports, parts.rules, parts.clock), parts.clock, telemetry)


def hosted_names(env: Mapping[str, str]) -> frozenset[str]:
    """The agent ids that registered executors serve, those that cannot be loaded now too; none is imported to tell."""
    from piecework.extend.manifest import Bundle, load

    bundle = Bundle(load(env.get(EXECUTORS_PATH, "")), door="kernel")
    return frozenset((*bundle.names, *bundle.broken_names))


def waking_by(clients: Clients, queue_url: str) -> WakeLater:
    """Sends wake-ups."""
    from piecework.aws.queues import Queue

    queue = Queue(lambda: clients.sqs, queue_url)
    return lambda execution_id, delay_ms: queue.send({"execution_id": execution_id}, delay_ms)
