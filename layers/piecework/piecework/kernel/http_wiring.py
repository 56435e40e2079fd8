"""The composition root of the kernel door's requests."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piecework.kernel.streams_wiring import Tokens, cors_origins, kernel_tokens

if TYPE_CHECKING:
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.kernel.model.ports import Counters, Runners
    from piecework.kernel.service.dispatching import Queues
    from piecework.kernel.service.service import Kernel


@dataclass(frozen=True, slots=True)
class KernelHttpWiring:
    """What the kernel function needs."""

    kernel: Kernel
    runners: Runners
    counters: Counters
    dispatcher: Queues
    ready: Callable[[], object]
    tokens: Callable[[], Tokens]
    origins: tuple[str, ...]
    telemetry: LambdaTelemetry


def http_wiring() -> KernelHttpWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.telemetry import LambdaTelemetry
    from piecework.kernel.wiring import kernel_parts

    parts = kernel_parts()
    return KernelHttpWiring(
        kernel=parts.kernel,
        runners=parts.runners,
        counters=parts.counters,
        dispatcher=parts.dispatcher,
        ready=lambda: parts.executions.read("ready"),
        tokens=kernel_tokens,
        origins=cors_origins(os.environ),
        telemetry=LambdaTelemetry(),
    )
