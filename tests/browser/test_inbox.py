"""The inbox: what is asked and how exactly, who may answer, who was faster, and how the execution ends."""

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from piecework.webhooks.deliveries import Delivery, DeliveryState, Made
from piecework.webhooks.store import kernel_deliveries
from tests.browser.axe import findings
from tests.browser.conftest import escape_and, screen
from tests.browser.seeds import HOSTILE
from tests.support.machine import wait_until

pytestmark = pytest.mark.slow
PHONE = {"width": 360, "height": 740}
EXACT = {"order": "A-7", "cents": 12345678901234567890, "share": 1.0, "twenty": "20", "lines": [{"sku": "x", "n": 2}]}


@pytest.fixture(autouse=True)
def nothing_else_waits(kernel):
    kernel.clear()


def row(page, name):
    """A row of the outermost table of arguments."""
    return page.locator(".arguments tr", has=page.get_by_role("rowheader", name=name, exact=True)).first


def answer(page, verb, reason=""):
    """Answer in the dialog that is open."""
    dialog = page.get_by_role("dialog")
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()


def test_a_webhook_that_told_of_an_approval_is_shown_with_its_tries_and_sent_again(kernel, console, open_console):
    work = kernel.asks()
    body = json.dumps({"notice": "needed", "step_id": work.step_id}).encode()
    tries = Made(1, 503, 1_790_000_000_000), Made(2, None, 1_790_000_010_000)
    told = Delivery(work.id, "e" * 32, "", body, state=DeliveryState.GIVEN_UP, attempt=9, name="desk")
    deliveries = kernel_deliveries(console.aws.client("dynamodb"), "piecework-kernel")
    deliveries.put(told)
    deliveries.note(told, replace(told, tries=tries))
    page = open_console(f"/inbox/{work.id}/{work.step_id}")
    hook = page.get_by_role("region", name="Webhooks").get_by_role("row").filter(has_text="desk")
    for said in ("needed", "given_up", "1: 503", "2: no answer"):
        expect(hook).to_contain_text(said)

    page.goto(f"{console.url}/console/operations")
    hook = page.get_by_role("region", name="Webhooks about approvals").last.get_by_role("row").filter(has_text="desk")
    hook.get_by_role("button", name="Send again…").click()
    answer(page, "Send again", "their server is back")
    expect(page.get_by_text("It was given_up, and is asked to be sent again")).to_be_visible()
    expect(hook).to_contain_text("pending")
    assert findings(page) == []


def test_webhooks_of_an_approval_are_found_behind_many_others_of_its_execution(kernel, open_console):
    work = kernel.asks()
    ids = {"execution_id": work.id, "event_id": "e" * 32, "step_id": work.step_id}
    told = {**ids, "name": "desk", "notice": "needed", "at_ms": None, "state": "pending", "attempt": 1, "tries": []}
    pages = {False: {"items": [], "next": "more"}, True: {"items": [told], "next": None}}
    page = open_console("/inbox")
    page.route("**/kernel/webhooks?*", lambda route: route.fulfill(json=pages["cursor=more" in route.request.url]))
    page.get_by_role("link", name="pay.refund").click()

    expect(page.get_by_role("region", name="Webhooks").first).to_contain_text("e" * 32)


def test_a_call_is_granted_and_the_execution_is_seen_to_end(kernel, open_console):
    work = kernel.asks(arguments=EXACT)
    page = open_console("/inbox")
    card = page.get_by_role("article", name="pay.refund for refund-desk")
    expect(card).to_contain_text("large-refund")
    expect(card).to_contain_text("refunds <b>need</b> a person")
    expect(card).to_contain_text("then it is denied")
    expect(card.get_by_role("link", name=work.id)).to_have_attribute("href", f"/console/executions/{work.id}")

    card.get_by_role("button", name="Grant…").click()
    expect(page.get_by_role("dialog")).to_contain_text("12345678901234567890")
    answer(page, "Grant", "seen the photos")

    expect(page.locator(".news")).to_contain_text("You granted it.")
    expect(page.locator(".news .badge")).to_have_text("completed")
    expect(page.get_by_text("Nobody waits for you")).to_be_visible()
    given = work.approval()["answer"]
    assert (given["approved"], given["by"], given["reason"]) == (True, "ops:local", "seen the photos")

    page.get_by_role("link", name="What was answered").click()
    expect(page.get_by_role("article").first).to_contain_text("seen the photos")
    expect(page.get_by_role("article").first).to_contain_text("by you")


