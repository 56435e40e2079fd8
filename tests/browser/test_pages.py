"""Every page, light and dark: drawn, without errors, readable for all, and as a picture in build/screens."""

import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.conftest import screen

pytestmark = pytest.mark.slow
PAGES = {  # name of the picture: the view, with {…} of the seeds
    "now": "/now",
    "pieces": "/pieces",
    "pieces-none": "/pieces?executor=nobody",
    "piece": "/pieces/{changed}",
    "piece-hostile": "/pieces/{hostile}",
    "verdicts": "/verdicts",
    "hired": "/hired",
    "hired-none": "/hired?payment=not_charged",
    "task": "/hired/{paid}",
    "task-hostile": "/hired/{hostile_task}",
    "task-doubt": "/hired/{doubt}",
    "contracts": "/hired/contracts",
    "money": "/hired/money",
    "operations": "/operations?queue=task",
    "search": "/find?q=nothing-has-this-id",
}
THEMES = ("light", "dark")
PHONE = {"width": 360, "height": 740}


def view(console, name):
    contracts = console.seeded.contracts
    return PAGES[name].format(**{**contracts, **console.seeded.keys}, hostile_task=contracts["hostile"])


def settled(page):
    """Nothing is loaded any more."""
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")
    page.wait_for_load_state("networkidle")
    return page


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_and_axe_finds_nothing_serious(console, open_console, name, theme):
    page = settled(open_console(view(console, name), color_scheme=theme))

    screen(page, f"{name}-{theme}")
    assert findings(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(console, open_console, name):
    page = settled(open_console(view(console, name), viewport=PHONE))

    screen(page, f"{name}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("theme", THEMES)
def test_dialogs_are_readable_for_all(open_console, theme):
    page = settled(open_console("/operations?queue=task", color_scheme=theme))
    page.get_by_role("button", name="Put back…").click()

    expect(page.get_by_role("dialog")).to_be_visible()
    screen(page, f"dialog-{theme}")
    assert findings(page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_the_question_who_one_is_is_readable_for_all(console, new_context, watch, theme):
    watch.allow("401")
    page = new_context(color_scheme=theme).new_page()
    page.goto(f"{console.url}/console/now")

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    screen(page, f"sign-in-{theme}")
    assert findings(page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_what_went_wrong_is_readable_for_all(console, open_console, watch, theme):
    watch.allow("404|ERR_FAILED")
    page = settled(open_console("/nothing/is/here", color_scheme=theme))
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
    assert findings(page) == []

    page.goto(f"{console.url}/console/pieces/{'0' * 64}")
    expect(settled(page).get_by_role("alert")).to_contain_text("there is no such piece")
    screen(page, f"failure-{theme}")
    assert findings(page) == []
    page.route("**/ops/pieces**", lambda route: route.abort())
    page.route("**/console/session", lambda route: route.abort())
    page.get_by_role("link", name="Pieces", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("alert").filter(has_text="cannot be reached")).to_be_visible()
    expect(page.locator("#toasts")).to_contain_text("you are still signed in")
    screen(page, f"unreachable-{theme}")
    assert findings(page) == []


@pytest.mark.parametrize("path", ["/console/pieces/%E0%A4%A", "/console/hired/%", "/console/inbox/%ff/a"])
def test_an_address_that_cannot_be_read_is_no_page(open_console, path):
    page = open_console("/pieces")
    page.evaluate("(path) => (history.pushState(null, '', path), dispatchEvent(new PopStateEvent('popstate')))", path)

    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
