"""Executions, their logs, approvals, agents, runners and tools, as operators read them; nothing is written.

An execution is shown as it stands. What its clock asks for is left to the kernel, which looks within a minute: a call
whose time is over may be shown as waiting until then.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.edge.http import Response
from piecework.jsons import Json
from piecework.kernel.edge import moment
from piecework.kernel.errors import NotFound
from piecework.kernel.model.events import is_private
from piecework.kernel.model.ports.executions import Executions, Filter
from piecework.kernel.model.ports.runners import Runners
from piecework.kernel.model.questions import HIDDEN, SHOWN
from piecework.kernel.needs import APPROVERS
from piecework.kernel.service.reasons import Reasons
from piecework.kernel.wire.cursors import key_cursor, key_of, page_of, place_of
from piecework.kernel.wire.directory import page_of as tools_page
from piecework.kernel.wire.frames import event_body
from piecework.kernel.wire.pages import page_of_approvals
from piecework.kernel.wire.views import (
    agent_body,
    approval_body,
    arguments_body,
    execution_body,
    reason_body,
    row_body,
    runner_body,
)
from piecework.ops.door import Asked
from piecework.ops.kernel.asking import answered, labels_asked, status_of
from piecework.ops.query import number, one_of, texts

if TYPE_CHECKING:
    from piecework.kernel.connected.lists import Connected

LIST: Final = 50
LIST_MOST: Final = 200
EVENTS: Final = 100
EVENTS_MOST: Final = 1_000
OWNERS: Final = 20  # agents or runners on a page: each costs requests of its own
OWNERS_MOST: Final = 50
MOST_SEQUENCE: Final = 10**15
REASONS: Final = "reasons"
STATES: Final = ("waiting", "answered")
PRIVATE: Final = "private arguments"  # what a request's line in the log says of a look at them


class KernelViews:
    """What operators read of the kernel; callers were checked by the door."""

    def __init__(
        self, executions: Executions, runners: Runners, reasons: Reasons, connected: Callable[[], "Connected"]
    ) -> None:
        self._executions, self._runners, self._reasons, self._connected = executions, runners, reasons, connected

    def listed(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/executions: a page, the newest first."""
        query = dict(asked.request.query)
        pairs = labels_asked(query.pop("label", []))
        given = texts(query, "status", "agent_id", "created_after", "created_before", "include", "limit", "cursor")
        times = [moment(name, given.get(name)) for name in ("created_after", "created_before")]
        which = Filter(status_of(given.get("status", "")), given.get("agent_id", ""), pairs, *times)
        is_with_reasons = bool(one_of(given, "include", (REASONS,)))
        limit = number(given, "limit", LIST, LIST if is_with_reasons else LIST_MOST, least=1)
        rows, cursor = page_of(self._executions.rows(which, place_of(given.get("cursor", "")), limit + 1), limit)
        shown = [row_body(row) for row in rows]
        if is_with_reasons:
            found = self._reasons.of_rows(rows)
            shown = [body | reason_body(found.get(row.id)) for body, row in zip(shown, rows, strict=True)]
        return answered({"executions": shown, "next_cursor": cursor})

    def one(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/executions/{execution_id}. Raises NotFound."""
        texts(asked.request.query)
        view = self._executions.view(asked.named["execution_id"])
        if view is None:
            raise NotFound("no such execution")
        return answered(execution_body(self._reasons.with_reasons(view)))

    def events(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/executions/{execution_id}/events: a page of its log, empty for an unknown one.

        Private arguments are for approvers, and each look is logged.
        """
        given = texts(asked.request.query, "after_sequence", "limit")
        id_, after = asked.named["execution_id"], number(given, "after_sequence", 0, MOST_SEQUENCE)
        page = self._executions.events(id_, after, number(given, "limit", EVENTS, EVENTS_MOST, least=1))
        to_approver = asked.caller.may(APPROVERS)
        looks = to_approver and any(map(is_private, page))
        bodies: list[Json] = [event_body(event, to_approver=to_approver) for event in page]
        body = {"events": bodies, "latest_sequence": page[-1].sequence if page else 0}
        return answered(body, **({"shows": PRIVATE, "execution_id": id_} if looks else {}))

    def approvals(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/approvals: those that wait, the oldest first, or the newest answers."""
        given = texts(asked.request.query, "state", "limit", "cursor")
        state = one_of(given, "state", STATES) or STATES[0]
        limit = number(given, "limit", LIST, LIST_MOST, least=1)
        place = key_of(given.get("cursor", ""))
        page, then = page_of_approvals(self._executions, place, limit, answered=state == "answered")
        return answered({"approvals": [approval_body(one) for one in page], "next_cursor": key_cursor(then)})

    def approval(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/executions/{execution_id}/approvals/{step_id}. Raises NotFound.

        Private arguments are for approvers, and each look is logged.
        """
        texts(asked.request.query)
        ids = (asked.named["execution_id"], asked.named["step_id"])
        both = self._executions.approval(*ids)
        if both is None:
            raise NotFound("no such approval")
        found, step = both
        if not step.has_arguments:
            return answered(approval_body(found, {"shown": "none"}))
        if step.is_private and not asked.caller.may(APPROVERS):
            return answered(approval_body(found, dict(HIDDEN)))
        facts = {"shows": PRIVATE, "execution_id": ids[0], "step_id": ids[1]} if step.is_private else {}
        return answered(approval_body(found, arguments_body(step.arguments, most=SHOWN)), **facts)

    def agents(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/agents: who is connected for each, what they work on, what waits."""
        cursor, limit, only = _page_asked(asked, "agent_id")
        page, then = self._connected().agents(cursor, limit, only)
        return answered({"agents": [agent_body(shown) for shown in page], "next_cursor": then})

    def runners(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/runners: their connections, jobs and tools."""
        cursor, limit, only = _page_asked(asked, "runner_id")
        page, then = self._connected().runners(cursor, limit, only)
        return answered({"runners": [runner_body(shown) for shown in page], "next_cursor": then})

    def tools(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/tools: the directory, a page of it where it is large."""
        given = texts(asked.request.query, "prefix", "cursor")
        page, then = tools_page(self._runners.directory(given.get("prefix", "")), given.get("cursor", ""))
        return answered({"tools": page, "next_cursor": then})


def _page_asked(asked: Asked, only: str) -> tuple[str, int, str]:
    given = texts(asked.request.query, only, "limit", "cursor")
    return given.get("cursor", ""), number(given, "limit", OWNERS, OWNERS_MOST, least=1), given.get(only, "")