def test_arguments_are_shown_as_they_are_kept(kernel, open_console):
    hidden = "pay \u202eevil\u202c\u200b now"
    kernel.asks(arguments=EXACT | {"note": hidden, "__proto__": None, "empty": {}})
    page = open_console("/inbox")
    page.get_by_role("link", name="pay.refund").click()

    expect(page).to_have_url(re.compile("/inbox/[0-9a-f-]{36}/[0-9a-f-]{36}$"))
    page.reload()
    expect(row(page, "cents")).to_contain_text("12345678901234567890")
    expect(row(page, "share")).to_contain_text("1.0")
    expect(row(page, "twenty").locator("[data-kind=text]")).to_have_text("20")
    expect(row(page, "note")).to_contain_text("pay ⟦U+202E⟧evil⟦U+202C⟧⟦U+200B⟧ now")
    expect(row(page, "__proto__")).to_contain_text("null")
    expect(row(page, "empty")).to_contain_text("{}")
    expect(row(page, "lines").get_by_role("rowheader", name="sku")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_a_browser_that_rounds_numbers_says_so(kernel, open_console):
    kernel.asks(arguments=EXACT)
    page = open_console("/inbox")
    expect(page.get_by_role("article")).to_be_visible()
    expect(page.get_by_text("This browser rounds long numbers")).to_have_count(0)
    page.context.add_init_script("delete JSON.rawJSON; delete JSON.isRawJSON")
    page.reload()

    expect(page.get_by_role("article")).to_contain_text("This browser rounds long numbers")


def test_what_is_shortened_says_so_and_is_whole_where_one_decides(kernel, open_console):
    kernel.asks(arguments={"text": "a" * 70_000 + "the end"})
    page = open_console("/inbox")

    expect(page.get_by_role("article")).to_contain_text("Shortened: the first 2000 of 70018 characters")
    page.get_by_role("button", name="Deny…").click()
    expect(page.get_by_role("dialog")).to_contain_text("the end")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="pay.refund").click()
    expect(row(page, "text")).to_contain_text("the end")


def test_long_arguments_that_are_private_are_whole_for_an_approver(kernel, open_console):
    work = kernel.asks("mail.send", {"text": "a" * 70_000 + "the end"})
    page = open_console(f"/inbox/{work.id}/{work.step_id}")

    expect(row(page, "text")).to_contain_text("the end")
    page.get_by_role("button", name="Grant…").click()
    expect(page.get_by_role("dialog")).to_contain_text("the end")
    expect(page.get_by_text("You do not see all that you would answer about.")).to_have_count(0)


def test_what_cannot_be_shown_whole_is_said_before_one_answers(kernel, open_console):
    kernel.asks(arguments={"text": "a" * 70_000})
    page = open_console("/inbox")
    page.route("**/events?*", lambda route: route.fulfill(json={"events": [], "latest_sequence": 0}))

    page.get_by_role("button", name="Grant…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Shortened: the first 64000 of 70011 characters")
    expect(page.get_by_role("dialog")).to_contain_text("You do not see all that you would answer about.")


