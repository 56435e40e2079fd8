"""Executions: a run that is watched as it happens, a list that renews itself, verbs by role, texts of strangers."""

import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.conftest import DOORS, screen
from tests.support.machine import Gateways
from tests.support.served.kernel import ServedDesk

pytestmark = pytest.mark.slow
THEMES = ("light", "dark")

POLICY = """
rules:
  - id: refund
    priority: 1
    when: {tool_id: "*.pay.refund"}
    then: {decision: require_approval, reason: large refunds need a person}
  - {id: drop, priority: 2, when: {tool_id: "*.db.drop"}, then: {decision: deny, reason: never}}
default: {decision: allow}
"""
PARAMETERS = {f"PIECEWORK_PARAM_{name}": value for name, value in DOORS.items()}


@pytest.fixture(scope="module")
def gateways(console, tmp_path_factory):
    """Gateways over the console's own AWS."""
    made = Gateways(console.aws, tmp_path_factory.mktemp("executions"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def desk(gateways, tmp_path_factory):
    """The kernel door, with agents and runners at its streams."""
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text(POLICY)
    made = ServedDesk(gateways(api="KernelApi", PIECEWORK_POLICY=str(policy), **PARAMETERS).http)
    yield made
    made.close()


@pytest.fixture
def sign_in(console, new_context, watch):
    """Opens a view and pastes a token."""
    watch.allow("401")

    def with_token(token, path):
        page = new_context().new_page()
        page.goto(f"{console.url}/console{path}")
        page.get_by_label("Token").fill(token)
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        return page

    return with_token


def lane(page, name):
    """The row of the waterfall with this name."""
    return page.get_by_role("list", name="Steps in time").get_by_role("listitem").filter(has_text=name)


def types(page):
    """The types of all events that the log shows."""
    rows = page.get_by_role("list", name="Events").get_by_role("listitem")
    return [text.strip() for text in rows.locator("> code").all_inner_texts()]


def standing(page, text):
    expect(page.locator("p.stream")).to_contain_text(text)


def test_a_run_is_watched_as_it_happens(desk, open_console):
    runner = desk.stage.runner()
    work = desk.work("shop", input={"order": 7})
    page = open_console(f"/executions/{work.id}")
    standing(page, "Live")

    step = work.step("notes.find")
    expect(lane(page, "notes.find")).to_contain_text("at work")
    work.report(step, data={"found": 3})
    expect(lane(page, "notes.find")).to_contain_text("done")
    step = work.remote()
    expect(lane(page, "geo.lookup")).to_contain_text("waits for a runner")
    assert lane(page, "geo.lookup").locator("rect[data-wait]").get_attribute("fill") == "url(#hatch)"
    work.started(step)
    expect(lane(page, "geo.lookup")).to_contain_text("at work")
    work.result(runner.take("job.assigned"), data=1)
    work.intend("wait", signal_type="go")
    expect(lane(page, "signal go")).to_contain_text("waits for a signal")
    expect(page.locator("p.waits")).to_contain_text('signal "go"')
    desk.signal(work.id, "go")
    expect(lane(page, "signal go")).to_contain_text("received")
    step = work.step("pay.refund", remote=False)
    expect(lane(page, "pay.refund")).to_contain_text("waits for a person")
    expect(page.locator("line.now")).to_have_count(5)  # one in each row
    desk.signal(work.id, "approval", payload={"approved": True})
    expect(lane(page, "pay.refund")).to_contain_text("at work")
    work.report(step, data="refunded")
    work.intend("complete", output={"answer": 42})

    expect(page.locator("h1 .badge")).to_have_text("completed")
    expect(page.get_by_text('"answer": 42').first).to_be_visible()
    expect(page.locator("line.now")).to_have_count(0)
    standing(page, "It has ended")
    assert types(page) == desk.types(work.id)


@pytest.mark.parametrize("theme", THEMES)
def test_both_pages_are_readable_for_all(desk, open_console, console, theme):
    work = desk.work("shop", input={"order": 7}, labels={"team": "red"})
    work.report(work.step("notes.find"), data={"found": 3})
    work.call("db.drop")
    work.step("pay.refund", remote=False)
    page = open_console(f"/executions/{work.id}?view=table&event=3", color_scheme=theme)
    lane(page, "notes.find").get_by_role("button").click()
    standing(page, "Live")
    expect(page.get_by_role("region", name="Steps as a table")).to_contain_text("notes.find")
    screen(page, f"execution-{theme}")
    assert findings(page) == []

    page.goto(f"{console.url}/console/executions?label=team:red")
    expect(page.get_by_role("link", name=work.id)).to_be_visible()
    screen(page, f"executions-{theme}")
    assert findings(page) == []
