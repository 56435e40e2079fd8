"""What the lists of who is connected ask of their store; each call is a bounded number of requests."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from piecework.kernel.model.ports.agents import Board
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Step
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """An agent or a runner that has had a connection lately."""

    id: str
    key: str  # its place in the list


@dataclass(frozen=True, slots=True)
class Owners:
    """A page of them, and the key after which the next one begins; empty at the end."""

    page: tuple[Owner, ...]
    then: str


class Connections(Protocol):
    """What lists show of connections; each call is a bounded number of requests, whatever is stored."""

    def agents(self, after: str, limit: int, hosted: Collection[str]) -> Owners:
        """Agents that have connected in the last 30 days, and hosted ones, by key, strictly after that one.

        A page may hold fewer than the limit, and even none, before the end.

        Raises:
            Invalid: no agent can have that key.
        """

    def runners(self, after: str, limit: int) -> Owners:
        """The same of runners; one that was deleted is not among them."""

    def has_agent(self, agent_id: str) -> bool:
        """Whether an agent of this id has connected in the last 30 days; one request."""

    def has_runner(self, runner_id: str) -> bool:
        """The same of a runner."""

    def board(self, agent_id: str, most: int) -> Board:
        """The first of an agent's consumers, lapsed ones too, and its last pause."""

    def waiting(self, agent_id: str, most: int) -> int:
        """How many executions wait for a consumer of the agent, counted up to that number."""

    def sessions(self, agent_id: str, consumer_id: str, most: int) -> list[str]:
        """The first of the executions that hold a session of this consumer."""

    def links(self, runner_id: str, most: int) -> list[RunnerConnection]:
        """Some of a runner's connections: that many, or fewer where they offer many tools."""

    def steps(self, execution_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
        """The active steps of up to 100 executions; those that are gone are left out."""