def test_the_second_of_two_approvers_is_told_who_was_faster_and_how(kernel, open_console, sign_in, watch):
    watch.allow("409")
    work = kernel.asks(arguments={"cents": 1})
    first, second = open_console("/inbox"), sign_in("bob-secret", f"/inbox/{'/'.join((work.id, work.step_id))}")
    second.get_by_role("button", name="Grant…").click()
    expect(second.get_by_role("dialog")).to_be_visible()  # the question stands while another answers
    first.get_by_role("button", name="Deny…").click()
    answer(first, "Deny", "the order is not there")
    expect(first.locator(".news .badge")).to_have_text("failed")

    answer(second, "Grant")

    told = second.get_by_role("alert").filter(has_text="Somebody was faster")
    expect(told).to_contain_text(re.compile(r"local denied it at 20\d\d-.*: “the order is not there”\. That stands\."))
    expect(second.get_by_text("“the order is not there”").first).to_be_visible()
    expect(second.get_by_role("button", name="Grant…")).to_have_count(0)
    given = work.approval()["answer"]
    assert (given["approved"], given["by"]) == (False, "ops:local")


def test_a_denial_needs_a_reason_which_the_agent_gets(kernel, open_console):
    work = kernel.asks(arguments={"cents": 1})
    page = open_console("/inbox")
    page.get_by_role("button", name="Deny…").click()
    answer(page, "Deny")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert work.status() == "blocked"

    answer(page, "Deny", f"no {HOSTILE}")

    expect(page.locator(".news")).to_contain_text("You denied it.")
    expect(page.locator(".news")).to_contain_text("not allowed")
    assert work.approval()["answer"]["reason"] == f"no {HOSTILE}"
    page.get_by_role("link", name="What was answered").click()
    expect(page.get_by_role("article").first).to_contain_text(f"no {HOSTILE}")
    assert page.locator("#main img, #main script").count() == 0


def test_private_arguments_are_for_approvers_and_others_are_told_why(kernel, open_console, sign_in):
    work = kernel.asks("mail.send", {"to": "a-secret-address"})
    path = f"/inbox/{work.id}/{work.step_id}"
    approver = open_console("/inbox")
    expect(approver.get_by_role("article")).to_contain_text("Private: the policy shows these arguments to approvers")
    expect(approver.get_by_role("article")).not_to_contain_text("a-secret-address")
    approver.get_by_role("link", name="mail.send").click()
    expect(row(approver, "to")).to_contain_text("a-secret-address")

    viewer = sign_in("vic-secret", path)
    expect(viewer.get_by_text("Private: the policy shows these arguments to approvers alone.")).to_be_visible()
    expect(viewer.get_by_text("You are signed in as vic with viewer.")).to_be_visible()
    assert "a-secret-address" not in viewer.content()
    viewer.get_by_role("link", name=work.id).click()
    events = viewer.get_by_role("list", name="Events")
    expect(events).to_contain_text('"arguments":{"shown":"private"}')
    events.get_by_role("button", name="step.created").click()
    expect(viewer.get_by_role("button", name=re.compile("^Copy event"))).to_be_visible()
    told = [text for text in events.get_by_role("listitem").all_inner_texts() if "execution.created" not in text]
    told += viewer.locator("section", has=viewer.locator("#log")).locator("figure").all_inner_texts()
    assert len(told) > 2 and "a-secret-address" not in "".join(told)  # the input, which has it too, is not private


def test_a_viewer_has_no_buttons_and_no_keys(kernel, sign_in):
    work = kernel.asks(arguments={"cents": 1})
    for token in ("vic-secret", "ann-secret"):  # an operator does not answer either
        page = sign_in(token, "/inbox")
        expect(page.get_by_role("article")).to_be_visible()
        expect(page.get_by_text("Answering needs the role approver.")).to_be_visible()
        page.keyboard.press("y")
        page.goto(page.url)
        assert page.locator("#main button").count() == 0
    assert work.status() == "blocked"


