"""In-memory ports of the worker door; each fake passes the same contract tests as its AWS adapter."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from piecework.worker.contract.contracts import KEPT_MS, ContractConflict, ContractRecord, Contracts


@dataclass
class FakeContracts(Contracts):
    """Contracts in a dictionary, each method atomic."""

    clock: Callable[[], int]
    items: dict[str, ContractRecord] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, record: ContractRecord) -> Literal["new", "same"]:
        with self.lock:
            standing = self.get(record.contract_id)
            if standing is None:
                self.items[record.contract_id] = record
                return "new"
            if standing.hash != record.hash:
                raise ContractConflict
            return "same"

    def get(self, contract_id: str) -> ContractRecord | None:
        found = self.items.get(contract_id)
        expired = found is not None and (found.deadline_ms + KEPT_MS) // 1000 * 1000 <= self.clock()
        return None if expired else found
