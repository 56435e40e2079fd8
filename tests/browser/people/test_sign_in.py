"""People sign in at an issuer, in a real browser: there and back, where they were, told when they may nothing."""

import pytest
from playwright.sync_api import expect

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


def test_a_person_without_a_group_is_told_so(visit, issuer, watch):
    watch.allow("403")
    issuer.person = {"sub": "nobody", "groups": ["cooks"]}
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()

    expect(page.get_by_text("You are signed in, but have no role here.")).to_be_visible()


def test_what_the_issuer_refuses_is_told_and_another_tabs_answer_does_not_count(visit, issuer, door):
    issuer.refuses = "access_denied"
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("The issuer did not sign you in: access_denied")).to_be_visible()

    issuer.refuses = ""
    other = visit("/signed-in?code=stolen&state=stolen")
    expect(other.get_by_text("This sign-in was begun elsewhere, or used already.")).to_be_visible()
    assert "stolen" not in other.url


def test_signing_out_ends_at_the_issuer_and_comes_back(visit, issuer):
    page = visit("/now")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_text("person:7b5c8a1e")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("button", name=BUTTON)).to_be_visible()
    assert "/logout" in [path for path, _ in issuer.seen]
