"""Why somebody else did not do as asked, in a word for the operator's log.

A word is a code: letters, digits and a few marks, at most 100 of them. Texts are never taken, because they quote what
was asked: prompts, payments, keys. Members are those that facilitators, nodes and model endpoints state their codes in.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from piecework.jsons import Json

Warn = Callable[..., None]

WORD: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
IN_ERRORS: Final = ("code", "type", "status", "reason", "errorType", "errorCode")
ALWAYS: Final = ("errorReason", "invalidReason")  # of a facilitator, whatever the status


def silent(event: str, /, **fields: Any) -> None:
    """A log that keeps nothing."""


def tell(warn: Warn, to: str, **fields: Any) -> None:
    """Write the line of a call that failed: to whom, and the status and reason that are known."""
    warn("outgoing_call_failed", to=to, **{name: value for name, value in fields.items() if value not in (None, "")})


def reason_in(answer: Json, *, failed: bool = True) -> str:
    """The first code that an answer states, empty when it states none; of one that did not fail, only an error's."""
    return next(words_in(answer, failed=failed), "")


def words_in(answer: Json, *, failed: bool = True) -> Iterator[str]:
    """The codes of an answer in any of the usual places, the most telling first."""
    for place in _errors(answer):
        yield from filter(None, (word_of(place.get(name)) for name in IN_ERRORS))
    if isinstance(answer, dict):
        names = ("error", *ALWAYS, *IN_ERRORS) if failed else ("error", *ALWAYS)
        yield from filter(None, (word_of(answer.get(name)) for name in names))


def word_of(value: Json) -> str:
    """The value if it is a word or a number, else nothing."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return text if isinstance(text, str) and WORD.fullmatch(text) else ""


def _errors(answer: Json) -> Iterator[dict[str, Any]]:
    error = answer.get("error") if isinstance(answer, dict) else None
    while isinstance(error, dict):
        yield error
        error = error.get("innererror")
