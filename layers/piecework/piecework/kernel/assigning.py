"""Assignment: executions that wait go round the connected consumers of their agent (specification sections 1.9, 3.2).

Who makes an execution wait writes its marker and then reads the agent's board; who connects writes the consumer and
then reads the board. So one of the two sees the other, and whoever comes second is refused by the execution's own
version: an execution is given to one consumer, however many offer it at the same time.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from piecework.kernel.errors import KernelError
from piecework.kernel.ports import Agents, Board, Consumer

MOST_AT_ONCE: Final = 100  # executions given out by one offer; the streams offer again at every heartbeat


class Assigning(Protocol):
    """The part of the kernel that ties an execution to a consumer."""

    def assign(self, execution_id: str, consumer_id: str, agent_id: str) -> bool:
        """False when it no longer waits."""


class RoundRobin:
    """Offers an agent's waiting executions, oldest first, to its consumers in turn."""

    def __init__(self, agents: Agents, clock: Callable[[], int], kernel: Assigning) -> None:
        self._agents, self._clock, self._kernel = agents, clock, kernel

    def offer(self, agent_id: str) -> int:
        """Give waiting executions to connected consumers; how many were given.

        What goes wrong for one execution keeps it waiting, and the next offer tries again.
        """
        given, board = 0, self._agents.board(agent_id)
        for _ in range(MOST_AT_ONCE):
            connected = connected_at(board, self._clock())
            if not connected or not board.waiting:
                break
            if len(connected) > 1 and not self._agents.take_turn(agent_id, board.turn):
                board = self._agents.board(agent_id)
                continue
            given += self._assign(board.waiting[0], connected[board.turn % len(connected)])
            board = replace(board, turn=board.turn + (len(connected) > 1), waiting=board.waiting[1:])
        return given

    def _assign(self, execution_id: str, consumer: Consumer) -> bool:
        try:
            return self._kernel.assign(execution_id, consumer.consumer_id, consumer.agent_id)
        except KernelError:
            return False


def connected_at(board: Board, now_ms: int) -> list[Consumer]:
    """The consumers with an open stream that showed itself lately, sorted by id."""
    return [consumer for consumer in board.consumers if consumer.is_open and consumer.lease_until_ms > now_ms]
