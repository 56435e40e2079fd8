"""The composition root of the worker door: builds what each of its functions needs from the process environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piecework.aws.telemetry import LambdaTelemetry
from piecework.hire.rates import Rates
from piecework.hire.settings import WorkerSettings
from piecework.settings import Reader

if TYPE_CHECKING:
    from piecework.hire.registration import Registration


@dataclass(frozen=True, slots=True)
class ContractsWiring:
    """What `/contracts` needs."""

    registration: Registration
    rates: Rates
    telemetry: LambdaTelemetry


def contracts_wiring() -> ContractsWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.clients import Clients
    from piecework.aws.contracts_table import ContractsTable
    from piecework.aws.executions_table import ExecutionsTable
    from piecework.hire.contracts import WorkerIdentity
    from piecework.hire.registration import Registration
    from piecework.pieces import now_in_ms

    settings = WorkerSettings.from_env(os.environ)
    contracts_table, work_table = needed("PIECEWORK_CONTRACTS_TABLE", "PIECEWORK_WORK_TABLE")
    dynamodb = Clients(os.environ.get("AWS_ENDPOINT_URL")).dynamodb
    executions = ExecutionsTable(dynamodb, work_table, due_table="")  # only read here, which needs no due times
    registration = Registration(
        ContractsTable(dynamodb, contracts_table),
        WorkerIdentity.of(settings),
        settings.public_base_url,
        now_in_ms,
        executions.read,
    )
    return ContractsWiring(registration, Rates(), LambdaTelemetry())


def needed(*names: str) -> list[str]:
    """The values of settings that must be there. Raises SettingsError."""
    reader = Reader(os.environ)
    values = [reader.needed(name) for name in names]
    reader.finish()
    return values
