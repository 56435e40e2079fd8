"""What is now, verdicts beside pieces, and pieces that are forgotten."""

import re
import time

import httpx
import pytest
from playwright.sync_api import expect

from local.gateway.lambdas.variables import ROOT
from tests.browser.seeds import HOSTILE, a_piece
from tests.support.machine import wait_until
from tests.support.runtime.verification import a_candidate, a_verify_body

pytestmark = pytest.mark.slow
ANN = {"Authorization": "Bearer ann-secret"}


@pytest.fixture
def door(console):
    """The same door, as another operator uses it."""
    with httpx.Client(base_url=console.url, headers=ANN, timeout=30) as client:
        yield client


@pytest.fixture
def paused(door):
    """An executor that is paused while a test runs."""
    scope, why = "executor:nobody_serves_it", f"seen by <b>{HOSTILE[:40]}"
    assert door.post("/ops/pause", json={"scope": scope, "reason": why}).json()["is_new"] is True
    yield scope
    door.post("/ops/resume", json={"scope": scope, "reason": "the test has ended"})


def test_now_tells_what_waits_and_is_in_doubt_and_each_is_a_link(console, open_console, door, paused):
    oldest = door.get("/ops/status").json()["oldest"]["doubt"]["of"]
    page = open_console("/now")
    people = page.get_by_role("region", name="Waits for people")
    expect(people.get_by_role("link", name=re.compile(oldest))).to_be_visible()
    expect(page.get_by_role("region", name="What is paused")).to_contain_text(paused)
    expect(page.get_by_role("region", name="What is paused")).to_contain_text("seen by <b><img src=x")
    expect(page.get_by_role("region", name="What came")).to_contain_text("in the last hour")
    expect(page.get_by_role("region", name="Doors").get_by_role("link", name=re.compile("ok"))).to_have_count(3)

    people.get_by_role("link", name=re.compile(oldest)).click()
    expect(page.get_by_role("heading", name="This payment is in doubt")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Now")).to_be_visible()


def test_an_hour_of_now_asks_as_often_as_the_document_says(console, open_console):
    asked = []
    page = open_console("/pieces")
    page.on("request", lambda request: "/ops/" in request.url and asked.append(request.url))
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.get_by_role("region", name="What came")).to_contain_text("in the last hour")
    rates = [url for url in asked if "since_ms=" in url or "created_after=" in url]
    looks = len(asked) - len(rates)

    assert (looks, len(rates)) == (6, 3)
    an_hour = looks * 3_600 // 10 + len(rates) * 60
    assert f"| {an_hour:,} |" in (ROOT / "docs/cost.md").read_text("utf-8")


def test_a_verdict_stands_in_the_list_and_beside_the_piece_of_its_execution(console, open_console, door):
    key = console.seeded.keys["whole"]
    piece = door.get(f"/ops/pieces/{key}").json()
    name = f"c-{time.time_ns()}"
    candidate = a_candidate({}, execution_id=piece["execution_id"], candidate_id=name)
    given = console.runtime.http.post("/verify", json=a_verify_body(candidate=candidate)).json()
    wait_until(lambda: door.get("/ops/verdicts", params={"candidate_id": name}).json()["items"])

    page = open_console(f"/verdicts?candidate_id={name}")
    row = page.get_by_role("region", name="Verdicts").get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text(given["verification_status"])
    expect(page.get_by_role("region", name="Reasons")).to_contain_text("the output fits its schema")
    page.get_by_label("Status").select_option("failed")
    expect(page.get_by_text(re.compile("No verdict matches|None in this stretch"))).to_be_visible()
    page.reload()
    expect(page.get_by_label("Status")).to_have_value("failed")

    page.goto(f"{console.url}/console/pieces/{key}")
    expect(page.get_by_role("region", name="Verdicts", exact=True)).to_contain_text(name)


def test_a_piece_is_forgotten_for_good_with_a_reason(console, open_console, door):
    calls = []

    def answer(route):
        calls.append(route.request.post_data_json)
        more = {"record_id": "0" * 32, "was": "done", "complete": False, "is_listed": True}
        route.fulfill(json=more) if len(calls) == 1 else route.continue_()

    key = a_piece(console.runtime, artifacts=[["notes", "to be forgotten", "text/plain"]])
    page = open_console(f"/pieces/{key}")
    page.route("**/forget", answer)
    page.get_by_role("button", name="Forget what it was about…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Nobody can bring it back")
    dialog.get_by_label("Reason").fill("they asked for it")
    dialog.get_by_role("button", name="Erase for good").click()

    expect(page.get_by_text(re.compile("was forgotten .* by you"))).to_be_visible()
    expect(page.get_by_text("No evidence by reference")).to_be_visible()
    assert calls == [{"reason": "they asked for it"}] * 2  # until all of it is erased
    assert door.get(f"/ops/pieces/{key}").json()["forgotten"]["complete"] is True


def test_a_viewer_can_forget_nothing(console, sign_in):
    page = sign_in("vic-secret", f"/pieces/{console.seeded.keys['whole']}")

    expect(page.get_by_role("heading", name="Verdicts on its execution")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Forget"))).to_have_count(0)
