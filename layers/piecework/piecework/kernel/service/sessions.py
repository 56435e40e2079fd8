"""Whether a session still counts: its agent showed itself lately, or its consumer's stream lives (section 1.3)."""

from piecework.kernel.decide import checks
from piecework.kernel.errors import Invalid, SessionExpired, SessionNotFound
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.ports.agents import Agents
from piecework.kernel.model.ports.executions import Executions, Read
from piecework.kernel.model.state import Execution, Session


class Sessions:
    """Checks the sessions that agents show."""

    def __init__(self, executions: Executions, agents: Agents) -> None:
        self._executions, self._agents = executions, agents

    def check(self, read: Read, session_id: str, now_ms: int) -> None:
        """Let the execution's own, living session pass.

        Raises:
            SessionNotFound: no such session was ever given out.
            SessionExpired: it has lapsed, or its execution has moved on.
            Invalid: it belongs to another execution.
        """
        execution = read.execution
        if execution and execution.session and execution.session.id == session_id:
            if not self.lives(execution, execution.session, now_ms):
                raise SessionExpired
            return
        if read.session_of is None:
            raise SessionNotFound
        owner = execution
        if execution is None or read.session_of != execution.id:
            owner = self._executions.read(read.session_of).execution
        session = owner.session if owner else None
        if owner is None or session is None or session.id != session_id or not self.lives(owner, session, now_ms):
            raise SessionExpired
        raise Invalid("the session belongs to another execution")

    def lives(self, execution: Execution, session: Session, now_ms: int) -> bool:
        """Whether a session counts; only one without a recent sign of life costs a request."""
        if session.expires_at_ms > now_ms or session.consumer_id == HOSTED:
            return True
        return checks.is_connected(self._agents.find(execution.agent_id, session.consumer_id), now_ms)
