"""Pages of the tool directory: an array each, and a link to the next one in its head (RFC 8288)."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from piecework.jsons import Json
from piecework.kernel.errors import Invalid
from piecework.kernel.model.ports.runners import ToolEntry
from piecework.kernel.wire.views import tool_body

PAGE_BYTES: Final = 4_000_000  # as JSON: it must fit the 6 MB of a function's answer, as base64


def page_of(entries: Sequence[ToolEntry], cursor: str) -> tuple[list[Json], str]:
    """As many tools after the cursor as a page holds, one at least, and the cursor of the next page, or nothing.

    Raises:
        Invalid: the cursor is not one that this door has given.
    """
    begin, size, page = _place_of(cursor), 0, list[Json]()
    for entry in entries:
        if entry.id <= begin:
            continue
        body = tool_body(entry)
        size += _bytes(body)
        if page and size > PAGE_BYTES:
            return page, _cursor_of(str(page[-1]["id"]))
        page.append(body)
    return page, ""


def link_to(prefix: str, cursor: str) -> dict[str, str]:
    """The header that leads to the next page; relative, so that it holds behind any base path."""
    if not cursor:
        return {}
    query = urlencode({"prefix": prefix, "cursor": cursor} if prefix else {"cursor": cursor})
    return {"Link": f'<?{query}>; rel="next"'}


def _bytes(body: Json) -> int:
    return len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")) + 1


def _cursor_of(tool_id: str) -> str:
    return base64.urlsafe_b64encode(tool_id.encode()).decode().rstrip("=")


def _place_of(cursor: str) -> str:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise Invalid("the cursor is not one that this door has given") from None
