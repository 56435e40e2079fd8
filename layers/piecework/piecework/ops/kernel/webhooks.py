"""Webhooks about approvals, as operators see them; `Verbs` has them sent again.

A list goes by the time at which a webhook was handed to its sender, the newest first. Each row has its state and its
tries; of what it tells it has ids alone, and of whom it tells a name: addresses and secrets are the sender's.
"""

from typing import Final

from piecework.edge.http import Response
from piecework.jsons import Json
from piecework.kernel.edge import checked_id
from piecework.kernel.wire.cursors import key_cursor, key_of
from piecework.ops.door import Asked
from piecework.ops.hooks import HookHead, HookRows
from piecework.ops.kernel.asking import answered
from piecework.ops.query import number, one_of, texts
from piecework.webhooks.deliveries import DeliveryState

PAGE: Final = 25
PAGE_MOST: Final = 50
LOOKS: Final = 5  # pages that are read for one, where only some states are asked for
BY_ID: Final = f"{0:015d}#"  # before an id in the cursors of one execution's, which have the form of a time and an id
STATES: Final = tuple(state.value for state in DeliveryState)


class KernelHookViews:
    """Lists webhooks; callers were checked by the door."""

    def __init__(self, rows: HookRows) -> None:
        self._rows = rows

    def listed(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/webhooks: a page of all, or those of one execution.

        Raises:
            BadRequest: a parameter has no meaning.
            Invalid: the id is too long, or this door did not give the cursor out.
        """
        given = texts(asked.request.query, "execution_id", "state", "limit", "cursor")
        state, limit = one_of(given, "state", STATES), number(given, "limit", PAGE, PAGE_MOST, least=1)
        place = key_of(given.get("cursor", ""))
        if execution_id := checked_id("execution_id", given.get("execution_id", "")):
            found = self._rows.of_execution(execution_id, place.partition("#")[2], PAGE_MOST)
            shown: list[Json] = [_shown(one) for one in found.heads if state in ("", one.state)]
            return answered({"items": shown, "next": key_cursor(BY_ID + found.then) if found.then else None})
        items: list[Json] = []
        for _ in range(LOOKS):
            page = self._rows.newest(place, limit)
            for head in page.heads:
                items += [_shown(head)] if state in ("", head.state) else []
                if len(items) == limit:
                    return answered({"items": items, "next": key_cursor(head.key)})
            place = page.then
            if not place:
                return answered({"items": items, "next": None})
        return answered({"items": items, "next": key_cursor(place)})


def _shown(head: HookHead) -> dict[str, Json]:
    tries: list[Json] = [{"attempt": made[0], "status": made[1], "at_ms": made[2]} for made in head.tries]
    shown: dict[str, Json] = {name: value for name, value in head._asdict().items() if name != "key"}
    return {**shown, "tries": tries}
