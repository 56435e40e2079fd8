"""One execution: watched as it happens, whatever breaks; drawn, readable for all; texts of strangers."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from piecework.kernel.clocks import rfc3339
from tests.browser.axe import findings
from tests.browser.conftest import screen
from tests.browser.executions.looking import BEGAN_MS, EXECUTION, a_log, answer_with, lane, standing, types
from tests.browser.seeds import HOSTILE
from tests.browser.told_time import ToldTime, hide

pytestmark = pytest.mark.slow
THEMES = ("light", "dark")

# The longest that two frames took, in ms, while every list was scrolled through.
SCROLLED = """async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  let longest = 0;
  for (const list of document.querySelectorAll('pw-rows')) {
    for (let at = 0; at <= 50; at += 1) {
      list.scrollTop = (list.scrollHeight - list.clientHeight) * (at / 50);
      const before = performance.now();
      await frame(), await frame();
      longest = Math.max(longest, performance.now() - before);
    }
  }
  return longest;
}"""


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
    link = page.get_by_role("link", name="Answer about pay.refund")
    expect(link).to_have_attribute("href", f"/console/inbox/{work.id}/{step}")
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
    work.call("rm.all")
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


def test_a_killed_stream_says_so_and_goes_on_without_losing_or_doubling_an_event(console, desk, open_console, watch):
    watch.allow("ERR_|502|503")
    work = desk.work("shop")
    page = open_console(f"/executions/{work.id}")
    standing(page, "Live")
    for number in range(3):
        desk.signal(work.id, "note", payload=number)
    expect(page.get_by_role("list", name="Events").locator("code", has_text="signal.received")).to_have_count(3)

    page.route("**/stream", lambda route: route.abort())  # while the door is away
    assert console.running.kill("ops.kernel_streams.app:app") >= 1
    standing(page, "The connection broke")
    for number in range(3, 6):
        desk.signal(work.id, "note", payload=number)
    page.unroute("**/stream")

    standing(page, "Live")
    desk.signal(work.id, "note", payload=6)
    expect(page.get_by_role("list", name="Events").get_by_text('"payload":6')).to_be_visible()
    assert types(page) == desk.types(work.id)
    expect(page.locator("p.stream")).to_contain_text("so far")


def test_a_hidden_page_has_no_stream_and_misses_nothing(console, desk, open_console):
    work = desk.work("shop")
    page = open_console()
    time = ToldTime(page)
    page.goto(f"{console.url}/console/executions/{work.id}")
    standing(page, "Live")

    with page.expect_event("requestfailed", lambda request: request.url.endswith("/stream")):  # it is closed
        hide(page)
    standing(page, "Paused while")
    opened = []
    page.on("request", lambda request: opened.append(request.url))
    desk.signal(work.id, "note", payload="unseen")
    time.go_on(60, step=10)
    assert opened == []

    hide(page, False)
    standing(page, "Live")
    expect(page.get_by_role("list", name="Events").get_by_text('"payload":"unseen"')).to_be_visible()
    assert types(page) == desk.types(work.id)


def test_what_is_chosen_is_in_the_address_and_outlives_a_reload_and_back(desk, open_console):
    work = desk.work("shop", labels={"team": "red"})
    work.report(work.step("notes.find"), data={"found": 3})
    page = open_console(f"/executions/{work.id}")
    lane(page, "notes.find").get_by_role("button").click()
    page.get_by_role("list", name="Events").get_by_role("button", name="step.completed").click()

    def is_shown():
        expect(page.get_by_role("region", name="The chosen step")).to_contain_text("notes.find")
        expect(page.get_by_text("2 events of the chosen step")).to_be_visible()
        expect(page.locator("figcaption", has_text="event 5")).to_be_visible()

    is_shown()
    page.reload()
    is_shown()
    page.get_by_role("link", name="red", exact=True).click()
    expect(page.get_by_label("Label")).to_have_value("team:red")
    page.go_back()
    is_shown()


def test_what_strangers_write_into_an_execution_is_text(desk, open_console, console):
    work = desk.work(HOSTILE, input={HOSTILE: HOSTILE}, labels={HOSTILE: HOSTILE})
    work.report(work.step(HOSTILE), success=False, error=HOSTILE)
    work.intend("wait", signal_type=HOSTILE)
    desk.signal(work.id, HOSTILE, payload=HOSTILE)
    ended = desk.work(HOSTILE, labels={"plain": "xss"})
    ended.intend("fail", error=HOSTILE)
    page = open_console(f"/executions/{work.id}?view=table")
    expect(lane(page, f"call {desk.mark}.{HOSTILE}")).to_contain_text("failed")
    expect(lane(page, f"signal {HOSTILE}")).to_contain_text("received")
    lane(page, f"call {desk.mark}.{HOSTILE}").get_by_role("button").click()
    expect(page.get_by_role("region", name="The chosen step").locator("dd", has_text=HOSTILE).first).to_be_visible()
    for number in range(2):
        page.get_by_role("list", name="Events").get_by_role("button").nth(number).click()
    strange = "#main :is(img, script, iframe, b)"
    assert page.locator(strange).count() == 0 and page.title() == f"Execution {work.id} · Piecework"

    page.goto(f"{console.url}/console/executions/{ended.id}")
    expect(page.locator("#error + p")).to_have_text(HOSTILE)
    page.goto(f"{console.url}/console/executions?label=plain:xss")
    expect(page.get_by_role("row").filter(has_text=ended.id)).to_contain_text(HOSTILE)
    assert page.locator(strange).count() == 0
    page.get_by_role("row").filter(has_text=ended.id).get_by_role("link", name=HOSTILE).first.click()
    expect(page.get_by_label("Agent")).to_have_value(desk.named(HOSTILE))
    expect(page.get_by_role("link", name=work.id)).to_be_visible()


def test_a_hosted_run_shows_its_steps_model_calls_progress_and_tokens(console, open_console):
    def step(name, begun, ended):
        times = {"started_at": rfc3339(BEGAN_MS + begun), "ended_at": rfc3339(BEGAN_MS + ended)}
        return {"name": name, "place": 1, "bytes": 120, **times}

    call = {"tool_id": "web.search", "tool_version": 0, "arguments": {}, "max_attempts": 3, "attempt": 1}
    figures = {"model": "claude", "model_calls": 2, "input_tokens": 1200, "output_tokens": 345}
    deadline = rfc3339(BEGAN_MS + 300_000)
    events = a_log(
        (0, "execution.created", {"agent_id": "writer", "input": {"prompt": "write"}, "labels": {}}),
        (50, "execution.started", {"session_id": "s", "consumer_id": "piecework-hosted"}),
        (4000, "run.step", step("model-1", 100, 2600)),
        (4000, "run.step", step("read", 2700, 3900)),
        (4000, "run.progress", {"pct": 40.0, "text": HOSTILE, "at": rfc3339(BEGAN_MS + 3950)}),
        (4000, "run.tokens", figures),
        (4000, "intent.accepted", {"intent_type": "invoke_tool"}),
        (4000, "step.created", {**call, "deadline": deadline}, "one"),
        (4000, "step.dispatched", {"runner_id": "", "job_id": "j", "deadline": deadline}, "one"),
        (5000, "step.started", {"runner_id": "search-1"}, "one"),
        (6000, "step.failed", {"error": "HTTP 500", "retryable": True}, "one"),
        (6000, "step.retried", {"next_attempt": 2}, "one"),
        (8000, "step.dispatched", {"runner_id": "search-1", "job_id": "k", "deadline": deadline}, "one"),
        (8100, "step.started", {"runner_id": "search-1"}, "one"),
        (8900, "step.completed", {"result": 1}, "one"),
        (8950, "execution.completed", {"output": {"words": 3}}),
    )
    page = open_console()
    answer_with(page, events)
    page.goto(f"{console.url}/console/executions/{EXECUTION}?step=one&view=table")

    expect(lane(page, "model-1").locator("rect[data-kind=model]")).to_have_count(1)
    expect(lane(page, "model-1")).to_contain_text("2.50 s")
    expect(page.get_by_role("region", name="Hosted run")).to_contain_text("1\u202f200")
    expect(page.get_by_role("progressbar", name="Progress")).to_have_attribute("value", "40")
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    times = page.get_by_role("region", name="Its times").get_by_role("row")
    assert [row.split("\t")[1:] for row in times.all_inner_texts()[1:]] == [
        ["waits for a runner", "–", "1.00 s"],
        ["at work", "search-1", "1.00 s"],
        ["waits for its next attempt", "attempt 2", "2.00 s"],
        ["waits for a runner", "search-1", "100 ms"],
        ["at work", "search-1", "800 ms"],
    ]
    table = page.get_by_role("region", name="Steps as a table").get_by_role("row").filter(has_text="web.search")
    expect(table).to_contain_text("3.10 s")  # waited
    expect(table).to_contain_text("1.80 s")  # worked
    screen(page, "execution-hosted")
    assert findings(page) == []


def test_a_wait_of_days_is_folded_so_that_work_is_seen_and_true_to_scale_when_asked_for(console, open_console):
    day = 86_400_000
    asked = {"tool_id": "t", "tool_version": 0, "arguments": {}, "max_attempts": 1, "attempt": 1, "deadline": ""}
    events = a_log(
        (0, "execution.created", {"agent_id": "writer", "input": 1, "labels": {}}),
        (10, "execution.started", {"session_id": "s", "consumer_id": "c"}),
        (1_000, "step.created", {**asked, "tool_id": "first"}, "one"),
        (2_000, "step.completed", {"result": 1}, "one"),
        (2_010, "execution.blocked", {"reason": "signal", "ref": "go"}),
        (2 * day, "execution.resumed", {"reason": "signal received: go"}),
        (2 * day + 1_000, "step.created", {**asked, "tool_id": "second"}, "two"),
        (2 * day + 2_000, "step.completed", {"result": 1}, "two"),
        (2 * day + 2_010, "execution.completed", {"output": 12345678901234567890}),
    )
    page = open_console()
    answer_with(page, events)
    page.goto(f"{console.url}/console/executions/{EXECUTION}?event=9")

    def width(name):
        return float(lane(page, name).locator("rect.bar").get_attribute("width").removesuffix("%"))

    expect(lane(page, "second")).to_contain_text("done, 1.00 s")
    assert (round(width("first")), round(width("second")), round(width("signal go"))) == (20, 20, 20)
    expect(page.locator(".axis")).to_contain_text("⋯ 1 d 23 h")
    expect(page.locator("figure", has_text="event 9")).to_contain_text("12345678901234567890")  # not rounded
    screen(page, "execution-folded")
    page.get_by_label("True to scale").check()
    expect(page.locator(".axis")).not_to_contain_text("⋯")
    page.reload()
    expect(page.get_by_label("True to scale")).to_be_checked()
    assert width("first") < 0.01 and width("signal go") > 99


def test_ten_thousand_events_are_read_in_pages_and_scrolled_without_a_stutter(console, open_console):
    asked = {"tool_id": "t", "tool_version": 0, "arguments": {}, "max_attempts": 1, "attempt": 1, "deadline": ""}
    steps = [
        told
        for number in range(4_999)
        for told in (
            (number * 10, "step.created", {**asked, "tool_id": f"tool-{number}"}, f"s{number}"),
            (number * 10 + 5, "step.completed", {"result": number}, f"s{number}"),
        )
    ]
    begin = (0, "execution.created", {"agent_id": "writer", "input": 1, "labels": {}})
    events = a_log(begin, *steps, (49_990, "execution.completed", {"output": 1}))
    page = open_console()
    asked_after = answer_with(page, events)
    page.goto(f"{console.url}/console/executions/{EXECUTION}")

    expect(page.get_by_text("10\u202f000 events")).to_be_visible(timeout=30_000)
    assert asked_after == [number * 1_000 for number in range(10)]
    longest = min(page.evaluate(SCROLLED) for _ in range(2))  # what else a crowded machine does is in one of them
    expect(page.get_by_role("list", name="Events").get_by_text('{"output":1}')).to_be_visible()
    expect(lane(page, "tool-4998")).to_be_visible()
    assert page.locator("#main .row").count() < 300
    assert longest < 500, longest  # of a shared machine; a stutter is seconds


def test_the_table_shows_a_part_at_first_and_then_all(console, open_console):
    asked = {"tool_id": "t", "tool_version": 0, "arguments": {}, "max_attempts": 1, "attempt": 1, "deadline": ""}
    begin = (0, "execution.created", {"agent_id": "writer", "input": 1, "labels": {}})
    steps = [(number, "step.created", {**asked, "tool_id": f"tool-{number}"}, f"s{number}") for number in range(502)]
    page = open_console()
    answer_with(page, a_log(begin, *steps, (600, "execution.completed", {"output": 1})))
    page.goto(f"{console.url}/console/executions/{EXECUTION}?view=table")

    rows = page.get_by_role("region", name="Steps as a table").locator("tbody tr")
    expect(page.get_by_text("The first 500 of 503 rows.")).to_be_visible()
    expect(rows).to_have_count(500)
    page.get_by_role("button", name="Show 3 more").click()
    expect(rows).to_have_count(503)
    expect(page.get_by_text("The first 500")).to_have_count(0)


def test_both_pages_fit_a_phone(console, desk, open_console):
    work = desk.work("shop", labels={"a-rather-long-label": "with-a-rather-long-value-" * 4})
    work.report(work.step("notes.find"), data={"found": 3})
    phone = {"width": 360, "height": 740}
    page = open_console(f"/executions/{work.id}?event=1", viewport=phone)
    expect(lane(page, "notes.find")).to_be_visible()
    screen(page, "execution-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= phone["width"]

    page.goto(f"{console.url}/console/executions")
    expect(page.get_by_role("link", name=work.id)).to_be_visible()
    screen(page, "executions-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= phone["width"]


BEATING = """(() => {  // a stream on which nothing happens but the door's heartbeat, every 15 s of the page's time
  const real = window.fetch;
  window.fetch = (url, ...rest) => {
    if (!String(url.url ?? url).endsWith('/stream')) return real(url, ...rest);
    const beat = new TextEncoder().encode(':heartbeat\\n\\n');
    const start = (line) => setInterval(() => line.enqueue(beat), 15_000);
    return Promise.resolve(new Response(new ReadableStream({ start })));
  };
})()"""


@pytest.mark.parametrize(
    ("path", "is_blocked", "asked_for", "times"),
    [
        (f"/executions/{EXECUTION}", False, f"/executions/{EXECUTION}", 20),
        (f"/executions/{EXECUTION}", True, f"/executions/{EXECUTION}", 0),
        ("/executions", False, "/executions", 60),
    ],
)
def test_pages_ask_as_often_as_the_document_on_cost_says(console, open_console, path, is_blocked, asked_for, times):
    waits = [(20, "execution.blocked", {"reason": "signal", "ref": "go"})] if is_blocked else []
    events = a_log(
        (0, "execution.created", {"agent_id": "writer", "input": 1, "labels": {}}),
        (10, "execution.started", {"session_id": "s", "consumer_id": "c"}),
        *waits,
    )
    page = open_console()
    answer_with(page, events, "running")
    page.route("**/stream", lambda route: pytest.fail("the page has its stream"))
    page.route("**/ops/kernel/executions?**", lambda route: route.fulfill(json={"executions": [], "next_cursor": ""}))
    time = ToldTime(page)
    page.add_init_script(BEATING)
    page.goto(f"{console.url}/console{path}")
    page.clock.run_for(1_000)
    page.locator("#main h1").wait_for()
    time.stop()
    asked = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path.removeprefix("/ops/kernel")))

    time.go_on(300, step=2)

    assert asked == [asked_for] * times
