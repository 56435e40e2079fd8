"""Hosted agents: who gives executions to them, and what makes it their turn, which a wake-up tells.

A wake-up holds an execution's id and may be lost, late or doubled: the execution's own due time has it looked at again,
and a look changes nothing but its clock, which wakes the executor once more.
"""

from collections.abc import Callable, Collection
from typing import Final

from piecework.kernel.errors import AgentPaused
from piecework.kernel.model.changes import Change, HostedPush
from piecework.kernel.model.hosted import HOSTED, is_idle
from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.state import Execution
from piecework.kernel.service.assigning import MOST_AT_ONCE, Assign, RoundRobin
from piecework.kernel.service.reasons import Service

PAUSE_SEEN_MS: Final = 2_000  # so long may a process give a hosted agent work after its pause began
ENDING_A_WAIT: Final = frozenset({"execution.assigned", "tool.result"})


class Hosting(RoundRobin):
    """Gives hosted agents' executions to their executors, and all others to connected consumers in turn."""

    def __init__(
        self,
        agents: Agents,
        clock: Callable[[], int],
        assign: Assign,
        names: Collection[str],
        *,
        can_wake: bool = True,
    ) -> None:
        super().__init__(agents, clock, assign)
        self._names, self._can_wake = names, can_wake
        self._seen = dict[str, tuple[int, bool]]()  # by hosted name: until when a look counts, and what it saw

    def is_hosted(self, agent_id: str) -> bool:
        """Whether the agent's id names a registered executor."""
        return agent_id in self._names

    def service(self, agent_id: str) -> Service:
        """Whether somebody can take the agent's executions; a registered executor always can."""
        return Service(True, self._is_paused(agent_id)) if agent_id in self._names else super().service(agent_id)

    def choose(self, agent_id: str) -> str:
        """The consumer that gets a new execution. A registered executor goes before connected agents."""
        if agent_id not in self._names:
            return super().choose(agent_id)
        if self._is_paused(agent_id):
            raise AgentPaused(agent_id)
        return HOSTED if self._can_wake else ""

    def give(self, execution: Execution) -> bool:
        """Give one waiting execution out; False when it keeps waiting."""
        if execution.agent_id not in self._names:
            return super().give(execution)
        is_free = self._can_wake and not self._is_paused(execution.agent_id)
        return is_free and self._assign(execution.id, HOSTED, execution.agent_id)

    def offer(self, agent_id: str) -> int:
        """Give some waiting executions out; how many."""
        if agent_id not in self._names:
            return super().offer(agent_id)
        if not self._can_wake:  # asked by a stream of that name: the process that made the execution wait assigns it
            return 0
        queue = self._agents.agent_queue(agent_id)
        waiting = () if queue.pause and queue.pause.is_on else queue.waiting[:MOST_AT_ONCE]
        return sum(self._assign(execution_id, HOSTED, agent_id) for execution_id in waiting)

    def _is_paused(self, agent_id: str) -> bool:
        """Whether a hosted agent is paused; nobody reads its board, so one look counts for a while."""
        now = self._clock()
        until, is_paused = self._seen.get(agent_id, (0, False))
        if until <= now:
            pause = self._agents.pause_of(agent_id)
            is_paused = pause is not None and pause.is_on
            self._seen[agent_id] = (now + PAUSE_SEEN_MS, is_paused)
        return is_paused


def wakes(change: Change) -> bool:
    """Whether a change makes it a hosted executor's turn."""
    if any(_ends_a_wait(push) for push in change.hosted_pushes):
        return True
    return not change.events and is_idle(change.after)  # a look, because a wake-up may have been lost


def _ends_a_wait(push: HostedPush) -> bool:
    is_denial = push.kind == "approval.resolved" and not push.data.get("approved")
    return is_denial or push.kind in ENDING_A_WAIT
