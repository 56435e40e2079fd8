"""The base of the worker door's fixtures: the worker's settings, a stub facilitator, and stored contracts.

The contracts in events/worker/contracts/kept/ end in 2099, which registration would refuse, so they are written into
the table as if they had been registered. Wallets are those of the development keys 0x11…11 (seeker) and 0x22…22
(worker).
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from local.aws import client
from local.facilitator.server import StubFacilitator
from local.run import WORKER
from local.template import Template
from piecework.worker.contract.contracts import record_of
from piecework.worker.store.contracts_table import ContractsTable

KEPT: Final = "worker/contracts/kept"
STREAM_KEY: Final = "a key that only fixtures use"
ATTEMPTS: Final = 3
STORED_AT_MS: Final = 1_767_600_000_000


@contextlib.contextmanager
def worker(template: Template, events: Path, endpoint: str) -> Iterator[Mapping[str, str]]:
    """Store the contracts and start the facilitator; yields the variables that the worker's functions need."""
    table = ContractsTable(client("dynamodb", endpoint), template.physical_name("ContractsTable"))
    for path in sorted((events / KEPT).glob("*.json")):
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        table.put(record_of(document, None, attempts=ATTEMPTS, source="import", stored_at_ms=STORED_AT_MS))
    with StubFacilitator() as stub:
        yield {
            **WORKER,
            "PIECEWORK_STREAM_KEY": STREAM_KEY,
            "FACILITATOR_URL": stub.url,
            "BASE_RPC_URL": stub.rpc_url,
        }
