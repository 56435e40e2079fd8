"""People sign in at an issuer, in a real browser: there and back, where they were, told when they may nothing."""

import time

import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.conftest import DOORS
from tests.support.machine import Gateways
from tests.support.ops.issuer_server import issuing

pytestmark = pytest.mark.slow
BUTTON = "Sign in with your account"


@pytest.fixture(scope="module")
def issuer():
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def door(console, issuer, tmp_path_factory):
    """An operator's door at which people of the issuer sign in."""
    gateways = Gateways(console.aws, tmp_path_factory.mktemp("people"))
    people = {
        "PIECEWORK_OPS_ISSUER": issuer.url,
        "PIECEWORK_OPS_CLIENT_ID": issuer.client,
        "PIECEWORK_OPS_GROUPS_CLAIM": "groups",
        "PIECEWORK_OPS_GROUP_ROLES": "ops=operator,people=approver+viewer",
    }
    try:
        running = gateways(
            api="ConsoleApi", **{f"PIECEWORK_PARAM_{name}": value for name, value in DOORS.items()}, **people
        )
        issuer.serves(running.url)
        yield running
    finally:
        gateways.close()


@pytest.fixture
def visit(door, issuer, new_context, watch):
    """Opens a view at which somebody of the issuer may sign in."""
    watch.allow("401")
    watch.allow("a request to another host: http://127.0.0.1:")
    issuer.person, issuer.refuses, issuer.lasts = {"sub": "7b5c8a1e", "groups": ["ops"]}, "", 600

    def open_it(path):
        page = new_context().new_page()
        page.goto(f"{door.url}/console{path}")
        return page

    return open_it


def let_login_end(page, issuer):
    """As if a time had passed: requests carry a token of the issuer that has ended, until they are not routed."""
    ended = {"authorization": f"Bearer {issuer.signed(-60)}"}
    page.route("**/ops/**", lambda route: route.continue_(headers={**route.request.headers, **ended}))


def test_a_person_signs_in_and_is_where_he_was_and_nothing_of_it_is_kept(visit, door):
    page = visit("/pieces?state=failed")
    expect(page.get_by_role("dialog")).to_contain_text("Sign in with your account, or paste a token of this door.")
    page.get_by_role("button", name=BUTTON).click()

    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()
    assert page.url == f"{door.url}/console/pieces?state=failed"
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'


def test_a_login_that_ended_is_asked_for_and_returns_to_where_one_was(visit, issuer, door):
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()
    page.get_by_role("link", name="Pieces", exact=True).click()
    expect(page.get_by_role("heading", name="Pieces")).to_be_visible()
    let_login_end(page, issuer)
    with page.expect_response(lambda answer: answer.status == 401):
        page.get_by_role("link", name="Operations").click()
    page.unroute("**/ops/**")
    page.get_by_role("button", name=BUTTON).click()

    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    assert page.url == f"{door.url}/console/operations"


def stored(page):
    return page.evaluate("JSON.stringify({...sessionStorage})")


def typed_and_signed_in_again(page, issuer, person):
    """A page whose login ended when a question with a reason was answered, and a person who signed in then."""
    page.get_by_role("button", name=BUTTON).click()
    for lists in ("#hooks", "#records"):  # all is read, or the rest of it would ask for the sign-in first
        expect(page.locator(f"section:has({lists})").locator("table, strong").first).to_be_visible()
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What").fill("executor:nobody-here")
    dialog.get_by_label("Reason").fill("it answers <b>twice")
    let_login_end(page, issuer)
    dialog.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name=BUTTON).wait_for()
    page.unroute("**/ops/**")
    issuer.person = {"sub": person, "groups": ["ops"]}
    with page.expect_response("**/token"):  # and not what stood there before
        page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text(f"person:{person}")).to_be_visible()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


