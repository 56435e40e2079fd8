"""Who may what: tokens that are pasted, roles without buttons, a session that ends, verbs with a reason."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def test_a_token_is_pasted_and_the_view_that_was_asked_for_is_shown(sign_in):
    page = sign_in("ann-secret", "/pieces?state=failed")

    expect(page.get_by_label("State")).to_have_value("failed")
    expect(page.get_by_text("ann", exact=True)).to_be_visible()
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'


def test_a_wrong_token_is_told_and_escape_does_not_go_round_it(sign_in):
    page = sign_in("nobody's")

    expect(page.get_by_role("alert")).to_have_text("This token is not one of the door's.")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_viewer_has_no_buttons_that_would_be_refused(sign_in):
    page = sign_in("vic-secret", "/operations?queue=task")

    expect(page.get_by_text("An operator can look at the letters of task")).to_be_visible()
    expect(page.get_by_role("button", name="Put back…")).to_have_count(0)


def test_a_session_that_ended_is_asked_for_where_one_was(console, open_console, watch):
    watch.allow("401")
    page = open_console("/pieces?state=done")
    page.context.clear_cookies()
    page.get_by_role("link", name="Operations").click()

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Token").fill("ann-secret")
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    assert page.url.endswith("/console/operations")


def test_signing_out_ends_the_session(console, open_console, watch):
    watch.allow("401")
    page = open_console()
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_dead_letters_are_looked_at_and_put_back_with_a_reason(open_console):
    page = open_console("/operations?queue=task")
    page.get_by_role("button", name="Look at some").click()
    expect(page.get_by_role("region", name="Dead letters of task")).to_contain_text("nothing")

    page.get_by_role("button", name="Put back…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Put back").click()
    expect(dialog).to_be_visible()  # a reason is needed
    dialog.get_by_label("Reason").fill("it was a test <b>of mine</b>")
    dialog.get_by_role("button", name="Put back").click()

    expect(page.get_by_text("1 of 1 are back in their queue")).to_be_visible()
    row = (
        page.get_by_role("region", name="What operators did").get_by_role("row").filter(has_text="dead_letters.redrive")
    )
    expect(row).to_contain_text("it was a test <b>of mine</b>")
    expect(row).to_contain_text("local")


def test_a_refusal_of_the_door_is_shown_with_what_to_do(open_console, watch):
    watch.allow("404")
    page = open_console("/pieces/" + "0" * 64)

    expect(page.get_by_role("alert")).to_contain_text("there is no such piece")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_a_door_that_is_out_of_reach_is_said_and_asked_again(open_console, watch):
    watch.allow("ERR_FAILED")
    page = open_console("/now")
    page.route("**/ops/pieces*", lambda route: route.abort())
    page.get_by_role("link", name="Pieces", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")

    page.unroute("**/ops/pieces*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Pieces")).to_be_visible()
