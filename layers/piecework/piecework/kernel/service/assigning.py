"""Assignment: executions that wait go round the connected consumers of their agent (specification sections 1.9, 3.2).

A new execution is given to a consumer in the transaction that creates it. One that has to wait is given out later, by
whoever made it wait or by the agent's streams: they mark it first, so that two who see the same executions do not do
the same work, and a turn that was taken is used.

Who makes an execution wait writes its marker and then looks for consumers; who connects writes the consumer and then
looks for markers. So one of the two sees the other, and whoever comes second is refused by the execution's own version.
"""

from collections.abc import Callable, Sequence
from typing import Final

from piecework.kernel.errors import AgentPaused
from piecework.kernel.model import commands
from piecework.kernel.model.change_builder import Decision
from piecework.kernel.model.changes import Change
from piecework.kernel.model.ports.agents import Agents, Board, Consumer, Waiting
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.state import Execution
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.meeting import met
from piecework.kernel.service.reasons import Service

MOST_AT_ONCE: Final = 10  # executions given out by one offer; a stream writes them, then offers again
CLAIM_MS: Final = 2_000  # a mark's life; an assignment gives up before
FRESH_MS: Final = 1_500  # of a choice; a quarter of what a lapsed consumer stays on record
LOST_CLAIMS: Final = 3  # after so many others are at work on the same executions, and will do the rest


Assign = Callable[[str, str, str], bool]  # ids of an execution, a consumer and its agent; False when it waits no more


class RoundRobin:
    """Chooses consumers in turn, for new executions and for those that wait."""

    def __init__(self, agents: Agents, clock: Callable[[], int], assign: Assign) -> None:
        self._agents, self._clock, self._try = agents, clock, assign

    def is_hosted(self, _agent_id: str) -> bool:
        """Whether a registered executor serves the agent, and no consumer."""
        return False

    def service(self, agent_id: str) -> Service:
        """Whether a consumer can take the agent's executions, and whether the agent is paused; one request."""
        board = self._agents.board(agent_id)
        return Service(bool(connected_at(board.consumers, self._clock())), board.is_paused)

    def choose(self, agent_id: str) -> str:
        """The connected consumer whose turn it is; empty when there is none.

        Raises:
            AgentPaused: it gets no new executions.
        """
        board = self._agents.board(agent_id)
        if board.is_paused:
            raise AgentPaused(agent_id)
        return self._next(agent_id, connected_at(board.consumers, self._clock()))

    def give(self, execution: Execution) -> bool:
        """Give one waiting execution to a connected consumer; False when nobody is there, or somebody else gives it."""
        agent_id = execution.agent_id
        connected = self._takers(agent_id)
        if not connected or not self._claim(agent_id, Waiting(execution.id, execution.created_at_ms)):
            return False
        return self._assign(execution.id, self._next(agent_id, connected), agent_id)

    def offer(self, agent_id: str) -> int:
        """Give waiting executions to connected consumers, oldest first; how many were given.

        What goes wrong for one execution keeps it waiting, and a later offer tries again.
        """
        given, lost, unused = 0, 0, ""
        waiting = self._unclaimed(agent_id)
        board = self._agents.board(agent_id) if waiting else Board(())
        consumers = () if board.is_paused else board.consumers
        while waiting and given < MOST_AT_ONCE and lost < LOST_CLAIMS:
            if not (connected := connected_at(consumers, self._clock())):
                break
            oldest = waiting.pop(0)
            if not self._claim(agent_id, oldest):
                lost, waiting = lost + 1, self._unclaimed(agent_id)
                continue
            consumer_id = unused or self._next(agent_id, connected)
            is_given = self._assign(oldest.execution_id, consumer_id, agent_id)
            given, unused = given + is_given, "" if is_given else consumer_id
        return given

    def follow(self, change: Change) -> bool:
        """Give out an execution that a change has left waiting; False when it was not given."""
        return change.after.is_waiting and self.give(change.after)

    def _takers(self, agent_id: str) -> list[Consumer]:
        """The connected consumers of an agent that is not paused."""
        board = self._agents.board(agent_id)
        return [] if board.is_paused else connected_at(board.consumers, self._clock())

    def _unclaimed(self, agent_id: str) -> list[Waiting]:
        now = self._clock()
        return [waiting for waiting in self._agents.waiting(agent_id) if waiting.claimed_until_ms <= now]

    def _claim(self, agent_id: str, waiting: Waiting) -> bool:
        return self._agents.claim(agent_id, waiting, self._clock() + CLAIM_MS)

    def _next(self, agent_id: str, connected: Sequence[Consumer]) -> str:
        if len(connected) < 2:
            return connected[0].consumer_id if connected else ""
        return connected[self._agents.next_turn(agent_id) % len(connected)].consumer_id

    def _assign(self, execution_id: str, consumer_id: str, agent_id: str) -> bool:
        is_given = False
        with met("an execution was not given to its agent"):
            is_given = self._try(execution_id, consumer_id, agent_id)
        return is_given


def assign(commits: Commits, execution_id: str, consumer_id: str, agent_id: str) -> bool:
    """Give a waiting execution to a consumer of its agent; False when it does not wait any more.

    It gives up early: a choice of long ago may name a consumer whose end has been dealt with already.
    """
    until = commits.clock() + FRESH_MS

    def attempt(read: Read, _now_ms: int, _taken: int) -> Decision:
        if read.execution is None or read.execution.agent_id != agent_id or commits.clock() > until:
            return Decision(None, answer=False)
        return commits.decided(read, commands.Assign(consumer_id))

    return bool(commits.run(execution_id, attempt))


def connected_at(consumers: Sequence[Consumer], now_ms: int) -> list[Consumer]:
    """The consumers with an open stream that showed itself lately, sorted by id."""
    return [consumer for consumer in consumers if consumer.is_open and consumer.lease_until_ms > now_ms]
