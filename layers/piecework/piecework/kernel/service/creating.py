"""New executions: for a client, or as an ended one once more.

To run one again copies what its client gave: agent, input and labels. Nothing else of it counts for the new one, which
is decided on by the policy of its own time; what people have allowed or denied stays with the old one.
"""

import json
from collections.abc import Callable
from contextlib import suppress

from piecework.errors import Paused, PieceworkError
from piecework.jsons import Json
from piecework.kernel.clocks import named_id
from piecework.kernel.decide.command import decide_new
from piecework.kernel.errors import Conflict, DoorPaused
from piecework.kernel.model.commands import Create, SendFailed
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.ports.executions import Details, Executions, VersionConflict
from piecework.kernel.model.state import Execution
from piecework.kernel.service.assigning import FRESH_MS, RoundRobin
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.reasons import Service, waiting_for
from piecework.values import replace

Admit = Callable[[str], None]  # raises Paused while nothing new may begin, at all or for the executor of a name


def again_id(execution_id: str, key: str) -> str:
    """The id of the execution that a request with this key makes; empty without a key."""
    return named_id("again", execution_id, key) if key else ""


def created_id(by: str, key: str) -> str:
    """The id of the execution that a caller's request with this key creates; empty without a key."""
    return named_id("create", by, key) if key else ""


class Creating:
    """Creates executions."""

    def __init__(
        self, executions: Executions, agents: Agents, commits: Commits, assigner: RoundRobin, admit: Admit
    ) -> None:
        self._executions, self._agents, self._commits, self._assigner = executions, agents, commits, assigner
        self._around, self._admit = commits.environment, admit

    def create(self, command: Create, by: str) -> Details:
        """A new execution by the token of that name, given to a connected consumer at once if there is one.

        Raises:
            VersionConflict: there is an execution with the id that the command names.
            AgentPaused: the agent gets no new executions.
            DoorPaused: the door is paused, or the executor that is the agent.
        """
        self._check_admitted(command.agent_id)
        now = self._around.clock()
        chosen = self._assigner.choose(command.agent_id)
        whole = replace(command, execution_id=command.execution_id or self._around.new_id(now), consumer_id=chosen)
        change = decide_new(whole, now, self._commits.settings, self._around.new_id, by).change
        if change is None:
            raise RuntimeError("an execution is created by a change")
        is_given, created = self._commits.store(change), change.after
        if is_given or self._was_too_late(created, now):
            created = self._executions.read(created.id).execution or created
        service = Service(bool(chosen) or self._assigner.is_hosted(command.agent_id))
        waits = waiting_for(created, self._around.clock(), service)
        return Details(created, command.input, None, command.again_of, waiting_for=waits)

    def once(self, command: Create, by: str) -> Details | None:
        """The same for a command that names its id; None if that execution is there already, as the same one.

        Raises:
            Conflict: another one has this id, made of another agent, input or labels.
            AgentPaused, DoorPaused: as `create`, where it is not there.
        """
        try:
            made = self._executions.view(command.execution_id)
            if made is None:
                return self.create(command, by)
        except VersionConflict:  # the same request at the same time
            made = self._executions.view(command.execution_id)
        if made and not made.execution.forgotten and not _is_of(made, command):
            raise Conflict("this key has created an execution of another agent, input or labels")
        return None

    def again(self, ended: Details, id_: str, by: str) -> Details:
        """A new execution like that one; of that id, unless it is empty.

        Raises:
            Conflict: that one has not ended, or was forgotten.
            VersionConflict: there is an execution with this id.
        """
        old = ended.execution
        if not old.status.is_terminal:
            raise Conflict("the execution has not ended; cancel it first, or wait for its end")
        if old.forgotten:
            raise Conflict("the execution was forgotten, and its input with it")
        return self.create(Create(id_, old.agent_id, ended.input, old.labels, again_of=old.id), by)

    def _check_admitted(self, agent_id: str) -> None:
        try:
            self._admit(agent_id if self._assigner.is_hosted(agent_id) else "")
        except Paused as paused:
            raise DoorPaused(paused.message) from None

    def _was_too_late(self, created: Execution, chosen_ms: int) -> bool:
        """Take an execution back whose consumer's end was handled while the execution was being stored."""
        session = created.session
        if session is None or session.consumer_id == HOSTED or self._around.clock() <= chosen_ms + FRESH_MS:
            return False
        if self._agents.find(created.agent_id, session.consumer_id):
            return False
        with suppress(PieceworkError):
            self._commits.run_command(created.id, SendFailed(session.id))
        return True


def _is_of(made: Details, command: Create) -> bool:
    stands = made.execution.agent_id, made.input, dict(made.execution.labels)
    return _written(*stands) == _written(command.agent_id, command.input, dict(command.labels))


def _written(*values: Json) -> str:
    """As text: for Python true is 1, and 1 is 1.0."""
    return json.dumps(values, sort_keys=True)
