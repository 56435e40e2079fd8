"""The place in a list, as clients carry it (specification section 2.3)."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from piecework.kernel.errors import Invalid
from piecework.kernel.model.ports.executions import Place, Summaries, Summary

LIST_BYTES: Final = 4_000_000  # of labels in one answer: it must fit the 6 MB of a function's, as base64
NOT_OURS: Final = "the cursor is not one that this door has given"

KEY: Final = re.compile(r"[0-9]{15}#.", re.ASCII)
KEY_BYTES: Final = 600  # of a time and two ids; DynamoDB refuses to look for more than 1,024


def enough(rows: Iterable[Summary]) -> Iterator[Summary]:
    """Rows until their labels fill a page; the one that is too many is the last."""
    size = 0
    for number, row in enumerate(rows):
        yield row
        size += _bytes(row)
        if number and size > LIST_BYTES:
            return


def page_of(found: Summaries, limit: int) -> tuple[list[Summary], str]:
    """As many of the rows as a page holds, and the cursor of the next page; empty when there is none."""
    size, held = 0, 0
    for row in found.rows[:limit]:
        size += _bytes(row)
        if held and size > LIST_BYTES:
            break
        held += 1
    page = list(found.rows[:held])
    if len(found.rows) > held:
        return page, cursor_of(page[-1])
    return page, _text(*found.then) if found.then else ""


def cursor_of(row: Summary) -> str:
    """A cursor for the rows after this one; safe in a query string as it is."""
    return _text(row.created_at_ms, row.id)


def cursor_at(at_ms: int) -> str:
    """A cursor for the rows of executions that were created until then."""
    return _text(at_ms, "~")  # sorts after every id


def _text(created_at_ms: int, execution_id: str) -> str:
    return base64.urlsafe_b64encode(f"{created_at_ms}|{execution_id}".encode()).decode().rstrip("=")


def place_of(cursor: str) -> Place | None:
    """The place a cursor stands for; None for no cursor.

    Raises:
        Invalid: this door did not give it out.
    """
    if not cursor:
        return None
    created, parted, execution_id = text_of(cursor).partition("|")
    if not (created.isascii() and created.isdecimal() and len(created) <= 15 and parted and execution_id):
        raise Invalid(NOT_OURS)
    return int(created), execution_id


def key_cursor(key: str) -> str:
    """A cursor for the rows that follow a key of a list; empty for none."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(cursor: str) -> str:
    """The key that a cursor stands for; empty for no cursor.

    Raises:
        Invalid: this door did not give it out.
    """
    raw = text_of(cursor)
    if raw and (len(raw.encode()) > KEY_BYTES or not KEY.match(raw)):
        raise Invalid(NOT_OURS)
    return raw


def text_of(cursor: str) -> str:
    """What a cursor was made of; empty for no cursor.

    Raises:
        Invalid: no door gave it out.
    """
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise Invalid(NOT_OURS) from None


def _bytes(row: Summary) -> int:
    return len(json.dumps(dict(row.labels), ensure_ascii=False).encode("utf-8", "surrogatepass"))
