"""Rate windows in the kernel table: `pk` = RATE#<digest of agent and tool>, `sk` = WINDOW; one put per allowed call.

Attributes: `calls` (6 bytes each, epoch ms), `most`, `window_ms`, `write` (drawn anew for every write, so that a
repeated request recognises its own first try), `expires_at` (s; the table's TTL).

A copy remembers the windows it wrote or met. What it remembers can only lack calls of other copies, so a full window
refuses without a request; a put that meets another copy's is answered with that one's window, and decides again:

    copy A: put at w1 -> w2      copy B: put at w1 -> refused, told w2 -> full, or put at w2 -> w3
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from random import uniform
from threading import Lock
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.errors import Unavailable
from piecework.kernel.policy.windows import RateWindows, Window, window_id

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]
Known = tuple[str, Window]  # the write it was read from, and the window

THE_TABLE: Final = "the kernel table"
ABSENT: Final = "attribute_not_exists(pk)"
AS_KNOWN: Final = "#write = :known"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
REMEMBERED: Final = 1_000  # pairs; a forgotten one costs one request more
CALL_BYTES: Final = 6
TRIES: Final = 100  # every conflict lets another copy's call through, so only a flood of them gets here
GAP_SECONDS: Final = 0.005  # times the conflicts so far, up to twenty
MOST_GAPS: Final = 20
SLACK_SECONDS: Final = 3_600  # an item outlives its window by this much, whatever the copies' clocks say


class RateTable(RateWindows):
    """Windows in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str, sleep: Callable[[float], None] = real_sleep) -> None:
        self._client = client
        self._table = table
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
            write = secrets.token_hex(8)
            standing = self._put(name, taken, write, known[0] if known else None)
            self._remember(name, (write, taken) if standing is None else _known(standing))
            if standing is None or standing.get("write") == {"S": write}:
                return True
            known = _known(standing)
            self._sleep(uniform(0, GAP_SECONDS * min(conflicts, MOST_GAPS)))  # noqa: S311  # spreads the copies
        raise Unavailable("too many calls to this tool at once; try again")

    def _put(self, name: str, window: Window, write: str, known: str | None) -> Item | None:
        """Write a window in place of the known one; None, or the item that stands there instead, {} for none."""
        condition: dict[str, Any] = {"ConditionExpression": ABSENT}
        if known is not None:
            condition = {
                "ConditionExpression": AS_KNOWN,
                "ExpressionAttributeNames": {"#write": "write"},
                "ExpressionAttributeValues": {":known": {"S": known}},
            }
        with aws_errors(THE_TABLE):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=to_item(name, window, write),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **condition,
                )
                return None
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
                standing: Any = error.response.get("Item")
        return dict(standing or {})

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
        "pk": {"S": f"RATE#{name}"},
        "sk": {"S": "WINDOW"},
        "calls": {"B": b"".join(call.to_bytes(CALL_BYTES, "big") for call in window.calls)},
        "most": {"N": str(window.most)},
        "window_ms": {"N": str(window.window_ms)},
        "write": {"S": write},
        "expires_at": {"N": str(window.ends_at_ms // 1000 + SLACK_SECONDS)},
    }


def from_item(item: Mapping[str, Any]) -> Window:
    """A stored window."""
    raw = bytes(item["calls"]["B"])
    calls = (int.from_bytes(raw[at : at + CALL_BYTES], "big") for at in range(0, len(raw), CALL_BYTES))
    return Window(tuple(calls), int(item["most"]["N"]), int(item["window_ms"]["N"]))


def _known(item: Item) -> Known | None:
    return (item["write"]["S"], from_item(item)) if item else None
