"""Where a bug is, for the log: its kind and its place, without its text, which may quote what a caller sent."""

import traceback
from pathlib import PurePath
from typing import Final

PLACES: Final = 3  # the innermost ones: the line that failed, and who called it


def fault_of(bug: BaseException) -> dict[str, str]:
    """The fields of a log line about an exception: `exception` and `where`, the innermost place first."""
    frames = traceback.extract_tb(bug.__traceback__)[-PLACES:]
    places = (f"{PurePath(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in reversed(frames))
    return {"exception": type(bug).__name__, "where": ", ".join(places)}
