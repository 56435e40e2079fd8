"""The list of executions: filters, what is new, pages, many cancelled at once."""

import json
import re

import pytest
from playwright.sync_api import expect

from piecework.kernel.clocks import rfc3339
from tests.browser.executions.looking import BEGAN_MS

pytestmark = pytest.mark.slow


def test_the_list_renews_itself_and_its_filters_outlive_a_reload(desk, open_console):
    page = open_console("/executions")
    page.get_by_label("Agent").fill(desk.named("shop"))
    page.get_by_label("Agent").press("Enter")
    expect(page.get_by_text("No execution matches")).to_be_visible()

    work = desk.work("shop")
    row = page.get_by_role("row").filter(has_text=work.id)
    expect(row).to_contain_text("running", timeout=8_000)
    expect(row).to_contain_text("to go on")
    work.step("pay.refund", remote=False)
    expect(row).to_contain_text("a person", timeout=8_000)
    page.get_by_label("Status").select_option("running")
    expect(page.get_by_text("No execution matches")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Status")).to_have_value("running")
    expect(page.get_by_label("Agent")).to_have_value(desk.named("shop"))
    page.go_back()
    expect(row).to_be_visible()
    page.get_by_label("Created from").fill("2031-05-06T07:08:09")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No execution matches")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Created from")).to_have_value("2031-05-06T07:08:09")


def test_a_list_of_several_pages_is_renewed_at_its_head_alone(console, open_console):
    def row(number):
        time = rfc3339(BEGAN_MS + number)
        ids = {"id": f"{number:08d}-0000-4000-8000-000000000000", "agent_id": "shop", "labels": {}, "status": "running"}
        return {**ids, "created_at": time, "updated_at": time, "error": None, "waiting_for": f"page {number // 50}"}

    rows = [row(number) for number in range(100, 0, -1)]
    first = rows[:50]
    asked = []

    def answer(route):
        asked.append("cursor" in route.request.url)
        shown, cursor = (rows[50:], "") if asked[-1] else (first, "next")
        route.fulfill(json={"executions": shown, "next_cursor": cursor})

    page = open_console()
    page.route("**/ops/kernel/executions?**", answer)
    page.goto(f"{console.url}/console/executions")
    shown = page.locator("#main tbody tr")
    expect(shown).to_have_count(50)
    page.get_by_role("button", name="Load more").click()
    expect(shown).to_have_count(100)
    first = [row(101), *rows[:10], *rows[11:50]]  # a new one, and one that is gone
    expect(shown).to_have_count(100 + 1 - 1, timeout=8_000)
    expect(page.get_by_text("00000101-")).to_be_visible(timeout=8_000)
    expect(page.get_by_text("00000090-")).to_have_count(0)
    expect(page.get_by_text("00000001-")).to_be_visible()
    expect(page.get_by_text("those below the first 50 are as they were")).to_be_visible()
    first = [row(number) for number in range(300, 250, -1)]  # nothing joins them to what is shown
    expect(shown).to_have_count(50, timeout=8_000)
    expect(page.get_by_role("button", name="Load more")).to_be_visible()


def test_several_labels_must_all_match_and_are_all_counted_before_a_cancel(desk, open_console):
    mark = desk.mark
    both = desk.work("shop", labels={"team": mark, "env": "a:b"})
    one = desk.work("shop", labels={"team": mark, "env": "c"})
    page = open_console("/executions")
    page.get_by_label("Label").fill(f"team:{mark}")
    page.get_by_label("Label").press("Enter")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text=one.id)).to_be_visible()
    page.get_by_label("and also").fill("env:a:b")
    page.get_by_label("and also").press("Enter")

    expect(rows.filter(has_text=one.id)).to_have_count(0)
    expect(rows.filter(has_text=both.id)).to_be_visible()
    page.reload()
    expect(rows.filter(has_text=both.id)).to_be_visible()
    fields = page.get_by_role("form", name="Filters").locator("input[name=label]")
    assert [field.input_value() for field in fields.all()] == [f"team:{mark}", "env:a:b", ""]
    page.get_by_role("button", name="Cancel these…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel 1 execution")
    expect(dialog).to_contain_text(f"label team:{mark}")
    expect(dialog).to_contain_text("label env:a:b")
    dialog.get_by_label("Type 1 to confirm").fill("1")
    dialog.get_by_role("button", name="Cancel them").click()
    expect(page.get_by_text("1 execution is cancelled")).to_be_visible()
    assert (both.status, one.status) == ("cancelled", "running")


