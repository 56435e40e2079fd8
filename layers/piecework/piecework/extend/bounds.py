"""Bounds on what executors make: every text, name and value is bounded here, before a door stores or sends it.

All doors and the stand-ins of tests use this one module, so that an executor gets the same answer everywhere. Progress,
reasons and media types are shortened. Other values that are too long are refused for good, with a text that states the
bound and does not quote the value. A value of a wrong type is a bug of the executor, as in any Python call.
"""

from collections.abc import Mapping
from typing import Any, Final

from piecework.errors import BadRequest, Refused
from piecework.jsons import Json, canonical, loads_exact

STEP_BYTES: Final = 350_000  # of a step's result as JSON; an item of DynamoDB holds 400 KB
NAME_CHARACTERS: Final = 1_024  # of the name of a step or an artifact; doors shorten files' names further
TOOL_ID_BYTES: Final = 256  # the same bound as for a connected agent
ARGUMENTS_BYTES: Final = 1_048_576  # the same
REASON_BYTES: Final = 4_096  # of a failure's text; records, events and items hold that much
PROGRESS_CHARACTERS: Final = 500
MEDIA_TYPE_CHARACTERS: Final = 255  # type and subtype have 127 each at most (RFC 6838, 4.2)
MOST_FACTS: Final = 64  # of one run's outcome line
FACT_CHARACTERS: Final = 256
UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"


def step_name(name: str) -> str:
    """The name of a step.

    Raises:
        Refused: it is too long, or holds a lone surrogate.
    """
    return _name(name, "a step")


def artifact_name(name: str) -> str:
    """The name of an artifact.

    Raises:
        Refused: it is too long.
    """
    return _name(name, "an artifact", "replace")


def step_result(result: Any) -> bytes:
    """A step's result as recorded: canonical JSON that can be read back.

    Raises:
        Refused: it is not JSON, or is larger than `STEP_BYTES`.
    """
    raw = _json(result, "the result of a run.step")
    if len(raw) > STEP_BYTES:
        raise Refused(f"the result of a run.step is larger than {STEP_BYTES} bytes")
    return raw


def tool_call(tool_id: str, arguments: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """A tool's id and arguments as they may be sent.

    Raises:
        Refused: the id is empty or too long, or the arguments are not a JSON object of at most `ARGUMENTS_BYTES`.
    """
    _text(tool_id, "the id of a tool")
    if not 0 < len(tool_id.encode("utf-8", "surrogatepass")) <= TOOL_ID_BYTES or not _is_unicode(tool_id):
        raise Refused(f"the id of a tool must be a text of 1 to {TOOL_ID_BYTES} bytes")
    members = dict(arguments)
    if len(_json(members, "the arguments object of run.tool")) > ARGUMENTS_BYTES:
        raise Refused(f"the arguments of run.tool are larger than {ARGUMENTS_BYTES} bytes")
    return tool_id, members


def reason(text: object) -> str:
    """The text of a failure, shortened to `REASON_BYTES` of UTF-8."""
    raw = str(text).encode("utf-8", "replace")
    return raw[:REASON_BYTES].decode("utf-8", "ignore")


def progress(pct: float, text: str) -> tuple[float, str]:
    """The progress of the work in per cent, 0 to 100, and a short text."""
    bounded = min(100.0, max(0.0, float(pct)))  # in this order NaN becomes 0
    return bounded, _text(text, "the text of progress")[:PROGRESS_CHARACTERS]


def media_type(mime: str) -> str:
    """The media type; a too long one becomes the unknown type."""
    return mime if len(_text(mime, "a media type")) <= MEDIA_TYPE_CHARACTERS else UNKNOWN_MEDIA_TYPE


def facts(given: Mapping[str, Any]) -> dict[str, int | float | str]:
    """Figures for an outcome line: numbers unchanged, other values as a short text."""
    kept = list(given.items())[:MOST_FACTS]
    return {name[:FACT_CHARACTERS]: _fact(value) for name, value in kept}


def _fact(value: Any) -> int | float | str:
    if isinstance(value, int | float):
        return value
    return str(value)[:FACT_CHARACTERS].encode("utf-8", "replace").decode()


def _name(name: str, of: str, errors: str = "strict") -> str:
    if len(_text(name, f"the name of {of}")) > NAME_CHARACTERS:
        raise Refused(f"the name of {of} is longer than {NAME_CHARACTERS} characters")
    if errors == "strict" and not _is_unicode(name):
        raise Refused(f"the name of {of} holds a lone surrogate, which is not text")
    return name.encode("utf-8", errors).decode()


def _json(value: Any, what: str) -> bytes:
    """Canonical bytes that our own reader accepts."""
    try:
        raw = canonical(value)
        loads_exact(raw)
    except (ValueError, BadRequest):
        raise Refused(f"{what} is not a JSON value") from None
    return raw


def _text(value: str, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
