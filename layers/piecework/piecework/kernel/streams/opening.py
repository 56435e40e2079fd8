"""Opening the three kinds of stream (specification section 3)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from piecework.kernel.model.ports.executions import Outbox
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.model.state import Connection
from piecework.kernel.service.assigning import RoundRobin
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.service import Kernel
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.feeds import AgentFeed, RunnerFeed
from piecework.kernel.streams.keeping import Keeper
from piecework.kernel.streams.liveness import Liveness
from piecework.kernel.streams.monitor import Monitor
from piecework.kernel.streams.push_streams import PushStream, Step
from piecework.values import dataclass


class Stream(Protocol):
    """An open stream, as the writer of its answer drives it; heartbeats are the writer's own."""

    @property
    def heartbeat_ms(self) -> int: ...

    def step(self) -> Step: ...

    def sent(self) -> None: ...

    def closed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Streams:
    """Opens streams over the stores."""

    stores: Stores
    outbox: Outbox
    kernel: Kernel
    assigner: RoundRobin
    dispatcher: Queues
    liveness: Liveness
    settings: KernelSettings
    clock: Callable[[], int]

    def agent(self, agent_id: str, consumer_id: str, by: str = "") -> PushStream:
        """Connect a consumer by the token of that name; an older connection of it is replaced, its sessions adopted."""
        consumer, _ = self.stores.agents.connect(agent_id, consumer_id, self.clock() + self.settings.lease_ms, by)
        feed = AgentFeed(consumer, self.stores, self.kernel, self.assigner, self.liveness.expect_agent)
        return PushStream(feed, self.outbox, self.settings, self.clock, feed.fetch)

    def runner(self, runner_id: str, consumer_id: str, tools: Sequence[str]) -> PushStream:
        """Connect a runner. It counts as idle, but for one that comes back after we ended its stream on purpose."""
        connection, until_ms = Connection(runner_id, consumer_id), self.clock() + self.settings.lease_ms
        linked, _ = self.stores.runners.connect(connection, tools, until_ms)
        if linked.job_id and not self.settings.rotation_ms:
            self.stores.runners.free(connection, linked.job_id)
        feed = RunnerFeed(linked, self.stores, self.kernel, self.dispatcher, self.liveness.expect_runner)
        return PushStream(feed, self.outbox, self.settings, self.clock)

    def monitor(self, execution_id: str, after: int, looked: Callable[[], None] | None = None) -> Monitor:
        """Follow an execution's log; an approver gives `looked`, which notes private arguments. Raises NotFound."""
        return Monitor(execution_id, after, self.stores.executions, self.settings, self.clock, looked)

    def keeper(self) -> Keeper:
        """Who renews the leases of the agent and runner streams that are open."""
        return Keeper(self.stores.agents, self.stores.runners, self.settings, self.clock)

    def check_agent(self, agent_id: str, consumer_id: str) -> None:
        """Look at a consumer whose grace is over, without waiting for its due time to be swept."""
        self.liveness.check_agent(agent_id, consumer_id)

    def check_runner(self, runner_id: str, consumer_id: str) -> None:
        """The same for a runner's connection."""
        self.liveness.check_runner(runner_id, consumer_id)
