"""Rate windows in the kernel table: `pk` = RATE#<digest of agent and tool>, `sk` = WINDOW; one put per allowed call.

Attributes: `calls` (6 bytes each, epoch ms), `most`, `window_ms`, `write` (drawn anew for every write, so that a
repeated request recognises its own first try), `expires_at` (s; the table's TTL).

A copy remembers the windows it wrote or met. What it remembers can only lack calls of other copies, so a full window
refuses without a request; a put that meets another copy's is answered with that one's window, and decides again:

    copy A: put at w1 -> w2      copy B: put at w1 -> refused, shown w2 -> full, or put at w2 -> w3
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, Table, Written
from piecework.aws.writes import ABSENT, new_write
from piecework.chance import uniform
from piecework.errors import Unavailable
from piecework.kernel.policy.windows import RateWindows, Window, window_id

if TYPE_CHECKING:
    from piecework.aws.table import Client

Known = tuple[str, Window]  # the write it was read from, and the window

AS_KNOWN: Final = "#write = :known"
REMEMBERED: Final = 1_000  # pairs; a forgotten one costs one request more
CALL_BYTES: Final = 6
TRIES: Final = 100  # every conflict lets another copy's call through, so only a flood of them gets here
GAP_SECONDS: Final = 0.005  # times the conflicts so far, up to twenty
MOST_GAPS: Final = 20
SLACK_SECONDS: Final = 3_600  # an item outlives its window by this much, whatever the copies' clocks say


class RateTable(RateWindows):
    """Windows in DynamoDB."""

    def __init__(self, client: Client, table: str, sleep: Callable[[float], None] = real_sleep) -> None:
        self._table = Table(client, table, THE_KERNEL, sleep)
        self._sleep = sleep
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = Lock()

    def take(self, agent_id: str, tool_id: str, most: int, window_ms: int, now_ms: int) -> bool:
        name = window_id(agent_id, tool_id)
        known = self._remembered(name)
        for conflicts in range(TRIES):
            taken = (known[1] if known else Window()).taken(most, window_ms, now_ms)
            if taken is None:
                return False
            write = new_write()
            written = self._put(to_item(name, taken, write), known)
            known = (write, taken) if written.done else _known(written.row)
            self._remember(name, known)
            if written.done:
                return True
            self._sleep(uniform(0, GAP_SECONDS * min(conflicts, MOST_GAPS)))  # spreads the copies
        raise Unavailable("too many calls to this tool at once; try again")

    def _put(self, item: Item, known: Known | None) -> Written:
        """Write a window in place of the known one; else the answer holds the row that stands there."""
        if known is None:
            return self._table.put(item, ABSENT)
        return self._table.put(item, AS_KNOWN, {"known": known[0]})

    def _remembered(self, name: str) -> Known | None:
        with self._lock:
            return self._known.get(name)

    def _remember(self, name: str, known: Known | None) -> None:
        with self._lock:
            self._known.pop(name, None)
            if known:
                self._known[name] = known
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)


def to_item(name: str, window: Window, write: str) -> Item:
    """A window as it is written."""
    return {
        "pk": f"RATE#{name}",
        "sk": "WINDOW",
        "calls": b"".join(call.to_bytes(CALL_BYTES, "big") for call in window.calls),
        "most": window.most,
        "window_ms": window.window_ms,
        "write": write,
        "expires_at": window.ends_at_ms // 1000 + SLACK_SECONDS,
    }


def from_item(item: Item) -> Window:
    """A stored window."""
    raw = item["calls"]
    calls = (int.from_bytes(raw[at : at + CALL_BYTES], "big") for at in range(0, len(raw), CALL_BYTES))
    return Window(tuple(calls), item["most"], item["window_ms"])


def _known(item: Item) -> Known | None:
    return (item["write"], from_item(item)) if item else None
