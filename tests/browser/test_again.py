"""Pages that look again: one look at a time, none while hidden, at once on return, never an old answer as a new one."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.executions.looking import EXECUTION, a_log, answer_with
from tests.browser.told_time import ToldTime, hide

pytestmark = pytest.mark.slow
LIVE = {  # the view, the request that begins each of its looks, and seconds between two
    "now": ("/now", "/ops/status", 10),
    "executions": ("/executions", "/ops/kernel/executions", 5),
    "execution": (f"/executions/{EXECUTION}", f"/ops/kernel/executions/{EXECUTION}", 15),
    "task": ("/hired/{doubt}", "/ops/tasks/{doubt}", 10),
    "inbox": ("/inbox", "/ops/kernel/approvals", 5),
    "agents": ("/agents", "/ops/kernel/agents", 10),
}


def faked(page):
    """The kernel door's answers, without one."""
    begun = (0, "execution.created", {"agent_id": "writer", "input": 1, "labels": {}})
    answer_with(page, a_log(begun), "running")
    page.route("**/stream", lambda route: None)  # it stays open, and nothing happens
    for name in ("executions", "approvals", "agents"):
        page.route(re.compile(rf"/ops/kernel/{name}(\?.*)?$"), answering({name: [], "next_cursor": ""}))


def answering(body):
    return lambda route: route.fulfill(json=body)


@pytest.mark.parametrize("name", LIVE)
def test_a_page_has_one_look_at_a_time_and_none_while_it_is_hidden(console, open_console, name):
    path, begins, seconds = LIVE[name]
    path, begins = (text.format(**console.seeded.contracts) for text in (path, begins))
    page = open_console()
    faked(page)
    time = ToldTime(page)
    page.goto(f"{console.url}/console{path}")
    page.clock.run_for(1_000)
    page.locator("#main h1").wait_for()
    time.stop()
    asked, held, is_holding = [], [], [False]
    page.on("request", lambda request: urlsplit(request.url).path == begins and asked.append(request.url))
    page.route(
        lambda url: urlsplit(url).path == begins,
        lambda route: held.append(route) if is_holding[0] else route.fallback(),
    )

    def counted():
        page.evaluate("0")  # what was asked before has been told
        return len(asked)

    time.go_on(seconds)
    assert counted() == 1
    hide(page)
    time.go_on(5 * seconds)
    assert counted() == 1
    hide(page, False)
    time.answered()
    assert counted() == 2  # at once
    is_holding[0] = True
    time.go_by(seconds)
    time.go_by(2 * seconds)
    assert counted() == 3  # which is not answered
    hide(page)
    hide(page, False)
    assert counted() == 3
    is_holding[0] = False
    held[0].fallback()
    time.answered()
    assert counted() == 4  # what the return asked for: the answer before may have been made before it
    time.go_on(seconds)
    assert counted() == 5


def test_a_task_that_cannot_be_looked_at_again_stays_and_it_is_said(console, open_console, watch):
    watch.allow("400")
    page = open_console()
    time = ToldTime(page)
    contract = console.seeded.contracts["doubt"]
    page.goto(f"{console.url}/console/hired/{contract}")
    expect(page.get_by_role("heading", name="Task")).to_be_visible()
    time.stop()
    refusal = {"code": "bad_request", "error": "not <b>now</b>"}
    page.route(f"**/ops/tasks/{contract}", lambda route: route.fulfill(status=400, json=refusal))
    time.go_on(10)
    expect(page.get_by_role("alert")).to_contain_text("not <b>now</b>")
    expect(page.get_by_role("heading", name="Task")).to_be_visible()

    page.unroute(f"**/ops/tasks/{contract}")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("not <b>now</b>")).to_have_count(0)


def test_now_shows_nothing_old_as_new_where_its_first_question_fails(console, open_console, watch):
    watch.allow("400")
    page = open_console()
    failed = {"id": EXECUTION, "agent_id": "writer", "status": "failed", "labels": {}, "error": "the old one"}
    times = {"created_at": "2026-11-01T00:00:00Z", "updated_at": "2026-11-01T00:00:00Z", "waiting_for": None}
    answers = {"executions": [{**failed, **times}], "next_cursor": ""}
    page.route("**/ops/kernel/executions?**", lambda route: route.fulfill(json=answers))
    time = ToldTime(page)
    page.goto(f"{console.url}/console/now")
    broken = page.get_by_role("region", name="Executions that failed").first
    expect(broken).to_contain_text("the old one")
    time.stop()
    page.route("**/ops/status", lambda route: route.fulfill(status=400, json={"code": "bad_request", "error": "no"}))
    answers["executions"] = []
    time.go_on(10)

    expect(page.get_by_role("region", name="Doors")).to_contain_text("no")
    expect(broken).not_to_contain_text("the old one")


def test_an_answer_that_never_comes_is_told_and_the_looks_go_on(console, open_console):
    page = open_console()
    faked(page)
    time = ToldTime(page)
    page.goto(f"{console.url}/console/agents")
    expect(page.get_by_text("No agent has connected")).to_be_visible()
    time.stop()
    page.route("**/ops/kernel/agents", lambda route: None)
    time.go_by(10 + 41)
    expect(page.get_by_role("alert")).to_contain_text("The door cannot be reached")

    page.unroute("**/ops/kernel/agents")
    faked(page)
    time.go_by(41)
    time.answered()
    time.go_on(10)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("No agent has connected")).to_be_visible()
