"""Each field that a stranger writes: characters that nobody can see are written out, and no text becomes markup."""

import json
import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from piecework.kernel.clocks import rfc3339
from tests.browser.executions.looking import BEGAN_MS, EXECUTION, a_log, answer_with
from tests.browser.parts.test_parts import asked

pytestmark = pytest.mark.slow
HIDDEN = "\u202e\u200b\u2066\u00ad\u3164\u2028\ufeff\U000e0041"
WRITTEN = "".join(f"⟦U+{ord(character):04X}⟧" for character in HIDDEN)
MARKUP = "<img src=x onerror=alert(1)>[a](javascript:alert(1)) **b** _c_ `d` # e ![f](x)"
UNSEEN = re.compile(f"[{HIDDEN}]")

# A view; the paths whose answers are changed; the members in which a text is planted, each of which the view shows.
FIELDS = {
    "/pieces": ("/pieces", "caller executor task_id execution_id attempt_id"),
    "/pieces/{whole}": ("/pieces/[0-9a-f]{64}", "caller executor task_id execution_id attempt_id mime producer"),
    "/pieces/{hostile}": ("/pieces/[0-9a-f]{64}/verdicts", "caller policy_id candidate_id execution_id"),
    "/verdicts": ("/verdicts", "caller policy_id candidate_id execution_id output_digest"),
    "/hired": ("/tasks", "executor state payment"),
    "/hired/contracts": ("/contracts", "source hash state"),
    "/hired/money": ("/ledger", "payer transaction wallet network kind payment"),
    "/hired/{hostile_task}": (
        "/tasks/[^/]+",
        "executor code message payer nonce claim transactions_named reason operator event_id host",
    ),
    "/operations?queue=task": ("/(records|pauses|status|dead-letters/task/look)", "by target verb reason body version"),
    "/now": ("/(pieces|status|kernel/executions)", "error agent_id id version"),
    "/executions": ("/kernel/executions", "agent_id id waiting_for labels"),
    "/agents": ("/kernel/agents", "agent_id consumer_id executions"),
    "/agents?show=runners": ("/kernel/runners", "runner_id consumer_id tools"),
    "/agents?show=tools": ("/kernel/tools", "id description runner_id input_schema"),
    "/policy": ("/kernel/policy", "problem name text"),
    "/inbox": ("/kernel/approvals", "tool_id agent_id rule_id reason asked_by execution_id"),
    "/inbox/{execution}/{step}": (
        "/kernel/executions/[^/]+/approvals/[^/]+",
        "tool_id agent_id rule_id reason asked_by",
    ),
}


VERDICT = {
    **{"at_ms": BEGAN_MS, "verification_status": "passed", "reason_codes": [], "score": 1, "verifier_result_hash": "h"},
    **dict.fromkeys(("policy_id", "policy_hash_rule", "candidate_id", "execution_id", "caller", "output_digest"), "x"),
}
RECORD = {"record_id": "r", "at_ms": BEGAN_MS, "by": "x", "verb": "x", "target": "x", "reason": "x", "outcome": None}
FAILED = {
    **{"id": "x", "status": "failed", "agent_id": "x", "labels": {}, "error": "x", "waiting_for": None},
    **{"created_at": rfc3339(BEGAN_MS), "updated_at": rfc3339(BEGAN_MS)},
}
ONE = {  # of each list that may be empty, by the end of its path and its member
    ("/verdicts", "items"): VERDICT,
    ("/records", "items"): RECORD,
    ("/pauses", "items"): {"scope": "door:worker", "since_ms": BEGAN_MS, "by": "x", "reason": "x"},
    ("/kernel/executions", "executions"): FAILED,
}


def planted(name):
    return f"{name.upper()}{HIDDEN}{MARKUP}"


