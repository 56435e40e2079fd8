"""The kind and place of a bug for the log, without its text, which may quote a caller's data."""

import traceback
from os.path import basename
from typing import Final

PLACES: Final = 3  # the innermost ones: the failed line and its callers


def fault_of(bug: BaseException) -> dict[str, str]:
    """The log fields of an exception: `exception` and `where`, the innermost place first."""
    frames = traceback.extract_tb(bug.__traceback__)[-PLACES:]
    places = (f"{basename(frame.filename)}:{frame.lineno} in {frame.name}" for frame in reversed(frames))
    return {"exception": type(bug).__name__, "where": ", ".join(places)}
