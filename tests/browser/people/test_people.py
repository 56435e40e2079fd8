"""Who may what: tokens that are pasted, roles without buttons, a session that ends, verbs with a reason."""

from contextlib import suppress

import pytest
from playwright.sync_api import Error, expect

pytestmark = pytest.mark.slow


def test_a_token_is_pasted_and_the_view_that_was_asked_for_is_shown(sign_in):
    page = sign_in("ann-secret", "/pieces?state=failed")

    expect(page.get_by_label("State")).to_have_value("failed")
    expect(page.get_by_text("ann", exact=True)).to_be_visible()
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'


@pytest.mark.parametrize("token", ["nobody's", "ann-se\u200bcret", "ann\u2013secret"])  # no header holds the last two
def test_a_wrong_token_is_told_and_escape_does_not_go_round_it(sign_in, token):
    page = sign_in(token)

    expect(page.get_by_role("alert")).to_have_text("This token is not one of the door's.")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_long_token_is_pasted_whole_and_what_is_too_long_is_told_and_not_cut(sign_in, open_console, watch):
    page = sign_in("x" * 10_241)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_have_text(
        "Token has 10241 characters; at most 10240 are possible. Nothing was sent."
    )
    dialog.get_by_label("Token").fill("x" * 10_240)
    with page.expect_request("**/ops/whoami") as asked:
        dialog.get_by_role("button", name="Sign in").click()
    assert asked.value.headers["authorization"] == f"Bearer {'x' * 10_240}"

    page = open_console("/operations")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What").fill("executor:nobody-here")
    dialog.get_by_label("Reason").fill("y" * 501)
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Reason has 501 characters; at most 500 are possible.")
    expect(dialog.get_by_label("Reason")).to_have_value("y" * 501)


def test_a_door_that_cannot_be_reached_is_told_in_words(console, sign_in, new_context, watch):
    watch.allow("ERR_FAILED")
    said = "The door cannot be reached, so it is not known who is signed in. Check the connection, then try again."
    page = new_context().new_page()
    page.route("**/ops/whoami", lambda route: route.abort())
    page.goto(f"{console.url}/console/pieces")
    expect(page.get_by_role("main").get_by_role("alert")).to_contain_text(said)
    page.unroute("**/ops/whoami")
    page.get_by_role("button", name="Try again").click()

    page.get_by_role("dialog").get_by_label("Token").fill("ann-secret")
    page.route("**/ops/whoami", lambda route: route.fulfill(body='{"name":'))  # the answer breaks off
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(said)


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


def test_who_could_not_be_signed_out_is_told_so(open_console, watch):
    watch.allow("ERR_FAILED")
    page = open_console("/pieces")
    page.route("**/console/session", lambda route: route.abort())
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_text("so you are still signed in")).to_be_visible()
    expect(page.get_by_role("region", name="Pieces")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_late_answer_does_not_take_the_place_of_what_an_operator_did_meanwhile(console, open_console, resumes):
    page = open_console("/now")
    late = []

    def hold(route):
        late.append((route, route.fetch()))

    page.route("**/ops/records*", hold, times=1)
    page.goto(f"{console.url}/console/operations")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What").fill("executor:nobody-here")
    dialog.get_by_label("Reason").fill("the late answer does not know this")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    row = page.get_by_role("region", name="What operators did").get_by_role("row").filter(has_text="does not know this")
    expect(row).to_be_visible()

    [(route, answer)] = late
    with suppress(Error):  # nobody waits for it
        route.fulfill(json={**answer.json(), "next": None})
    page.wait_for_timeout(300)  # in which it would be shown
    expect(row).to_be_visible()


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

    expect(page.get_by_text("1 of 1 dead letter is back in the queue")).to_be_visible()
    row = (
        page.get_by_role("region", name="What operators did").get_by_role("row").filter(has_text="dead_letters.redrive")
    )
    expect(row).to_contain_text("it was a test <b>of mine</b>")
    expect(row).to_contain_text("you")
    expect(page.locator("#toasts").get_by_role("button", name="Close")).to_be_visible()  # it stays until then


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


def test_nothing_of_one_person_stays_on_the_page_for_the_next(sign_in):
    page = sign_in("ann-secret", "/operations?queue=task")
    expect(page.get_by_role("button", name="Put back…")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#main")).to_have_text("Signed out.")

    _paste(page, "vic-secret")
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    expect(page.get_by_role("button", name="Put back…")).to_have_count(0)
    assert page.url.endswith("/console/operations?queue=task")


def test_what_one_person_decided_is_not_sent_in_the_name_of_another(sign_in):
    page = sign_in("ann-secret", "/operations?queue=task")
    sent = []
    page.route("**/redrive", lambda route: (sent.append(route.request.headers), route.fulfill(status=401, json={})))
    _put_back(page)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.unroute_all()
    page.on("request", lambda request: sent.append(request.headers) if request.url.endswith("/redrive") else None)
    _paste(page, "local-secret")

    expect(page.locator("#head .who").get_by_text("local", exact=True)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Put back…")).to_be_visible()
    assert len(sent) == 1


def test_a_question_stays_while_its_answer_is_on_its_way_and_goes_with_its_view(open_console):
    page = open_console("/pieces")
    page.goto(page.url.replace("/pieces", "/operations?queue=task"))
    page.get_by_role("link", name="Pieces", exact=True).click()
    expect(page.get_by_role("heading", name="Pieces")).to_be_visible()
    page.go_back()
    page.route("**/redrive", lambda route: None)  # which does not answer
    _put_back(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Working…")).to_be_disabled()
    expect(dialog.get_by_role("button", name="Cancel")).to_be_disabled()
    for _ in range(3):
        page.keyboard.press("Escape")
    expect(dialog).to_be_visible()

    page.go_forward()
    expect(page.get_by_role("heading", name="Pieces")).to_be_visible()
    expect(dialog).to_have_count(0)


def _put_back(page):
    page.get_by_role("button", name="Put back…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("it was a test")
    page.get_by_role("dialog").get_by_role("button", name="Put back").click()


def _paste(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
