"""Every page, light and dark: readable, without errors, and as a picture in build/screens."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import screen

pytestmark = pytest.mark.slow
PAGES = {
    "now": "/now",
    "pieces": "/pieces",
    "operations": "/operations?queue=task",
    "search": "/find?q=nothing-has-this-id",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn(open_console, name, theme):
    page = open_console(PAGES[name], color_scheme=theme)

    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true")
    screen(page, f"{name}-{theme}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_piece_is_drawn(console, open_console, theme):
    page = open_console("/pieces", color_scheme=theme)
    page.get_by_role("link", name=console.seeded.changed["task_id"]).click()
    expect(page.get_by_text("Changed: the bytes")).to_be_visible()

    screen(page, f"piece-{theme}")
