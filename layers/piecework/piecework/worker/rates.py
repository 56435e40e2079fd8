"""How often one contract and one address may ask: token buckets in the memory of one environment.

A bucket lives in one warm environment, so over several of them a caller gets that many times the rate; it keeps one
caller from occupying an environment, and the stage's throttling bounds all of them together.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic
from typing import Final

from piecework.edge.http import Request
from piecework.jsons import Json
from piecework.values import dataclass, field
from piecework.worker.errors import WorkerError
from piecework.worker.ids import CONTRACT_ID

MAX_BUCKETS: Final = 10_000  # remembered callers; the ones that were quiet longest are forgotten first


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second, and so many at once."""

    per_second: float
    burst: float


PER_CONTRACT: Final = Rate(50, 100)
PER_ADDRESS: Final = Rate(100, 200)


@dataclass
class Rates:
    """The buckets of one environment."""

    per_contract: Rate = PER_CONTRACT
    per_address: Rate = PER_ADDRESS
    clock: Callable[[], float] = monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # what is left, since when
    _lock: Lock = field(default_factory=Lock)

    def check(self, request: Request) -> None:
        """Count a request for its address. Its contract counts when it was found, by `known`: strangers guess ids.

        Raises:
            WorkerError: RATE_LIMITED with Retry-After; the address asked too often.
        """
        self.count(source_of(request.context), "")

    def known(self, contract_id: str) -> None:
        """Count a request about a contract that is here. Raises RATE_LIMITED as `check`."""
        self.count("", contract_id)

    def count(self, address: str, contract: str) -> None:
        """Count what an address asks about a contract; either may be unknown, and so empty.

        Raises:
            WorkerError: as `check`.
        """
        waits = [self._take(f"address {address}", self.per_address)] if address else []
        if CONTRACT_ID.fullmatch(contract):
            waits.append(self._take(f"contract {contract}", self.per_contract))
        if wait := max(waits, default=0.0):
            seconds = str(math.ceil(wait))
            raise WorkerError("RATE_LIMITED", "too many requests; slow down", headers={"Retry-After": seconds})

    def _take(self, key: str, rate: Rate) -> float:
        """Take one token; 0, or the seconds until there is one."""
        now = self.clock()
        with self._lock:
            left, since = self._buckets.pop(key, (rate.burst, now))
            left = min(rate.burst, left + (now - since) * rate.per_second)
            allowed = left >= 1
            self._buckets[key] = (left - 1 if allowed else left, now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate.per_second


def source_of(context: Mapping[str, Json]) -> str:
    """The address that a request came from, as the edge says."""
    return str((context.get("identity") or {}).get("sourceIp") or "")
