"""All expected failures, one class for each kind: it carries a code and says whether a retry can help.

Doors map classes to their own statuses and bodies; code never reads a message to decide. Messages reach callers, so
they name members and limits, never values, secrets or paths.

A family ends in `Error`: a base that a door or a whole part raises. Everything else says what happened. All families,
with the module of each class that is not here:

    PieceworkError
        AddressRefused                      net.addresses
        BadRequest
            SchemaRejected                  schemas.references
        CallFailed                          net.http_client
            BodyTooLarge                    net.http_client
            FetchTimedOut                   net.http_client
            Unreachable                     net.http_client
        ChainUnavailable                    worker.chain.rpc
        Conflict
            NotProven                       worker.payment.charging
        Forbidden
        InProgress
        Internal
        KernelError                         kernel.errors
            Conflict                        kernel.errors
                AlreadyDecided              kernel.errors
                CountChanged                kernel.errors
                ExecutionBlocked            kernel.errors
                ExecutionTainted            kernel.errors
                ExecutionTerminal           kernel.errors
                StepResolved                kernel.errors
            Forbidden                       kernel.errors
            Internal                        kernel.errors
            Invalid                         kernel.errors
            NotFound                        kernel.errors
            ServiceUnavailable              kernel.errors
                AgentPaused                 kernel.errors
                DoorPaused                  kernel.errors
            Unauthorized                    kernel.errors
                SessionExpired              kernel.errors
                SessionNotFound             kernel.errors
        KeyConflict
        LeaseLost
        MethodNotAllowed
        Moved                               worker.record.executions
        NoValidOutput
        NotFound
        PayloadForgotten
        PolicyBindingInvalid
        Refused
            InputRefused
            PolicyDenied
            ToolFailed
        ReleasedFailure                     durable.pieces
        RequestRejected
        Retryable
            UpstreamFailed
                QuestionRejected            models.chat
        SettingsError
            PolicyInvalid                   kernel.policy.reading
        StillNeeded                         ops.forgetting.erasing
        StoredFailure                       runtime.execute.flow
        TooLarge
        TooOften                            ops.money.asking
        Unauthorized
            SignInRefused                   ops.access
        Unavailable
            ExecutorBroken                  extend.broken
            Paused
        Unprocessable
            TaskTypeUnknown
        UnsupportedMediaType
        WorkerError                         worker.errors
            ContractConflict                worker.contract.contracts
            ContractInvalid                 worker.errors
            NonceTaken                      worker.record.executions
            PaymentInvalid                  worker.payment.payments
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
        """The same failure with facts for its outcome line and metrics."""
        self.facts, self.counts = facts, counts
        return self


class BadRequest(PieceworkError):
    """The input cannot be read: not JSON, not text, too deep."""

    code = "bad_request"


class Unprocessable(PieceworkError):
    """The input can be read but a member is missing, of the wrong type or unknown."""

    code = "unprocessable"


class TaskTypeUnknown(Unprocessable):
    """None of the door's executors lists the task's type, and the door does not have a default executor."""

    code = "task_type_unknown"


class UnsupportedMediaType(PieceworkError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


class TooLarge(PieceworkError):
    """The decoded body is over the documented size."""

    code = "too_large"


class NotFound(PieceworkError):
    """The address does not exist."""

    code = "not_found"


class MethodNotAllowed(PieceworkError):
    """The address exists, but not for this method."""

    code = "method_not_allowed"

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class Unauthorized(PieceworkError):
    """The caller is not known."""

    code = "unauthorized"


class Forbidden(PieceworkError):
    """The caller is known, and its roles do not allow this."""

    code = "forbidden"


class Conflict(PieceworkError):
    """What is asked for does not fit what stands by now; look again before you repeat it."""

    code = "conflict"


class KeyConflict(PieceworkError):
    """The same ids arrived with another payload."""

    code = "key_conflict"


class PayloadForgotten(PieceworkError):
    """An operator had the payload forgotten; it is neither answered nor worked on again."""

    code = "forgotten"


class PolicyBindingInvalid(PieceworkError):
    """The verifier policy, its version or its hash is not accepted."""

    code = "policy_binding_invalid"


class NoValidOutput(PieceworkError):
    """An output that fits the caller's schema could not be made; final."""

    code = "no_valid_output"


class Refused(PieceworkError):
    """An executor refuses for good: its answer to this piece is a permanent failure."""

    code = "refused"


class InputRefused(Refused):
    """An executor cannot work on this input, for good; the text is about the input alone, never about the work.

    At the worker door it is the only text of an executor that a seeker reads before paying.
    """

    code = "input_refused"


class ToolFailed(Refused):
    """A called tool failed; an executor that does not handle this fails with the same text."""

    code = "tool_failed"


class PolicyDenied(Refused):
    """The policy or a person denied a tool call."""

    code = "policy_denied"


class Retryable(PieceworkError):
    """An executor cannot answer now; the same piece may be tried again."""

    code = "unavailable"
    retryable = True


class InProgress(PieceworkError):
    """Another runner holds the piece and did not finish in the time that we could wait."""

    code = "in_progress"
    retryable = True


class Unavailable(PieceworkError):
    """A service that we need is throttled or out of reach."""

    code = "unavailable"
    retryable = True


class Paused(Unavailable):
    """Operators have paused a door or an executor: it takes no new work until they resume it."""

    retry_seconds: ClassVar[int] = 30  # a person will resume it


class RequestRejected(PieceworkError):
    """A service that we need will never accept this request: a permission is missing, or a value is too large."""

    code = "internal"


class UpstreamFailed(Retryable):
    """A model or another upstream did not give a usable answer."""

    code = "upstream_failed"


class Internal(PieceworkError):
    """A bug; details are in the log only."""

    code = "internal"
    retryable = True


class LeaseLost(PieceworkError):
    """Another runner has taken the piece over; this one may neither record nor release."""

    code = "lease_lost"
    retryable = True


class SettingsError(PieceworkError):
    """A setting of the deployment is missing or wrong."""

    code = "settings"
