"""The journeys that every `make test` makes."""

import re

from playwright.sync_api import expect

from tests.browser.seeds import HOSTILE


def test_evidence_is_compared_by_the_browser_itself(console, open_console):
    page = open_console(f"/pieces/{console.seeded.keys['whole']}")
    expect(page.get_by_text("Unchanged: this browser computed the recorded SHA-256")).to_be_visible()

    page.goto(f"{console.url}/console/pieces/{console.seeded.keys['changed']}")
    expect(page.get_by_role("alert").filter(has_text="Changed: the bytes are not those")).to_be_visible()


def test_what_strangers_write_is_shown_as_text_and_runs_nowhere(console, open_console):
    page = open_console("/pieces")
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    page.get_by_role("link", name=HOSTILE).click()

    expect(page.get_by_role("heading", name="Piece")).to_be_visible()
    expect(page.locator("dd", has_text=HOSTILE).first).to_be_visible()
    expect(page).to_have_title(re.compile(r"<img src=x onerror"))  # as a text; "owned" if it had run
    assert page.locator("#main img, #main script, #main iframe").count() == 0


def test_a_link_signs_in_once_and_leaves_no_trace_and_views_outlive_a_reload(console, new_context, watch):
    watch.allow("401")
    link = console.link
    page = new_context().new_page()
    page.goto(link)
    expect(page.get_by_role("heading", name="Now")).to_be_visible()
    assert "once" not in page.url and page.evaluate("document.cookie") == ""

    page.goto(f"{console.url}/console/pieces?state=done")
    page.reload()
    expect(page.get_by_label("State")).to_have_value("done")
    page.get_by_role("link", name="Operations").click()
    expect(page.locator("#main")).to_be_focused()
    page.go_back()
    expect(page.get_by_label("State")).to_have_value("done")

    other = new_context().new_page()
    other.goto(link)
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
