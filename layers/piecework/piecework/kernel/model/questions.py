"""What a person is told of a call that needs one: kept when the call is made, of bounded size, shown in lists."""

import json
from typing import Final

from piecework.jsons import Json
from piecework.values import dataclass

LISTED: Final = 2_000  # characters of the arguments that a list shows; of the step itself all are kept
REASON: Final = 500  # characters of a rule's or an answer's reason; the events have all of it
SHOWN: Final = 64_000  # the same of one approval
HIDDEN: Final[dict[str, Json]] = {
    "shown": "private"
}  # what stands for private arguments, wherever a reader would get them


@dataclass(frozen=True, slots=True)
class Question:
    """Why a person is asked, and what about; `arguments` are JSON text from its beginning."""

    rule_id: str
    reason: str
    since_ms: int
    arguments: str = ""  # empty: there are none
    length: int = 0  # characters of all of them
    is_private: bool = False  # the arguments are for approvers only
    until_ms: int | None = None  # None: as long as the execution lives
    on_timeout: str = ""
    notify: str = ""  # notices are published under this name; empty: there are none
    by: str = ""  # the name of the token that made the call


def beginning(arguments: Json, most: int) -> tuple[str, int]:
    """Arguments as text, cut after so many characters, and the length of the whole text."""
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode()
    return text[:most], len(text)
