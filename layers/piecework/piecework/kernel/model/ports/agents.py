"""Connected consumers of agents, their pauses, and what waits for them."""

from collections.abc import Sequence
from typing import Protocol

from piecework.kernel.model.state import Pause
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Consumer:
    """A connection of an agent."""

    agent_id: str
    consumer_id: str
    generation: int
    lease_until_ms: int  # of its open stream; or, once that has ended, the end of its grace
    is_open: bool
    doubted_until_ms: int = 0  # somebody has found this very lease about to lapse; the stream may answer until then
    by: str = ""  # the name of the token that it has connected with
    named_until_ms: int = 0  # that name is kept for the agent until then
    since_ms: int = 0  # it has come back in time ever since; 0: unknown, opened by earlier code


@dataclass(frozen=True, slots=True)
class Board:
    """An agent's consumers and its last pause, read in one request."""

    consumers: tuple[Consumer, ...]  # sorted by id; lapsed ones too
    pause: Pause | None = None

    @property
    def is_paused(self) -> bool:
        """Whether its pause holds."""
        return self.pause is not None and self.pause.is_on


@dataclass(frozen=True, slots=True)
class Waiting:
    """An execution that waits for a consumer."""

    execution_id: str
    created_at_ms: int
    claimed_until_ms: int = 0  # somebody is giving it out until then


@dataclass(frozen=True, slots=True)
class AgentQueue:
    """An agent's consumers and what waits for them, read in one request."""

    consumers: tuple[Consumer, ...]  # sorted by id; lapsed ones too
    turn: int  # the agent's round-robin counter
    waiting: tuple[str, ...]  # ids of executions that wait for a consumer, oldest first, at most 100
    pause: Pause | None = None


class Agents(Protocol):
    """Connected consumers of agents."""

    def connect(
        self, agent_id: str, consumer_id: str, lease_until_ms: int, by: str = ""
    ) -> tuple[Consumer, Consumer | None]:
        """A new generation, and what it replaces; also writes the consumer's due row, and before that keeps the name
        of the token, `by`."""

    def has_served(self, agent_id: str, name: str) -> bool:
        """Whether the agent has connected by the token of this name in the last `NAME_KEPT_MS`; one request."""

    def refresh(self, consumer: Consumer, lease_until_ms: int) -> bool:
        """Extend the lease of an open stream; False when a newer generation has replaced it, or it is gone."""

    def refresh_all(self, consumers: Sequence[Consumer], lease_until_ms: int) -> list[Consumer]:
        """The same for up to 100 open streams at once; those that were replaced or are gone."""

    def doubt(self, consumer: Consumer, until_ms: int) -> bool:
        """Note that its lease seems to lapse, for its stream to answer until then; False when it has just done so."""

    def end(self, consumer: Consumer, grace_until_ms: int) -> bool:
        """The stream has ended; its successor has until then. False when it was replaced."""

    def find(self, agent_id: str, consumer_id: str) -> Consumer | None: ...

    def board(self, agent_id: str) -> Board: ...

    def consumers(self, agent_id: str) -> tuple[Consumer, ...]:
        """An agent's consumers, sorted by id; lapsed ones too."""

    def pause_of(self, agent_id: str) -> Pause | None:
        """The last pause of an agent, for one whose board nobody reads."""

    def pause(self, agent_id: str, pause: Pause) -> Pause:
        """Begin a pause; returns the one that holds, which is an earlier one where there is one."""

    def resume(self, agent_id: str, at_ms: int, by: str, reason: str) -> Pause | None:
        """End a pause; returns the last one, which may have ended before. None if the agent was not paused lately."""

    def waiting(self, agent_id: str) -> list[Waiting]:
        """Executions that wait for a consumer of an agent, oldest first, at most 100."""

    def agent_queue(self, agent_id: str) -> AgentQueue: ...

    def next_turn(self, agent_id: str) -> int:
        """The agent's round-robin counter before it is moved on by one; no two callers get the same."""

    def claim(self, agent_id: str, waiting: Waiting, until_ms: int) -> bool:
        """Mark a waiting execution as being given out; False when it is gone, or somebody else's mark still counts."""

    def sessions(self, agent_id: str, consumer_id: str) -> list[str]:
        """The executions that hold a session of this consumer."""

    def forget(self, consumer: Consumer) -> bool:
        """Remove a lapsed consumer and its outbox; False when it has shown itself since, or came back."""
