"""What a page of an execution shows, and executions that only the browser's requests are told of."""

import itertools
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.events import Event
from piecework.kernel.wire.frames import event_body
from tests.support.kernel.payloads import check_payloads

EXECUTION = "01a22621-67b8-7f83-b488-86273dc13a26"
BEGAN_MS = 1_790_000_000_000


def a_log(*told):
    """Events of one execution, as the door tells them: (milliseconds after the begin, type, payload, step)."""
    ids = (f"00000000-0000-4000-8000-{number:012x}" for number in itertools.count(1))
    events = [
        Event(next(ids), EXECUTION, sequence, kind, BEGAN_MS + after, payload, cause := next(ids), cause, *step)
        for sequence, (after, kind, payload, *step) in enumerate(told, 1)
    ]
    check_payloads(events)
    return [event_body(event) for event in events]


def answer_with(page, events, status="completed", **members):
    """The door has this execution, with these members of its own; requests for its log are kept."""
    asked = []
    body = {
        **{"id": EXECUTION, "status": status, "agent_id": "writer", "labels": {}, "input": {"prompt": "write"}},
        **{"output": {"words": 3}, "error": None, "waiting_for": None, "again_of": None, "forgotten": None},
        **{"created_at": rfc3339(BEGAN_MS), "updated_at": rfc3339(BEGAN_MS + 9_000)},
        **members,
    }

    def of_log(route):
        query = parse_qs(urlsplit(route.request.url).query)
        after, limit = (int(query[name][0]) for name in ("after_sequence", "limit"))
        asked.append(after)
        page_of = events[after : after + limit]
        route.fulfill(json={"events": page_of, "latest_sequence": page_of[-1]["sequence"] if page_of else 0})

    page.route(f"**/ops/kernel/executions/{EXECUTION}", lambda route: route.fulfill(json=body))
    page.route(f"**/ops/kernel/executions/{EXECUTION}/events?**", of_log)
    return asked


def lane(page, name):
    """The row of the waterfall with this name."""
    return page.get_by_role("list", name="Steps in time").get_by_role("listitem").filter(has_text=name)


def types(page):
    """The types of all events that the log shows."""
    rows = page.get_by_role("list", name="Events").get_by_role("listitem")
    return [text.strip() for text in rows.locator("> code").all_inner_texts()]


def standing(page, text):
    expect(page.locator("p.stream")).to_contain_text(text)
