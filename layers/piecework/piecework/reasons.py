"""Why a call to another party failed, as one code for the operator's log.

A code has letters, digits and a few marks, at most 100 characters. Texts are never logged, because they quote prompts,
payments or keys. The members listed here are those in which facilitators, nodes and model endpoints state their codes.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

Warn = Callable[..., None]

WORD: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
IN_ERRORS: Final = ("code", "type", "status", "reason", "errorType", "errorCode")
ALWAYS: Final = ("errorReason", "invalidReason")  # a facilitator's, whatever the status


def silent(event: str, /, **fields: Any) -> None:
    """A log that drops its lines."""


def tell(warn: Warn, to: str, **fields: Any) -> None:
    """Log a failed call: to whom, with the status and the reason if they are known."""
    warn("outgoing_call_failed", to=to, **{name: value for name, value in fields.items() if value not in (None, "")})


def reason_in(answer: object, *, failed: bool = True) -> str:
    """The first code in an answer, or empty; in an answer that did not fail, only the code of an error counts."""
    return next(words_in(answer, failed=failed), "")


def words_in(answer: object, *, failed: bool = True) -> Iterator[str]:
    """The codes in the usual places of an answer, the most specific first."""
    for place in _errors(answer):
        yield from filter(None, (word_of(place.get(name)) for name in IN_ERRORS))
    if isinstance(answer, dict):
        names = ("error", *ALWAYS, *IN_ERRORS) if failed else ("error", *ALWAYS)
        yield from filter(None, (word_of(answer.get(name)) for name in names))


def word_of(value: object) -> str:
    """The value if it is a code or a number, else empty."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return text if isinstance(text, str) and WORD.fullmatch(text) else ""


def _errors(answer: object) -> Iterator[dict[str, Any]]:
    error = answer.get("error") if isinstance(answer, dict) else None
    while isinstance(error, dict):
        yield error
        error = error.get("innererror")
