"""All stores together, and the counters."""

from collections.abc import Mapping
from typing import Protocol

from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.ports.executions import Executions
from piecework.kernel.model.ports.runners import Runners
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Stores:
    """What commands and streams read and write."""

    executions: Executions
    agents: Agents
    runners: Runners


class Counters(Protocol):
    """The numbers behind /metrics, summed over all copies (section 7); `Executions.commit` adds to them."""

    def all(self) -> Mapping[str, float]: ...
