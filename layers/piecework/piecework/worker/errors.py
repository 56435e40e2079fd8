"""The worker door's error codes with their statuses (worker specification 1.8), and the one error that carries them."""

from collections.abc import Mapping
from typing import Final

from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """The HTTP status of a code, and whether the same request may succeed later."""

    status: int
    retryable: bool = False


CODES: Final[Mapping[str, Meaning]] = {
    "INVALID_REQUEST": Meaning(400),
    "PAYMENT_MALFORMED": Meaning(400),
    "PAYMENT_REQUIRED": Meaning(402, retryable=True),
    "PAYMENT_INVALID": Meaning(402, retryable=True),
    "PAYMENT_FAILED": Meaning(402, retryable=True),
    "CONTRACT_MISMATCH": Meaning(403),
    "CONTRACT_NOT_FOUND": Meaning(404),
    "TASK_NOT_FOUND": Meaning(404),
    "NOT_FOUND": Meaning(404),  # no such route
    "METHOD_NOT_ALLOWED": Meaning(405),
    "BODY_MISMATCH": Meaning(409),
    "PAYMENT_ALREADY_USED": Meaning(409, retryable=True),
    "RETRIES_EXHAUSTED": Meaning(409),
    "CONTRACT_CONFLICT": Meaning(409),  # registration of an id that stands for another contract
    "CONTRACT_EXPIRED": Meaning(410),
    "PAYLOAD_TOO_LARGE": Meaning(413),
    "UNSUPPORTED_MEDIA_TYPE": Meaning(415),
    "INVALID_INPUT": Meaning(422),
    "CONTRACT_INVALID": Meaning(422),
    "RATE_LIMITED": Meaning(429, retryable=True),
    "EXECUTION_FAILED": Meaning(500),
    "OUTPUT_SCHEMA_INVALID": Meaning(500, retryable=True),
    "INTERNAL_ERROR": Meaning(500, retryable=True),
    "EXECUTION_TRANSIENT": Meaning(503, retryable=True),
    "PAYMENT_PROVIDER_UNAVAILABLE": Meaning(503, retryable=True),
    "TASK_TIMEOUT": Meaning(504),
    "DEADLINE_MISSED": Meaning(504),
}

# How failures of the parts that all doors share are called here; what is not listed is INTERNAL_ERROR.
SHARED_CODES: Final[Mapping[str, str]] = {
    "bad_request": "INVALID_REQUEST",
    "schema_rejected": "INVALID_REQUEST",
    "unprocessable": "INVALID_REQUEST",
    "not_found": "NOT_FOUND",
    "method_not_allowed": "METHOD_NOT_ALLOWED",
    "too_large": "PAYLOAD_TOO_LARGE",
    "unsupported_media_type": "UNSUPPORTED_MEDIA_TYPE",
}


class WorkerError(PieceworkError):
    """A failure in the words of the worker door; everything in it reaches the seeker."""

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Json] | None = None,
        retryable: bool | None = None,
        *,
        contract_id: str | None = None,
        task_id: str | None = None,
        retries_remaining: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        meaning = CODES[code]
        self.code = code  # type: ignore[misc]  # one class for the whole table
        self.retryable = meaning.retryable if retryable is None else retryable  # type: ignore[misc]
        self.status = meaning.status
        self.details = dict(details or {})
        self.contract_id = contract_id
        self.task_id = task_id
        self.retries_remaining = retries_remaining
        self.headers = dict(headers or {})


class ContractInvalid(WorkerError):
    """A contract is refused at registration; `rule` is the validation that failed, V1 to V15."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__("CONTRACT_INVALID", message, {"rule": rule})
        self.rule = rule
