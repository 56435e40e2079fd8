"""Webhooks about approvals as operators see them, and the rows that they are read from."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class HookHead(NamedTuple):
    """What an operator sees of a webhook; `key` is its place in the list, empty where it is in none."""

    execution_id: str
    event_id: str
    name: str  # of its receiver
    notice: str
    step_id: str
    at_ms: int | None  # when it was handed over; None where earlier code kept it
    state: str
    attempt: int  # that comes next, or was the last
    tries: Sequence[tuple[int, int | None, int]]  # number, status of the answer or None, and when it ended
    key: str = ""


class HookPage(NamedTuple):
    """A part of the list; `then` is the place that older ones follow, empty at the end.

    It may hold fewer than were asked for, or nothing, before the end: a row can be gone that the list still names.
    """

    heads: list[HookHead]
    then: str


class HookRows(Protocol):
    """Webhooks that are kept; each method is a bounded number of requests."""

    def newest(self, before: str, limit: int) -> HookPage:
        """Those among the first `limit` places of the list before a place, the newest first."""

    def of_execution(self, execution_id: str, after: str, limit: int) -> HookPage:
        """The first `limit` of one execution after an id, by their ids; `then` is the id that others follow."""
