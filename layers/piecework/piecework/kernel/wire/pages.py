"""Pages: of a log as many events as one answer can hold (specification section 2.7), and of approvals.

An answer is UTF-8, unless one of its texts holds half of a surrogate pair: then all of it is escaped, and twice as long
or more. So events are measured as they will be answered, not as they are stored.
"""

import json
from collections.abc import Iterable
from typing import Final

from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.executions import ApprovalPage, Executions
from piecework.kernel.wire.frames import event_body

PAGE_BYTES: Final = 4_000_000  # of events in one answer: as base64 they fit the 6 MB of a function's


def page_of_events(log: Iterable[Event], limit: int) -> list[Event]:
    """The first events of a log, no more than an answer holds, and at least one; of the rest one is looked at."""
    page: list[Event] = []
    plain, escaped, is_escaped = 0, 0, False
    for event in log:
        text = json.dumps(event_body(event, to_approver=True), ensure_ascii=False, separators=(",", ":"))
        is_escaped = is_escaped or not _is_utf8(text)
        plain += len(text.encode("utf-8", "surrogatepass"))
        escaped += (
            len(text) if text.isascii() else len(json.dumps(event_body(event, to_approver=True), separators=(",", ":")))
        )
        if page and (escaped if is_escaped else plain) > PAGE_BYTES:
            break
        page.append(event)
        if len(page) == limit:
            break
    return page


def page_of_approvals(executions: Executions, place: str, limit: int, *, answered: bool) -> ApprovalPage:
    """Approvals behind a place: those that wait, the oldest first, or those that were answered, the newest first."""
    if answered:
        return executions.answered(limit, place)
    found = executions.approvals(limit + 1, place)
    return ApprovalPage(found[:limit], found[limit - 1].key if len(found) > limit else "")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
