"""What the kernel door refuses, with the status, code and text prefix of each class (specification section 2.1)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from piecework.errors import PieceworkError
from piecework.jsons import Json

PAUSED_RETRY_SECONDS: Final = 30  # a person has paused the agent, and a person will resume it


class KernelError(PieceworkError):
    """A refusal; `text` is what the caller reads, `details` what its program does."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    prefix: ClassVar[str] = ""
    details: dict[str, Json] | None = None
    headers: Mapping[str, str] = MappingProxyType({})  # of the answer

    @property
    def text(self) -> str:
        """The message behind the prefix of its class."""
        return f"{self.prefix}{self.message}"


class Invalid(KernelError):
    """A shape, length or value that is not accepted; also a session that belongs to another execution."""

    code = "VALIDATION_ERROR"
    status = 400
    prefix = "validation error: "


class Unauthorized(KernelError):
    """No token, or not a known one."""

    code = "UNAUTHORIZED"
    status = 401

    def __init__(self, message: str = "unauthorized") -> None:
        super().__init__(message)


class SessionNotFound(Unauthorized):
    """Nobody was ever given this session, or what it was given for is gone."""

    def __init__(self) -> None:
        super().__init__("session not found")


class SessionExpired(Unauthorized):
    """The session has lapsed or was replaced by another."""

    prefix = "session expired: "

    def __init__(self) -> None:
        super().__init__("this consumer does not hold the execution any more")


class Forbidden(KernelError):
    """The caller is known, and may not do this."""

    code = "FORBIDDEN"
    status = 403


class NotFound(KernelError):
    """No such execution, step or runner."""

    code = "NOT_FOUND"
    status = 404
    prefix = "not found: "


class Conflict(KernelError):
    """The state of the execution does not allow it."""

    code = "CONFLICT"
    status = 409
    prefix = "conflict: "


class ExecutionTerminal(Conflict):
    """The execution has ended."""

    prefix = "execution is in terminal state: "


class ExecutionBlocked(Conflict):
    """The execution waits for a signal or a person."""

    prefix = "execution is blocked: "


class StepResolved(Conflict):
    """The step has ended, or its job is not the current one."""

    prefix = "step already resolved"

    def __init__(self, detail: str = "") -> None:
        super().__init__(f": {detail}" if detail else "")


class AlreadyDecided(Conflict):
    """A person has answered about the step, and that stands."""

    def __init__(self, step_id: str, *, approved: bool, by: str | None, at: str | None) -> None:
        said = "granted" if approved else "denied"
        super().__init__(f"the step was {said} already{f' by {by}' if by else ''}; that stands")
        self.details = {"step_id": step_id, "approved": approved, "by": by, "at": at}


class CountChanged(Conflict):
    """Another number of executions was confirmed than there is now."""

    def __init__(self, details: dict[str, Json]) -> None:
        super().__init__(f"{details['count']} executions fit now; look again, and confirm that number")
        self.details = details


class ExecutionTainted(Conflict):
    """The execution's log contradicts itself."""

    def __init__(self) -> None:
        super().__init__("execution is tainted")


class ServiceUnavailable(KernelError):
    """The store is out of reach, or too many writers met on one execution; a repeat can help."""

    code = "SERVICE_UNAVAILABLE"
    status = 503
    retryable = True
    prefix = "service unavailable: "


class AgentPaused(ServiceUnavailable):
    """Operators have paused the agent: it gets no new executions until they resume it."""

    headers = MappingProxyType({"Retry-After": str(PAUSED_RETRY_SECONDS)})

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"the agent {agent_id} is paused; try again later")


class DoorPaused(ServiceUnavailable):
    """Operators have paused the door, or the executor that is the agent: executions are not created."""

    headers = MappingProxyType({"Retry-After": str(PAUSED_RETRY_SECONDS)})


class Internal(KernelError):
    """A bug; its text stays in the log."""

    def __init__(self) -> None:
        super().__init__("internal error")
