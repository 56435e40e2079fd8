"""Everything that can go wrong, by what happened: each class carries a code and knows whether a retry can help.

Doors map classes to their own statuses and bodies; nobody reads message text to decide. Messages reach callers, so
they name members and limits, never values, secrets or paths.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class PieceworkError(Exception):
    """Base of all expected failures; `message` may be shown to the caller."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.facts: Mapping[str, Any] = NOTHING
        self.counts: Mapping[str, int] = NOTHING

    def with_facts(self, facts: Mapping[str, Any], counts: Mapping[str, int] = NOTHING) -> Self:
        """The same failure with what its outcome line and metrics say of it."""
        self.facts, self.counts = facts, counts
        return self


class BadRequest(PieceworkError):
    """The input cannot be read: not JSON, not text, too deep."""

    code = "bad_request"


class Unprocessable(PieceworkError):
    """The input can be read but a member is missing, of the wrong type or unknown."""

    code = "unprocessable"


class TaskTypeUnknown(Unprocessable):
    """No executor of this door lists the task's type, and no default one was named."""

    code = "task_type_unknown"


class UnsupportedMediaType(PieceworkError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


class TooLarge(PieceworkError):
    """The decoded body is over the documented size."""

    code = "too_large"


class NotFound(PieceworkError):
    """Nothing lives at this address."""

    code = "not_found"


class MethodNotAllowed(PieceworkError):
    """The address exists, for other methods."""

    code = "method_not_allowed"

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class Unauthorized(PieceworkError):
    """The caller is not known."""

    code = "unauthorized"


class KeyConflict(PieceworkError):
    """The same ids arrived with another payload."""

    code = "key_conflict"


class PolicyBindingInvalid(PieceworkError):
    """The verifier policy, its version or its hash is not one we evaluate."""

    code = "policy_binding_invalid"


class NoValidOutput(PieceworkError):
    """No output that fits the caller's schema could be made; final."""

    code = "no_valid_output"


class Refused(PieceworkError):
    """An executor says no, for good: its answer to this piece is a permanent failure."""

    code = "refused"


class InputRefused(Refused):
    """An executor cannot work on this input, for good; the text speaks of the input alone, never of what was made.

    At the worker door it is the one text of an executor that a seeker reads before it has paid.
    """

    code = "input_refused"


class ToolFailed(Refused):
    """A tool was called and failed; an executor that does not handle it fails with its text."""

    code = "tool_failed"


class PolicyDenied(Refused):
    """A tool call was not allowed, by the policy or by a person."""

    code = "policy_denied"


class Retryable(PieceworkError):
    """An executor could not answer now; the same piece may be tried again."""

    code = "unavailable"
    retryable = True


class InProgress(PieceworkError):
    """Another runner holds the piece and did not finish while we could wait."""

    code = "in_progress"
    retryable = True


class Unavailable(PieceworkError):
    """A service we stand on is throttled or out of reach."""

    code = "unavailable"
    retryable = True


class RequestRejected(PieceworkError):
    """A service we stand on will never take this request: a right is missing, or a value is larger than it holds."""

    code = "internal"


class UpstreamFailed(Retryable):
    """A model or another upstream answered, but not usefully."""

    code = "upstream_failed"


class Internal(PieceworkError):
    """A bug; its text stays in the log."""

    code = "internal"
    retryable = True


class LeaseLost(PieceworkError):
    """Another runner has taken the piece over; this one may neither record nor release."""

    code = "lease_lost"
    retryable = True


class SettingsError(PieceworkError):
    """The deployment lacks a setting or holds a bad one."""

    code = "settings"