def test_one_works_by_keys_alone_and_no_single_key_decides(kernel, open_console):
    older, newer = kernel.asks(arguments={"at": 1}), kernel.asks(arguments={"at": 2})
    page = open_console("/inbox")
    expect(page.get_by_role("article")).to_have_count(2)
    for key in ("y", "x"):
        page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Enter")  # in the reason's field
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert {older.status(), newer.status()} == {"blocked"}

    page.keyboard.press("j")
    expect(page.locator("[data-chosen]")).to_contain_text("2")
    page.keyboard.press("y")
    page.get_by_role("dialog").get_by_label("Reason").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".news .badge")).to_have_text("completed")
    assert (older.status(), newer.ended()) == ("blocked", "completed")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Arguments")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_who_presses_again_while_the_call_is_loaded_is_asked_once(kernel, open_console):
    kernel.asks(arguments={"cents": 1})
    page = open_console("/inbox")
    expect(page.get_by_role("article")).to_have_count(1)
    held = []

    def hold(route):
        held.append(route)

    page.route(re.compile(r"/approvals/"), hold)
    for key in ("y", "x", "y"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)  # in which further questions would ask for the call, too
    asked = len(held)
    for route in held:
        route.continue_()

    expect(page.get_by_role("heading", name="Grant this call?")).to_be_visible()
    assert asked == 1
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_who_says_no_is_asked_anew_at_once(kernel, open_console):
    kernel.asks(arguments={"cents": 1})
    page = open_console("/inbox")
    page.get_by_role("button", name="Grant…").click()
    expect(page.get_by_role("heading", name="Grant this call?")).to_be_visible()

    escape_and(page, "x")

    expect(page.get_by_role("heading", name="Deny this call?")).to_be_visible()


def test_a_call_that_one_has_answered_leaves_the_list_before_the_door_is_asked_again(kernel, open_console):
    older, newer = kernel.asks(arguments={"at": 1}), kernel.asks(arguments={"at": 2})
    page = open_console("/inbox")
    expect(page.get_by_role("article")).to_have_count(2)
    page.get_by_role("button", name="Grant…").first.click()
    held = []

    def hold(route):
        held.append(route)

    page.route(re.compile(r"/approvals\?"), hold)
    answer(page, "Grant")

    expect(page.locator(".news .badge")).to_have_text("completed")
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.locator("[data-chosen]")).to_contain_text("2")
    assert (older.status(), newer.status()) == ("completed", "blocked")
    for route in held:
        route.continue_()


def test_who_answered_in_another_tab_is_not_told_that_somebody_was_faster(kernel, open_console):
    work = kernel.asks(arguments={"cents": 1})
    one, other = open_console("/inbox"), open_console("/inbox")
    other.route(re.compile(r"/approvals\?"), lambda route: None)  # its list stays as it is
    one.get_by_role("button", name="Grant…").click()
    answer(one, "Grant")
    assert work.ended() == "completed"

    other.get_by_role("button", name="Grant…").click()

    expect(other.locator(".news")).to_contain_text("You granted it at 20")
    expect(other.get_by_text("Somebody was faster")).to_have_count(0)


@pytest.mark.parametrize(
    ("timed_out", "said"),
    [
        (True, re.compile(r"^It was denied at 2026-11-29.*, because nobody answered in time\.")),
        (False, re.compile(r"^It was denied at 2026-11-29.*Z\. That stands\.")),  # by whom an open door does not know
    ],
)
def test_who_comes_after_an_answer_without_a_name_is_told_no_more_than_is_known(kernel, open_console, timed_out, said):
    kernel.asks(arguments={"cents": 1})
    page = open_console("/inbox")
    answered = {"approved": False, "by": None, "at": "2026-11-29T10:00:00Z", "reason": None, "timed_out": timed_out}

    def late(route):
        told = route.fetch().json()
        route.fulfill(json={**told, "state": "answered", "answer": answered})

    page.route(re.compile(r"/approvals/"), late)
    page.get_by_role("button", name="Grant…").click()

    expect(page.locator(".news strong")).to_have_text(said)


def test_what_comes_and_goes_is_seen_without_a_reload(kernel, open_console):
    page = open_console("/inbox")
    expect(page.get_by_text("Nobody waits for you")).to_be_visible()
    work = kernel.asks(arguments={"cents": 1})
    expect(page.get_by_role("article")).to_be_visible(timeout=8_000)
    expect(page).to_have_title(re.compile(r"^\(1\) Inbox"))

    kernel.clear()
    expect(page.get_by_role("article")).to_have_count(0, timeout=8_000)
    page.goto(page.url + f"/{work.id}/{work.step_id}")
    expect(page.get_by_text("cancelled").first).to_be_visible()