def test_a_reason_outlives_a_login_that_ended_and_is_gone_once_it_was_used(visit, issuer, resumes):
    page = visit("/operations")
    typed_and_signed_in_again(page, issuer, "7b5c8a1e")
    expect(page.get_by_text("What you had typed is kept. Open the same question again.")).to_be_visible()
    kept = stored(page)
    assert "it answers <b>twice" in kept and "eyJ" not in kept and "verifier" not in kept
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_have_value("it answers <b>twice")
    expect(dialog.get_by_label("What")).to_have_value("")  # what decides is typed anew
    dialog.get_by_label("What").fill("executor:nobody-here")
    dialog.get_by_role("button", name="Pause", exact=True).click()

    pauses = page.get_by_role("region", name="Pauses", exact=True)
    expect(pauses.get_by_role("row").filter(has_text="executor:nobody-here")).to_contain_text("it answers <b>twice")
    assert stored(page) == "{}"
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_value("")


def test_another_person_does_not_get_what_was_typed(visit, issuer):
    page = visit("/operations")
    typed_and_signed_in_again(page, issuer, "another")

    assert stored(page) == "{}"
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_value("")
    expect(page.get_by_text("What you had typed is kept")).to_have_count(0)


def test_what_was_typed_is_gone_after_a_sign_out_and_after_a_quarter_of_an_hour(visit, issuer):
    page = visit("/operations")
    typed_and_signed_in_again(page, issuer, "7b5c8a1e")
    assert "twice" in stored(page)
    page.clock.install(time=time.time() + 15 * 60)
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_value("")
    page.keyboard.press("Escape")

    typed_and_signed_in_again(visit("/operations"), issuer, "7b5c8a1e")
    page.reload()
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/now")
    assert stored(page) == "{}"


def test_a_person_without_a_group_is_told_so(visit, issuer, watch):
    watch.allow("403")
    issuer.person = {"sub": "nobody", "groups": ["cooks"]}
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()

    expect(page.get_by_role("alert")).to_contain_text("your groups may not use this console")
    assert findings(page) == []
    page.get_by_role("banner").get_by_role("button", name="Sign out").wait_for()
    issuer.person = {"sub": "7b5c8a1e", "groups": ["ops"]}
    with page.expect_request("**/logout?**"):
        page.get_by_role("main").get_by_role("button", name="Sign in as somebody else").click()
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()


def test_what_the_issuer_refuses_is_told_and_another_tabs_answer_does_not_count(visit, issuer, door):
    issuer.refuses = "access_denied"
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("The issuer did not sign you in: access_denied")).to_be_visible()

    issuer.refuses = ""
    other = visit("/signed-in?code=stolen&state=stolen")
    expect(other.get_by_text("This sign-in was begun elsewhere, or used already.")).to_be_visible()
    assert "stolen" not in other.url
    other = visit("/signed-in?error=x&error_description=write%20to%20a%20stranger")
    expect(other.get_by_text("This sign-in was begun elsewhere, or used already.")).to_be_visible()
    expect(other.get_by_text("stranger")).to_have_count(0)


def test_a_sign_in_that_the_door_does_not_take_is_asked_for_again_with_the_reason(visit, issuer, door):
    page = visit("/pieces?state=failed")
    issuer.lasts = -120
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("the sign-in has expired")
    assert page.url == f"{door.url}/console/pieces?state=failed"

    issuer.lasts = 600
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()


def test_signing_out_ends_at_the_issuer_and_comes_back(visit, issuer):
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()
    with page.expect_request("**/logout?**"):
        page.get_by_role("button", name="Sign out").click()

    page.wait_for_url("**/console/now")
    expect(page.get_by_role("button", name=BUTTON)).to_be_visible()


def test_a_sign_out_that_cannot_be_told_to_the_issuer_clears_the_page_and_says_so(visit, watch):
    watch.allow("ERR_FAILED")
    page = visit("/pieces")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_role("region", name="Pieces")).to_be_visible()
    page.route("**/ops/sign-in", lambda route: route.abort())
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("dialog")).to_contain_text("The issuer could not be told and may still know this browser")
    expect(page.get_by_text("Signed out.", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Pieces")).to_have_count(0)
    expect(page.get_by_text("person:7b5c8a1e")).to_have_count(0)
    page.unroute("**/ops/sign-in")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_role("region", name="Pieces")).to_be_visible()
