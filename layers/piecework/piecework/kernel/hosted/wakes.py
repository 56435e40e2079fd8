"""Hosted agents: who gives executions to them, and what makes it their turn, which a wake-up tells.

A wake-up holds an execution's id and may be lost, late or doubled: the execution's own due time has it looked at again,
and a look changes nothing but its clock, which wakes the executor once more.
"""

from collections.abc import Collection
from typing import Final

from piecework.kernel.model.changes import Change, HostedPush
from piecework.kernel.model.hosted import HOSTED, is_idle
from piecework.kernel.model.ports import Agents
from piecework.kernel.model.state import Execution
from piecework.kernel.service.assigning import MOST_AT_ONCE, Assigning
from piecework.kernel.service.commits import Assigner
from piecework.kernel.service.meeting import met

ENDING_A_WAIT: Final = frozenset({"execution.assigned", "tool.result"})


class Hosting:
    """Assigns hosted agents' executions to their executors, and leaves all others to the connected consumers."""

    def __init__(
        self, others: Assigner, names: Collection[str], agents: Agents, kernel: Assigning, *, can_wake: bool = True
    ) -> None:
        self._others, self._names, self._agents, self._kernel = others, names, agents, kernel
        self._can_wake = can_wake

    def choose(self, agent_id: str) -> str:
        """Who is given a new execution. A registered executor goes before connected agents."""
        if agent_id not in self._names:
            return self._others.choose(agent_id)
        return HOSTED if self._can_wake else ""

    def give(self, execution: Execution) -> bool:
        """Give one waiting execution out; False when it keeps waiting."""
        if execution.agent_id not in self._names:
            return self._others.give(execution)
        return self._can_wake and self._assign(execution.id, execution.agent_id)

    def offer(self, agent_id: str) -> int:
        """Give some waiting executions out; how many."""
        if agent_id not in self._names:
            return self._others.offer(agent_id)
        if not self._can_wake:  # a stream of that name: whoever made the execution wait has it assigned
            return 0
        waiting = self._agents.board(agent_id).waiting[:MOST_AT_ONCE]
        return sum(self._assign(execution_id, agent_id) for execution_id in waiting)

    def _assign(self, execution_id: str, agent_id: str) -> bool:
        is_given = False
        with met("an execution was not given to its executor"):  # it keeps waiting, and the next look tries again
            is_given = self._kernel.assign(execution_id, HOSTED, agent_id)
        return is_given


def wakes(change: Change) -> bool:
    """Whether a change makes it a hosted executor's turn."""
    if any(_ends_a_wait(push) for push in change.hosted_pushes):
        return True
    return not change.events and is_idle(change.after)  # a look, because a wake-up may have been lost


def _ends_a_wait(push: HostedPush) -> bool:
    is_denial = push.kind == "approval.resolved" and not push.data.get("approved")
    return is_denial or push.kind in ENDING_A_WAIT