def test_an_answer_that_got_lost_is_looked_for_and_not_guessed(kernel, open_console, watch):
    watch.allow("ERR_FAILED")
    work = kernel.asks(arguments={"cents": 1})
    page = open_console("/inbox")
    page.route(re.compile("/approvals/"), lambda route: _lost(route, reaches=False))
    page.get_by_role("button", name="Grant…").click()
    answer(page, "Grant")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("it is not known whether yours was taken")
    assert work.status() == "blocked"

    page.unroute_all()
    page.route(re.compile("/approvals/"), lambda route: _lost(route, reaches=True))
    answer(page, "Grant")
    expect(page.locator(".news")).to_contain_text("The door's answer was lost. You granted it at")
    assert work.ended() == "completed"


def _lost(route, *, reaches):
    if route.request.method != "POST":
        return route.continue_()
    if reaches:
        route.fetch()
    return route.abort()


def test_a_page_without_answers_is_not_taken_for_an_empty_list(open_console):
    page = open_console("/inbox")
    page.route("**/kernel/approvals?*", lambda route: route.fulfill(json={"approvals": [], "next_cursor": "more"}))
    page.get_by_role("link", name="What was answered").click()

    expect(page.get_by_text("Nothing on this part of the list")).to_be_visible()
    expect(page.get_by_role("button", name="Load more")).to_be_visible()
    expect(page.get_by_text("Nothing was answered lately")).to_have_count(0)


def test_what_strangers_write_is_shown_as_text(kernel, open_console):
    tool, agent = HOSTILE[:38], f"agent {HOSTILE[:60]}"
    work = kernel.asks(tool, {HOSTILE: HOSTILE, "list": [HOSTILE]}, agent, labels={HOSTILE: HOSTILE})
    page = open_console("/inbox")
    expect(page.get_by_role("article")).to_contain_text(agent)
    page.goto(f"{page.url}/{work.id}/{work.step_id}")
    expect(page.get_by_role("heading", name=tool)).to_be_visible()
    expect(row(page, HOSTILE)).to_contain_text(HOSTILE)
    page.get_by_role("link", name="What the policy says of this call now").click()
    expect(page.get_by_role("region", name="Rules that were tried")).to_contain_text(HOSTILE[:30].strip())
    expect(page.get_by_label("Labels of the execution")).to_have_value(json.dumps({HOSTILE: HOSTILE}, indent=2))
    assert page.locator("#main img, #main script, #main iframe").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_inbox_is_readable_for_all(kernel, open_console, theme):
    work = kernel.asks(arguments=EXACT)
    kernel.asks("mail.send", {"to": "someone"})
    page = open_console("/inbox", color_scheme=theme)
    screen(page, f"inbox-{theme}")
    assert findings(page) == []
    page.keyboard.press("y")
    expect(page.get_by_role("dialog")).to_be_visible()
    screen(page, f"inbox-question-{theme}")
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.goto(f"{page.url}/{work.id}/{work.step_id}")
    expect(page.get_by_role("heading", name="Arguments")).to_be_visible()
    screen(page, f"approval-{theme}")
    assert findings(page) == []
    page.goto(page.url.partition("/inbox/")[0] + "/inbox?state=answered")
    expect(page.get_by_role("link", name="What was answered")).to_have_attribute("aria-current", "page")
    page.wait_for_load_state("networkidle")
    screen(page, f"inbox-answered-{theme}")
    assert findings(page) == []


def test_the_inbox_fits_a_phone(kernel, open_console):
    work = kernel.asks(arguments=EXACT | {"long": "x" * 300})
    page = open_console("/inbox", viewport=PHONE)
    screen(page, "inbox-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.goto(f"{page.url}/{work.id}/{work.step_id}")
    expect(page.get_by_role("heading", name="Arguments")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    wait_until(lambda: work.status() == "blocked")
