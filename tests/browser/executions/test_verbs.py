"""What one can do about an execution, by role."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.executions.looking import lane, standing

pytestmark = pytest.mark.slow


def test_an_ended_execution_runs_again_once_however_often_it_is_tried(desk, open_console, watch):
    watch.allow("503|ERR_FAILED")
    work = desk.work("shop", input={"order": 8})
    work.intend("fail", error="no such order")
    page = open_console(f"/executions/{work.id}")
    expect(page.locator("#error + p")).to_have_text("no such order")
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)

    def lose(route):
        route.fetch()
        route.abort()

    page.route("**/again", lose, times=1)
    page.get_by_role("button", name="Run again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()

    expect(page.get_by_role("link", name=work.id)).to_be_visible()  # the new one says what it is once more
    assert page.url.split("/")[-1] != work.id
    found = desk.get("/v0/executions", agent_id=desk.named("shop")).json()["executions"]
    again = [one["id"] for one in found if desk.show(one["id"])["again_of"] == work.id]
    assert again == [page.url.split("/")[-1]]


def test_who_takes_a_new_execution_back_is_asked_anew_at_once(desk, open_console):
    page = open_console("/executions")
    begin = page.get_by_role("button", name="New execution…")
    begin.click()
    expect(page.get_by_role("dialog")).to_be_visible()

    page.evaluate("""() => {
        document.querySelector("dialog").close();  // the browser tells of it later, after a click that comes now
        [...document.querySelectorAll("button")].find((one) => one.textContent === "New execution…").click();
    }""")

    expect(page.get_by_role("dialog")).to_be_visible()


def test_one_question_creates_one_execution_though_its_answer_is_lost_and_says_what_is_wrong(desk, open_console, watch):
    watch.allow("ERR_FAILED")
    agent = desk.named("shop")
    desk.work("shop")  # the agent has been seen
    before = {one["id"] for one in desk.get("/v0/executions", agent_id=agent).json()["executions"]}
    page = open_console("/executions")
    page.get_by_role("button", name="New execution…").dblclick()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_have_count(1)
    expect(dialog.locator(f'datalist option[value="{agent}"]')).to_have_count(1)
    dialog.get_by_label("Agent").fill(agent)
    dialog.get_by_label("Input").fill("{order: 7}")
    for wrong, said in (("", "The input is not JSON"), ("team", "must read name: value, and this does not: team")):
        dialog.get_by_label("Labels").fill(wrong)
        if wrong:
            dialog.get_by_label("Input").fill('{"order": 12345678901234567890}')
        dialog.get_by_role("button", name="Create it").click()
        expect(dialog.get_by_role("alert")).to_contain_text(said)
    dialog.get_by_label("Labels").fill("team: a:b\n\nplace: <b>Bern</b>")
    assert findings(page) == []

    def lose(route):
        route.fetch()
        route.abort()

    page.route("**/kernel/executions", lose, times=1)
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
    dialog.get_by_role("button", name="Create it").dblclick()

    page.wait_for_url(re.compile("/executions/[0-9a-f-]{36}$"))
    after = {one["id"] for one in desk.get("/v0/executions", agent_id=agent).json()["executions"]}
    assert after - before == {page.url.split("/")[-1]}
    made = desk.show(page.url.split("/")[-1])
    assert made["input"] == {"order": 12345678901234567890}
    assert made["labels"] == {"team": "a:b", "place": "<b>Bern</b>"}
    [event] = [one for one in desk.events(made["id"]) if one["type"] == "execution.created"]
    assert event["by"] == "ops:local"


def test_a_signal_is_sent_as_json_and_what_is_waited_for_is_offered(desk, open_console):
    work = desk.work("shop")
    work.intend("wait", signal_type="go")
    page = open_console(f"/executions/{work.id}")
    expect(lane(page, "signal go")).to_be_visible()
    page.get_by_role("button", name="Signal…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Type")).to_have_value("go")
    dialog.get_by_label("Payload").fill("not json")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
    dialog.get_by_label("Payload").fill('{"n": 12345678901234567890}')
    dialog.get_by_role("button", name="Send").click()

    expect(lane(page, "signal go")).to_contain_text("received")
    [event] = [event for event in desk.events(work.id) if event["type"] == "signal.received"]
    assert (event["payload"], event["by"]) == (
        {"signal_type": "go", "payload": {"n": 12345678901234567890}},
        "ops:local",
    )


@pytest.mark.parametrize("lost", [None, {"status": 504, "json": {"error": "no answer in time", "code": "unavailable"}}])
def test_a_signal_whose_answer_is_lost_may_have_been_sent_and_the_question_says_so(desk, open_console, watch, lost):
    watch.allow("ERR_FAILED|504")
    work = desk.work("shop")
    page = open_console(f"/executions/{work.id}")

    def lose(route):
        route.fetch()
        route.fulfill(**lost) if lost else route.abort()

    page.route("**/signal", lose, times=1)
    page.get_by_role("button", name="Signal…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type").fill("go")
    dialog.get_by_role("button", name="Send").click()

    expect(dialog.get_by_role("alert")).to_contain_text(
        "It may have been done all the same: look before you try again."
    )
    assert [event["type"] for event in desk.events(work.id)].count("signal.received") == 1


def test_an_execution_is_cancelled_by_an_operator_in_his_name(desk, sign_in):
    work = desk.work("shop")
    page = sign_in("ann-secret", f"/executions/{work.id}")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Let it go on").click()
    assert desk.status(work.id) == "running"
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the execution").click()

    expect(page.locator("h1 .badge")).to_have_text("cancelled")
    assert desk.events(work.id)[-1]["by"] == "ops:ann"
    expect(page.get_by_role("button", name="Run again…")).to_be_visible()


def test_what_an_execution_was_about_is_forgotten_with_a_reason(desk, open_console):
    work = desk.work("shop", input={"name": "Mrs Miller"})
    work.intend("complete", output="done")
    page = open_console(f"/executions/{work.id}")
    expect(page.get_by_text("Mrs Miller").first).to_be_visible()
    page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Forget it").click()
    expect(dialog).to_be_visible()  # a reason is needed
    dialog.get_by_label("Reason").fill("she asked for it")
    dialog.get_by_role("button", name="Forget it").click()

    expect(page.get_by_text("she asked for it")).to_be_visible()
    expect(page.get_by_text("Mrs Miller")).to_have_count(0)
    expect(page.get_by_role("button", name="Forget…")).to_have_count(0)


def test_a_viewer_sees_it_all_and_has_no_buttons(desk, sign_in):
    work = desk.work("shop")
    page = sign_in("vic-secret", f"/executions/{work.id}")
    standing(page, "Live")
    expect(page.locator("#main .verbs")).to_have_count(0)
    work.intend("complete", output=1)
    standing(page, "It has ended")
    expect(page.locator("#main .verbs")).to_have_count(0)

    page.get_by_role("link", name="Executions").click()
    expect(page.get_by_role("link", name=work.id)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel these…")).to_have_count(0)