def test_two_labels_of_one_name_are_refused_and_nothing_can_be_cancelled_by_them(desk, open_console, watch):
    watch.allow("400")
    page = open_console(f"/executions?label=team:{desk.mark}&label=team:other")

    expect(page.get_by_role("alert")).to_contain_text("the label 'team' is given more than once")
    expect(page.get_by_role("button", name="Cancel these…")).to_be_disabled()


def test_many_are_cancelled_once_their_number_is_typed_in(desk, open_console):
    label = f"batch:{desk.mark}"
    made = [desk.create("shop", labels={"batch": desk.mark}) for _ in range(3)]
    other = desk.create("shop")
    page = open_console("/executions")
    expect(page.get_by_role("button", name="Cancel these…")).to_be_disabled()
    page.get_by_label("Label").fill(label)
    page.get_by_label("Label").press("Enter")
    expect(page.locator("#main tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Cancel these…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Cancel 3 executions")
    expect(dialog).to_contain_text(label)
    dialog.get_by_label("Type 3 to confirm").fill("2")
    dialog.get_by_role("button", name="Cancel them").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Type 3")
    assert {desk.status(one) for one in made} == {"pending"}
    dialog.get_by_label("Type 3 to confirm").fill("3")
    dialog.get_by_role("button", name="Cancel them").click()

    expect(page.get_by_text("3 executions are cancelled")).to_be_visible()
    assert {desk.status(one) for one in made} == {"cancelled"} and desk.status(other) == "pending"
    expect(page.locator("#main tbody tr").filter(has_text="cancelled")).to_have_count(3, timeout=8_000)


def test_a_large_number_is_cancelled_part_by_part_and_never_more_than_was_counted(console, open_console, watch):
    watch.allow("409")
    place = {"cursor": "here", "next_cursor": "", "more": False}
    answers = iter(
        [
            {"count": 250, **place},
            {"cancelled": 100, "remaining": 150, **place},
            {"count": 250, **place},  # the list lags behind
            {"count": 150, **place},
            {"cancelled": 100, "remaining": 50, **place},
            *({"count": 51, **place} for _ in range(10)),  # one has come to fit
        ]
    )
    sent = []

    def answer(route):
        sent.append(json.loads(route.request.post_data))
        route.fulfill(json=next(answers))

    page = open_console("/executions?agent_id=nobody&status=running")
    page.route("**/ops/kernel/executions/cancel", answer)
    page.get_by_role("button", name="Cancel these…").click()
    page.get_by_label("Type 250 to confirm").fill("250")
    page.get_by_role("button", name="Cancel them").click()

    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        "200 executions are cancelled. More match now", timeout=15_000
    )
    which = {"status": "running", "agent_id": "nobody"}
    assert [body.get("confirm") for body in sent if "confirm" in body] == [250, 150]
    assert sent[0] == which and all(body == which | body and body["cursor"] == "here" for body in sent[1:])


def test_a_refusal_of_the_list_is_shown_and_the_rows_stay(console, desk, open_console, watch):
    watch.allow("503|400")
    work = desk.work("shop")
    page = open_console("/executions")
    expect(page.get_by_role("link", name=work.id)).to_be_visible()
    refusal = {"code": "bad_request", "error": "the list <b>is</b> away"}
    page.route("**/ops/kernel/executions?**", lambda route: route.fulfill(status=400, json=refusal))
    expect(page.get_by_role("alert")).to_contain_text("the list <b>is</b> away", timeout=8_000)
    expect(page.get_by_role("link", name=work.id)).to_be_visible()
    page.unroute("**/ops/kernel/executions?**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_search_finds_an_execution_by_its_id(desk, open_console):
    made = desk.create("shop")
    page = open_console("/now")
    page.keyboard.press("/")
    page.keyboard.type(made)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/executions/{made}")
    expect(page.locator("h1")).to_contain_text("Execution")


def test_a_bar_of_executions_leads_to_exactly_those(open_console, desk):
    label = f"batch:{desk.mark}"
    for _ in range(3):
        desk.create("shop", labels={"batch": desk.mark})
    page = open_console(f"/executions?label={label}")
    rows = page.locator("#main tbody tr")
    expect(rows).to_have_count(3)
    bars = page.get_by_role("list", name="Created, by time").get_by_role("link")
    said = [bar.get_attribute("aria-label") for bar in bars.all()]
    counts = [int(re.search(r": (\d+) pending", one)[1]) for one in said]
    assert sum(counts) == 3
    bars.first.click()

    expect(rows).to_have_count(counts[0])
    expect(page).to_have_url(re.compile("label=.*created_after=.*created_before="))
