"""What a seeker is told of an attempt that failed: before it has paid, nothing that the attempt made.

An executor's own texts may quote what it made, and the seeker's schema decides what does not fit; so an attempt could
be asked to spell its answer out in failures. Before payment each code has one text, and the reason is for the log. The
one text that passes is about the input, which the seeker knows: `InputRefused`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from piecework.errors import BadRequest, InputRefused, NoValidOutput, PieceworkError, Refused, Unprocessable
from piecework.schemas import SchemaRejected
from piecework.values import dataclass, replace
from piecework.worker.record.values import Failure

MEANINGS: Final[Sequence[tuple[type[PieceworkError], str, bool]]] = (  # class, code, whether it is final
    (SchemaRejected, "OUTPUT_SCHEMA_INVALID", False),
    (NoValidOutput, "OUTPUT_SCHEMA_INVALID", False),
    (InputRefused, "INVALID_INPUT", True),
    (Unprocessable, "INVALID_INPUT", True),
    (BadRequest, "INVALID_INPUT", True),
    (Refused, "EXECUTION_FAILED", True),
)
TEXTS: Final[Mapping[str, str]] = {
    "OUTPUT_SCHEMA_INVALID": "the executor's output does not fit the contract's output_schema or the limits",
    "INVALID_INPUT": "the executor cannot work on this input",
    "EXECUTION_FAILED": "the executor could not do this task",
    "EXECUTION_TRANSIENT": "the executor could not do this task now; try again",
    "INTERNAL_ERROR": "the executor failed; the worker's log has the reason",
}
NOT_STORED: Final = "this worker could not keep the result; its operator's log has the reason"
UNDEPLOYED: Final = "this worker does not run the contract's executor any more"


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt without a result; `is_final` when another attempt cannot help."""

    failure: Failure
    is_final: bool


def ended_by(error: PieceworkError, *, is_paid: bool) -> Ended:
    """What an executor's failure means; the first class that fits counts."""
    code, is_final = _meaning(error)
    may_pass = is_paid or isinstance(error, InputRefused)
    text = error.message if may_pass and code != "OUTPUT_SCHEMA_INVALID" else TEXTS[code]
    return Ended(Failure(code, text), is_final)


def ended_by_output() -> Ended:
    """The one end of every output that must not be delivered, whatever was wrong with it."""
    return Ended(Failure("OUTPUT_SCHEMA_INVALID", TEXTS["OUTPUT_SCHEMA_INVALID"]), is_final=False)


def ended_by_bug() -> Ended:
    """The end of an attempt whose executor raised what no executor should."""
    return Ended(Failure("INTERNAL_ERROR", TEXTS["INTERNAL_ERROR"]), is_final=False)


def ended_by_undeployed() -> Ended:
    """The end of a task whose executor is gone: nobody else works in its name."""
    return Ended(Failure("EXECUTION_FAILED", UNDEPLOYED), is_final=True)


def ended_by_store() -> Ended:
    """The end of an attempt whose result no store takes."""
    return Ended(Failure("EXECUTION_FAILED", NOT_STORED), is_final=True)


def as_told(failure: Failure) -> Failure:
    """A stored failure as it is answered: older code stored what was wrong with an output."""
    fixed = failure.code == "OUTPUT_SCHEMA_INVALID"
    return replace(failure, message=TEXTS[failure.code], details={}) if fixed else failure


def _meaning(error: PieceworkError) -> tuple[str, bool]:
    for kind, code, is_final in MEANINGS:
        if isinstance(error, kind):
            return code, is_final
    return ("EXECUTION_TRANSIENT", False) if error.retryable else ("EXECUTION_FAILED", True)
