"""The place in a list of executions, as clients carry it (specification section 2.3)."""

import base64
import binascii

from piecework.kernel.errors import ValidationError
from piecework.kernel.ports import Row


def cursor_of(row: Row) -> str:
    """A cursor for the rows after this one; safe in a query string as it is."""
    return base64.urlsafe_b64encode(f"{row.created_at_ms}|{row.id}".encode()).decode().rstrip("=")


def place_of(cursor: str) -> tuple[int, str] | None:
    """The place a cursor stands for; None for no cursor.

    Raises:
        ValidationError: it is none of ours.
    """
    if not cursor:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        created, parted, execution_id = raw.decode("utf-8").partition("|")
    except (binascii.Error, ValueError):
        raise ValidationError("cursor is not one of ours") from None
    if not (created.isascii() and created.isdecimal() and len(created) <= 15 and parted and execution_id):
        raise ValidationError("cursor is not one of ours")
    return int(created), execution_id
