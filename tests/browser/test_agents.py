"""Agents, runners and tools: who is connected and works on what, pauses; what the policy says of a call."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.axe import findings
from tests.browser.conftest import screen
from tests.browser.kernel import AGENT
from tests.browser.seeds import HOSTILE

pytestmark = pytest.mark.slow
PHONE = {"width": 360, "height": 740}
RUNNER = "box-<b>1"
TOOL = {"id": "geo.look_up", "description": f"finds {HOSTILE}", "input_schema": {"type": "object", "title": HOSTILE}}
THEMES = ("light", "dark")


@pytest.fixture(autouse=True)
def nothing_else_waits(kernel):
    kernel.clear()


def card(page, agent_id=AGENT):
    return page.get_by_role("article", name=f"Agent {agent_id}", exact=True)


def give_reason(page, verb, reason):
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_be_visible()  # a reason is needed
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()


def test_an_agent_is_shown_with_its_work_and_is_paused_and_resumed(kernel, open_console, resumes):
    work = kernel.asks(arguments={"cents": 1})
    page = open_console("/agents")
    row = card(page).get_by_role("row").filter(has_text="desk-1")
    expect(row).to_contain_text("connected")
    expect(row).to_contain_text("ago")  # since
    expect(row.get_by_role("link", name=work.id)).to_be_visible()

    card(page).get_by_role("button", name="Pause…").click()
    give_reason(page, "Pause", f"it refunds twice {HOSTILE}")
    expect(card(page)).to_contain_text("Paused by you")
    expect(card(page)).to_contain_text(f"it refunds twice {HOSTILE}")
    refused = kernel.create(AGENT)
    assert refused.status_code == 503 and "paused" in refused.text

    page.reload()
    card(page).get_by_role("button", name="Resume…").click()
    give_reason(page, "Resume", "it is mended")
    expect(card(page)).to_contain_text("resumed by you")
    expect(card(page).get_by_role("button", name="Pause…")).to_be_visible()
    assert kernel.asks(arguments={"cents": 2}).status() == "blocked"


def test_who_pauses_an_agent_that_somebody_paused_meanwhile_is_told_whose_pause_holds(
    kernel, console, open_console, resumes
):
    kernel.asks(arguments={"cents": 1})
    page = open_console("/agents")
    card(page).get_by_role("button", name="Pause…").click()
    ann = {"Authorization": "Bearer ann-secret"}
    asked = {"agent_id": AGENT, "reason": "ann was here"}
    httpx.post(f"{console.url}/ops/kernel/agents/pause", headers=ann, json=asked, timeout=30).raise_for_status()
    give_reason(page, "Pause", "mine")

    expect(page.get_by_text(f"{AGENT} was paused already, by ann; that pause holds")).to_be_visible()
    expect(card(page)).to_contain_text("ann was here")


def test_runners_and_tools_are_shown_and_what_strangers_write_is_text(kernel, open_console):
    with kernel.runner(RUNNER, [TOOL]):
        page = open_console("/agents?show=runners")
        row = page.get_by_role("article", name=f"Runner {RUNNER}").get_by_role("row").filter(has_text="connected")
        expect(row).to_contain_text("geo.look_up")
        expect(row).to_contain_text("none")  # no job

        page.get_by_role("link", name="Tools", exact=True).click()
        page.get_by_label("Name, or its beginning").fill("geo")
        page.get_by_role("button", name="Filter").click()
        expect(page).to_have_url(f"{page.url.partition('?')[0]}?show=tools&prefix=geo")
        page.reload()
        row = page.get_by_role("row").filter(has_text="geo.look_up")
        expect(row).to_contain_text(f"finds {HOSTILE}")
        expect(row).to_contain_text(RUNNER)
        page.get_by_text("schema", exact=True).click()
        expect(row.locator("pre")).to_contain_text('"type": "object"')
        assert page.locator("#main img, #main script, #main b").count() == 0
        page.goto(page.url.replace("prefix=geo", "prefix=nothing"))
        expect(page.get_by_text("No such tool")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("row").filter(has_text="geo.look_up")).to_be_visible()


def test_a_door_is_paused_and_resumed_in_operations(open_console, watch, resumes):
    watch.allow("400")
    page = open_console("/operations")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_label("What").fill("door:nowhere")
    give_reason(page, "Pause", "the facilitator answers 500")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("scope must be door:")
    page.get_by_role("dialog").get_by_label("What").fill("executor:nobody-here")
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()

    row = (
        page.get_by_role("region", name="Pauses", exact=True).get_by_role("row").filter(has_text="executor:nobody-here")
    )
    expect(row).to_contain_text("the facilitator answers 500")
    expect(row).to_contain_text("you")
    row.get_by_role("button", name="Resume…").click()
    give_reason(page, "Resume", "it answers again")
    expect(page.get_by_text("No door or executor is paused.")).to_be_visible()


def test_a_viewer_sees_no_buttons(kernel, sign_in):
    kernel.asks(arguments={"cents": 1})
    for token in ("vic-secret", "bob-secret"):  # an approver does not pause either
        page = sign_in(token, "/agents")
        expect(card(page)).to_be_visible()
        assert page.locator("#main button").count() == 0
        page.get_by_role("link", name="Operations").click()
        expect(page.get_by_text("No door or executor is paused.")).to_be_visible()
        expect(page.get_by_role("button", name="Pause…")).to_have_count(0)


def test_a_call_is_put_to_the_policy_and_each_rule_answers(open_console):
    page = open_console("/policy?tool=rm.all")
    expect(page.get_by_role("textbox", name="Tool")).to_have_value("rm.all")
    expect(page.locator("#main pre").first).to_contain_text("large-refund")
    page.get_by_role("textbox", name="Agent").fill("triage")
    page.get_by_role("button", name="Ask the policy").click()
    verdict = page.locator(".verdict")
    expect(verdict.locator("h3")).to_contain_text("deny")
    expect(verdict.locator("h3")).to_contain_text("not on the list")
    tried = page.get_by_role("region", name="Rules that were tried, in their order").locator("tbody tr")
    expect(tried).to_have_count(4)
    expect(tried.nth(0)).to_contain_text("large-refund")
    expect(tried.nth(0)).to_contain_text("does not match")
    expect(tried.nth(0)).to_contain_text("tool_id")
    expect(tried.nth(3)).to_contain_text("matches, and decides")

    page.get_by_label("Arguments, as JSON").fill("{no json")
    page.get_by_role("button", name="Ask the policy").click()
    expect(page.get_by_role("alert")).to_contain_text("The arguments are not JSON")
    expect(page.get_by_label("Arguments, as JSON")).to_have_value("{no json")
    page.get_by_role("textbox", name="Tool").fill("kb.search")
    sent = []
    page.on("request", lambda request: sent.append(request.post_data) if "evaluate" in request.url else None)
    page.get_by_label("Arguments, as JSON").fill('{"cents": 12345678901234567890, "share": 1.0}')
    page.get_by_role("button", name="Ask the policy").click()
    expect(verdict.locator("h3")).to_contain_text("allow")
    expect(page.get_by_text("No rule matches: this is the default.")).to_be_visible()
    assert '"cents":12345678901234567890,"share":1.0' in sent[0]


def test_a_steps_call_is_taken_over_and_private_arguments_are_not(kernel, open_console, sign_in):
    refund, letter = kernel.asks(arguments={"cents": 12345678901234567890}), kernel.asks("mail.send", {"to": "secret"})
    page = open_console(f"/inbox/{refund.id}/{refund.step_id}")
    page.get_by_role("link", name="What the policy says of this call now").click()
    expect(page.get_by_label("Arguments, as JSON")).to_have_value('{\n  "cents": 12345678901234567890\n}')
    expect(page.locator(".verdict h3")).to_contain_text("require_approval")
    expect(page.locator(".verdict")).to_contain_text("144h, then it is denied")

    viewer = sign_in("vic-secret", f"/policy?execution={letter.id}&step={letter.step_id}")
    expect(viewer.get_by_text("The step's arguments cannot be shown to you")).to_be_visible()
    expect(viewer.locator(".verdict")).to_contain_text("private: for approvers alone")


def test_a_policy_that_does_not_load_is_said(open_console):
    page = open_console()
    broken = {"files": [], "is_complete": True, "problem": f"policy.yaml: rules[0] {HOSTILE}"}
    page.route("**/kernel/policy", lambda route: route.fulfill(json=broken))
    page.get_by_role("link", name="Policy").click()

    expect(page.get_by_role("alert")).to_contain_text(f"policy.yaml: rules[0] {HOSTILE}")


@pytest.mark.parametrize("theme", THEMES)
def test_agents_runners_tools_and_policy_are_readable_for_all(kernel, open_console, theme):
    kernel.asks(arguments={"cents": 1})
    with kernel.runner("box-1", [TOOL]):
        page = open_console("/agents", color_scheme=theme)
        for name, path in (
            ("agents", "/agents"),
            ("runners", "/agents?show=runners"),
            ("tools", "/agents?show=tools"),
            ("policy", f"/policy?tool=pay.refund&agent={AGENT}"),
        ):
            page.goto(page.url.partition("/console/")[0] + "/console" + path)
            page.locator("#main h1").wait_for()
            if name == "policy":
                page.get_by_role("button", name="Ask the policy").click()
                page.locator(".verdict").wait_for()
            page.wait_for_load_state("networkidle")
            screen(page, f"{name}-{theme}")
            assert findings(page) == [], name


@pytest.mark.parametrize("path", ["/agents", "/agents?show=runners", "/agents?show=tools", "/policy"])
def test_each_fits_a_phone(kernel, open_console, path):
    with kernel.runner("box-1", [TOOL]):
        page = open_console(path, viewport=PHONE)
        page.wait_for_load_state("networkidle")
        screen(page, f"{path.strip('/').partition('?')[2].removeprefix('show=') or path.strip('/')}-phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
