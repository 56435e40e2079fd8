"""Who is connected: agents with their consumers and their work, runners with their jobs and tools.

A page costs at most 16 requests for the names, two for each agent or one for each runner on it, and one for each
consumer whose work is shown; all jobs of a page are looked up together. So it costs no more however much is stored.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

from piecework.kernel.connected.ports import Connections, Owner, Owners
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.ports.agents import Board, Consumer
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Pause, Step
from piecework.kernel.wire.cursors import key_cursor, text_of
from piecework.values import dataclass

T = TypeVar("T")

SHOWN: Final = 100  # connections of one agent or runner; a page ends before it would pass them in sum
WORK_SHOWN: Final = 10  # executions of a consumer
WAITING_COUNTED: Final = 100


@dataclass(frozen=True, slots=True)
class Some:
    """The first of many, and whether there are more."""

    shown: tuple[str, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class ConsumerShown:
    """An agent's consumer, and the executions that it works on."""

    consumer: Consumer
    is_connected: bool
    work: Some


@dataclass(frozen=True, slots=True)
class AgentShown:
    """An agent with its consumers; `hosted` is what its registered executor works on."""

    id: str
    consumers: tuple[ConsumerShown, ...]
    more_consumers: bool
    waiting: int  # executions, at most `WAITING_COUNTED`
    more_waiting: bool
    hosted: Some | None
    pause: Pause | None  # the last one


@dataclass(frozen=True, slots=True)
class LinkShown:
    """A runner's connection; `step` is that of its job, None when it has none or the execution has moved on."""

    linked: RunnerConnection
    is_connected: bool
    step: Step | None


@dataclass(frozen=True, slots=True)
class RunnerShown:
    """A runner with its connections."""

    id: str
    links: tuple[LinkShown, ...]
    more_links: bool


class Connected:
    """Lists agents and runners by their ids."""

    def __init__(self, connections: Connections, clock: Callable[[], int], hosted: Collection[str]) -> None:
        self._connections, self._clock, self._hosted = connections, clock, hosted

    def has_agent(self, agent_id: str) -> bool:
        """Whether an agent of this id is listed."""
        return agent_id in self._hosted or self._connections.has_agent(agent_id)

    def has_runner(self, runner_id: str) -> bool:
        """Whether a runner of this id is listed."""
        return self._connections.has_runner(runner_id)

    def agents(self, cursor: str, limit: int, only: str = "") -> tuple[list[AgentShown], str]:
        """A page of agents, and the cursor of the next one; empty when there is none. `only` names the one wanted.

        Raises:
            Invalid: this door did not give the cursor out.
        """
        if only:
            owners = _alone(only, is_listed=self.has_agent(only))
        else:
            owners = self._connections.agents(text_of(cursor), limit, self._hosted)
        page, then = _filled(owners, lambda id_: self._connections.board(id_, SHOWN + 1), _size)
        return [self._agent(owner.id, board) for owner, board in page], key_cursor(then)

    def runners(self, cursor: str, limit: int, only: str = "") -> tuple[list[RunnerShown], str]:
        """A page of runners, and the cursor of the next one; empty when there is none. `only` names the one wanted.

        Raises:
            Invalid: this door did not give the cursor out.
        """
        if only:
            owners = _alone(only, is_listed=self.has_runner(only))
        else:
            owners = self._connections.runners(text_of(cursor), limit)
        page, then = _filled(owners, lambda id_: self._connections.links(id_, SHOWN + 1), len)
        executions = {linked.execution_id for _, links in page for linked in links[:SHOWN] if linked.job_id}
        steps = self._connections.steps(sorted(executions)) if executions else {}
        active = [step for of_one in steps.values() for step in of_one]
        return [self._runner(owner.id, links, active) for owner, links in page], key_cursor(then)

    def _agent(self, agent_id: str, board: Board) -> AgentShown:
        waiting = self._connections.waiting(agent_id, WAITING_COUNTED + 1)
        return AgentShown(
            agent_id,
            tuple(self._consumer(consumer) for consumer in board.consumers[:SHOWN]),
            len(board.consumers) > SHOWN,
            min(waiting, WAITING_COUNTED),
            waiting > WAITING_COUNTED,
            self._work(agent_id, HOSTED) if agent_id in self._hosted else None,
            board.pause,
        )

    def _consumer(self, consumer: Consumer) -> ConsumerShown:
        return ConsumerShown(
            consumer, self._is_connected(consumer), self._work(consumer.agent_id, consumer.consumer_id)
        )

    def _work(self, agent_id: str, consumer_id: str) -> Some:
        held = self._connections.sessions(agent_id, consumer_id, WORK_SHOWN + 1)
        return Some(tuple(held[:WORK_SHOWN]), len(held) > WORK_SHOWN)

    def _runner(self, runner_id: str, links: Sequence[RunnerConnection], active: Sequence[Step]) -> RunnerShown:
        shown = (LinkShown(linked, self._is_connected(linked), _step_of(linked, active)) for linked in links[:SHOWN])
        return RunnerShown(runner_id, tuple(shown), len(links) > SHOWN)

    def _is_connected(self, connection: Consumer | RunnerConnection) -> bool:
        return connection.is_open and connection.lease_until_ms > self._clock()


def _alone(id_: str, *, is_listed: bool) -> Owners:
    """A page with this owner alone; empty if it is not listed."""
    return Owners((Owner(id_, ""),) if is_listed else (), "")


def _filled(
    owners: Owners, found_of: Callable[[str], T], size_of: Callable[[T], int]
) -> tuple[list[tuple[Owner, T]], str]:
    """Owners with their connections until a page is full of these, at least one, and the key of the last one."""
    page, size = list[tuple[Owner, T]](), 0
    for owner in owners.page:
        found = found_of(owner.id)
        size += size_of(found)
        if page and size > SHOWN:
            return page, page[-1][0].key
        page.append((owner, found))
    return page, owners.then


def _size(board: Board) -> int:
    return len(board.consumers)


def _step_of(linked: RunnerConnection, active: Sequence[Step]) -> Step | None:
    return next((step for step in active if linked.job_id and step.job and step.job.id == linked.job_id), None)
