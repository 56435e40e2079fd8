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