def plant(value, names):
    """The same answer with a text in each of these members: a member that lists texts gets one."""
    if isinstance(value, list):
        return [plant(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: plant(one, names) for name, one in value.items()}
    for name in names & value.keys():
        if name in ("labels", "input_schema"):
            made[name] = {planted(name): planted(name)}
        elif isinstance(value[name], list):
            made[name] = [planted(name)] * min(len(value[name]), 1)
        else:
            made[name] = planted(name)
    return made


def shown(page):
    """All that a person sees, hears or reads on hover."""
    return page.evaluate(
        """() => {
          const names = ["title", "aria-label", "alt", "placeholder"];
          const of = (element) => names.map((name) => element.getAttribute(name) ?? "");
          const all = [...document.querySelectorAll("body, body *")];
          return [document.title, document.body.textContent, ...all.flatMap(of)].join("\\n");
        }"""
    )


@pytest.fixture
def places(console, kernel):
    """What the addresses of the views name; an execution waits for a person, and a runner is connected."""
    work = kernel.asks()
    tools = [{"id": "read", "description": "reads", "input_schema": {"type": "object"}}]
    with kernel.runner("box", tools):
        keys = {**console.seeded.keys, "hostile_task": console.seeded.contracts["hostile"]}
        yield {**keys, "execution": work.id, "step": work.step_id}


@pytest.mark.parametrize("view", FIELDS)
def test_a_strangers_text_has_nothing_hidden_wherever_it_is_shown(console, open_console, places, view):
    paths, members = FIELDS[view]
    names = set(members.split())
    page = open_console()
    page.route(re.compile(rf"/ops{paths}(\?.*)?$"), lambda route: answer_planted(route, names))
    page.goto(f"{console.url}/console{view.format(**places)}")
    page.locator("#main h1").wait_for()
    if "queue=" in view:
        page.get_by_role("button", name="Look at").click()

    for name in names:
        expect(page.locator("body")).to_contain_text(f"{name.upper()}{WRITTEN}{MARKUP}")
    assert UNSEEN.findall(shown(page)) == []
    assert page.locator("#main img, #main em, #main [href^='javascript' i], #main [onerror]").count() == 0
    assert page.locator("#main").get_by_text("b", exact=True).count() == 0  # no text of ours is that alone
    page.unroute_all(behavior="ignoreErrors")  # some pages look again and again


def answer_planted(route, names):
    answer = route.fetch()
    body = answer.json()
    for (path, member), item in ONE.items():
        if urlsplit(route.request.url).path.endswith(path):
            body[member] = body[member] or [item]
    route.fulfill(response=answer, body=json.dumps(plant(body, names)))


def test_an_executions_log_labels_errors_and_lanes_have_nothing_hidden(console, open_console):
    call = {"tool_id": planted("tool"), "tool_version": 0, "arguments": {planted("key"): planted("argument")}}
    step = {
        "name": planted("step"),
        "place": 1,
        "bytes": 1,
        "started_at": rfc3339(BEGAN_MS),
        "ended_at": rfc3339(BEGAN_MS + 9),
    }
    events = a_log(
        (0, "execution.created", {"agent_id": planted("agent"), "input": planted("input"), "labels": {}}),
        (9, "execution.started", {"session_id": "s", "consumer_id": planted("consumer")}),
        (10, "step.created", {**call, "max_attempts": 1, "attempt": 1, "deadline": rfc3339(BEGAN_MS + 99)}, "one"),
        (11, "step.failed", {"error": planted("failure"), "retryable": False}, "one"),
        (12, "run.step", step),
        (13, "run.progress", {"pct": 40.0, "text": planted("progress"), "at": rfc3339(BEGAN_MS)}),
        (14, "execution.failed", {"error": planted("error")}),
    )
    page = open_console()
    answer_with(page, events, "failed", agent_id=planted("agent"), labels={planted("label"): planted("value")},
                error=planted("error"), input=planted("input"))  # fmt: skip
    page.goto(f"{console.url}/console/executions/{EXECUTION}?step=execution&view=table&event=3")
    page.locator("#main h1").wait_for()

    said = (
        "tool",
        "key",
        "argument",
        "agent",
        "input",
        "consumer",
        "failure",
        "step",
        "progress",
        "error",
        "label",
        "value",
    )
    for name in said:
        expect(page.locator("body")).to_contain_text(f"{name.upper()}{WRITTEN}")
    assert UNSEEN.findall(shown(page)) == []


def test_toasts_dialogs_and_titles_have_nothing_hidden_and_copies_are_whole(open_console):
    page = open_console()
    body = """
      const { ask } = await import(new URL('parts/dialog.js', base));
      const { toast } = await import(new URL('parts/toast.js', base));
      const { copy } = await import(new URL('parts/show.js', base));
      const [text] = values;
      toast(text);
      navigator.clipboard.writeText = async (copied) => (element.dataset.copied = copied);
      exports.render(copy(text, text), element);
      element.querySelector('button').click();
      const fields = [{ name: 'x', label: text, hint: text }];
      ask({ title: text, intro: text, verb: text, no: text, fields, problem: text });
      await new Promise((resolve) => setTimeout(resolve, 50));
      return element.dataset.copied;
    """

    assert asked(page, "render.js", body, planted("text")) == planted("text")
    assert page.get_by_text(f"TEXT{WRITTEN}").count() >= 8
    assert UNSEEN.findall(shown(page)) == []


def test_a_text_that_is_read_from_the_right_turns_nothing_round(open_console):
    body = """
      const show = (text) => exports.render(html`<p>paid ${text} 100</p>`, element);
      show(values[0]), show(values[1]);
      const own = [...element.querySelectorAll('bdi')].map((each) => each.textContent);
      show('plain');
      return [own, element.textContent, element.querySelectorAll('bdi').length];
    """

    assert asked(open_console(), "render.js", body, "שלום 7", "مرحبا 7") == [["مرحبا 7"], "paid plain 100", 0]
