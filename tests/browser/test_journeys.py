"""The journeys that every `make test` makes."""

from playwright.sync_api import expect


def test_evidence_is_compared_by_the_browser_itself(console, open_console):
    page = open_console("/pieces")
    page.get_by_role("link", name=console.seeded.whole["task_id"]).click()

    expect(page.get_by_text("Unchanged: this browser computed the recorded SHA-256")).to_be_visible()

    page.go_back()
    page.get_by_role("link", name=console.seeded.changed["task_id"]).click()
    expect(page.get_by_role("alert").filter(has_text="Changed: the bytes are not those")).to_be_visible()
