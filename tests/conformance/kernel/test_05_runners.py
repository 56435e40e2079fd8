"""Kernel specification section 11, cases 42 to 53: runners."""

import re

import pytest

from piecework.kernel.settings import KernelSettings
from tests.support.kernel.desk import ARGUMENTS, Desk

ZERO_TIME = "0001-01-01T00:00:00Z"
TOOLS = [
    {"id": "geo.lookup", "description": "a place", "input_schema": {"type": "object"}},
    {"id": "geo_far", "description": "another"},
    {"id": "geography", "description": "not geo"},
]


pytestmark = pytest.mark.usefixtures("stored")


def jobs(line) -> list[dict]:
    line.look()
    return line.of("job.assigned")


def test_remote_happy_path(desk):
    runner, work = desk.stage.runner(), desk.work()
    step = work.remote()

    job = runner.take("job.assigned")
    assert {name: job[name] for name in job if name not in ("id", "deadline")} == {
        "execution_id": work.id,
        "step_id": step,
        "attempt": 1,
        "tool_id": desk.named("geo.lookup"),
        "tool_version": 0,
        "arguments": ARGUMENTS,
        "not_before": ZERO_TIME,
    }
    created, dispatched = desk.events(work.id)[-2:]
    assert (created["payload"]["max_attempts"], created["payload"]["attempt"]) == (3, 1)
    assert dispatched["payload"] == {"runner_id": "", "job_id": job["id"], "deadline": job["deadline"]}
    assert re.fullmatch(r"[\d:T.-]+Z", job["deadline"])
    assert work.started(step).json() == {"status": "ok"}
    assert work.result(job, data={"city": "Zürich"}).json() == {"status": "ok"}
    assert work.types[-2:] == ["step.started", "step.completed"]
    assert [told["result"] for told in work.heard("tool.result")] == [{"city": "Zürich"}]


def test_one_job_per_connection(desk):
    one, work = desk.stage.runner(), desk.work()
    first, second = work.remote(), work.remote()
    desk.stage.pass_time(3)
    assert [job["step_id"] for job in jobs(one)] == [first]

    work.result(jobs(one)[0])
    assert [job["step_id"] for job in jobs(one)] == [first, second]
    work.result(jobs(one)[1])
    two = desk.stage.runner(consumer_id="two")
    third, fourth = work.remote(), work.remote()
    assert {jobs(one)[-1]["step_id"], jobs(two)[-1]["step_id"]} == {third, fourth}


def test_result_without_consumer_id_frees_runner(desk):
    runner, work = desk.stage.runner(), desk.work()
    work.remote()
    waiting = work.remote()

    work.result(runner.take("job.assigned"))

    assert jobs(runner)[-1]["step_id"] == waiting


def test_queue_until_runner(desk):
    work = desk.work()
    step = work.remote()
    desk.stage.pass_time(5)
    assert work.status == "running"

    runner = desk.stage.runner()
    job = runner.take("job.assigned")
    assert job["step_id"] == step
    again = desk.events(work.id)[-1]
    assert (again["type"], again["payload"]["runner_id"]) == ("step.dispatched", desk.named("geo-1"))
    assert again["payload"]["job_id"] == job["id"]
    work.result(job)

    other = desk.work("another")
    late = other.step("late.tool", remote=True)
    offered = [desk.named("geo.lookup"), desk.named("late.tool")]
    path = f"/v0/runners/{desk.named('geo-1')}/capabilities"
    assert desk.post(path, {"tools": offered}).status_code == 200
    assert jobs(runner)[-1]["step_id"] == late


def test_queued_job_same_execution(desk):
    runner, work = desk.stage.runner(), desk.work()
    steps = [work.remote() for _ in range(4)]

    for number in range(4):
        work.result(jobs(runner)[number])

    assert {told["step_id"] for told in work.heard("tool.result")} == set(steps)
    assert work.intend("complete").json() == {"accepted": True}


def test_retry_backoff(desk):
    runner, work = desk.stage.runner(), desk.work()
    step = work.remote()
    times, seen = [desk.stage.clock()], [runner.take("job.assigned")]
    for delay in (2, 4):
        assert work.result(seen[-1], success=False, error="busy", retryable=True).status_code == 200
        assert work.types[-2:] == ["step.failed", "step.retried"]
        desk.stage.pass_time(delay + 1.75, until=lambda: len(jobs(runner)) > len(seen))  # called at once
        times.append(desk.stage.clock())
        seen.append(jobs(runner)[-1])
    assert work.heard("tool.result") == []
    work.result(seen[-1], success=False, error="busy", retryable=True)

    assert [job["attempt"] for job in seen] == [1, 2, 3]
    assert len({job["id"] for job in seen}) == 3
    assert seen[1]["not_before"] != ZERO_TIME
    assert times[1] - times[0] >= 2_000 and times[2] - times[1] >= 4_000
    assert desk.events(work.id)[-1]["payload"] == {"error": "busy", "retryable": False}
    assert [(told["step_id"], told["status"]) for told in work.heard("tool.result")] == [(step, "failed")]
    other = work.remote()
    work.result(jobs(runner)[-1], success=False, error="no", retryable=False)
    assert work.types[-1] == "step.failed" and "step.retried" not in work.types[-3:]
    assert work.heard("tool.result")[-1]["step_id"] == other


def test_stale_job_result(desk):
    runner, work = desk.stage.runner(), desk.work()
    work.remote()
    first = runner.take("job.assigned")
    work.result(first, success=False, error="busy", retryable=True)

    assert work.result(first).status_code == 409
    desk.stage.pass_time(3, until=lambda: len(jobs(runner)) > 1)
    assert work.result(first).status_code == 409
    assert work.result(jobs(runner)[-1]).status_code == 200


def test_started_rules(desk):
    runner, work = desk.stage.runner(), desk.work()
    step = work.remote()

    for path, body in (
        ("unknown", {"execution_id": work.id, "runner_id": desk.named("geo-1")}),
        (step, {"execution_id": "unknown", "runner_id": desk.named("geo-1")}),
    ):
        answer = desk.post(f"/v0/runners/steps/{path}/started", body)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    assert work.status == "running"
    assert [work.started(step).status_code for _ in range(2)] == [200, 200]
    assert work.types.count("step.started") == 1
    assert desk.events(work.id)[-1]["payload"] == {"runner_id": desk.named("geo-1")}
    work.result(runner.take("job.assigned"))
    before = work.types
    assert work.started(step).status_code == 200
    assert work.types == before
    assert desk.post(f"/v0/runners/steps/{step}/started", {"execution_id": work.id}).status_code == 400


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_retry_not_killed_by_old_deadline():
    desk = Desk(KernelSettings(step_timeout_ms=3_000))
    runner, work = desk.stage.runner(), desk.work()
    work.remote()
    desk.stage.pass_time(2)
    work.result(runner.take("job.assigned"), success=False, error="busy", retryable=True)

    desk.stage.pass_time(4)

    assert work.status == "running"
    assert work.result(jobs(runner)[-1]).status_code == 200


def test_cancel_drops_queued_job(desk):
    cancelled, reset = desk.work(), desk.work("another")
    cancelled.remote()
    reset.remote()
    desk.cancel(cancelled.id)
    reset.agent.close()
    desk.stage.pass_time(5, until=lambda: reset.status == "pending")

    runner = desk.stage.runner()
    desk.stage.pass_time(5)

    assert jobs(runner) == []


def test_runner_validation(desk):
    path = f"/v0/runners/{desk.named('geo-1')}"
    runner, work = desk.stage.runner(), desk.work()
    work.remote()
    job = runner.take("job.assigned")
    body = {"job_id": job["id"], "execution_id": work.id, "step_id": job["step_id"], "success": True}
    for missing in body:
        wrong = {name: value for name, value in body.items() if name != missing}
        assert desk.post(f"{path}/results", wrong).status_code == 400, missing
    for more in ({"started_at": "yesterday"}, {"completed_at": 5}, {"success": "yes"}, {"retryable": "no"}):
        assert desk.post(f"{path}/results", body | more).status_code == 400, more
    assert desk.post(f"{path}/results", body | {"step_id": "unknown"}).status_code == 404
    assert desk.post(f"{path}/results", body | {"execution_id": "unknown"}).status_code == 404
    times = {"started_at": "2026-03-02T08:16:06Z", "completed_at": None, "consumer_id": "one"}
    assert desk.post(f"{path}/results", body | times).status_code == 200

    for wrong in ({}, {"tools": None}, {"tools": "geo"}, {"tools": [1]}):
        assert desk.post(f"{path}/capabilities", wrong).status_code == 400, wrong
    assert desk.post(f"{path}-nobody/capabilities", {"tools": []}).json() == {"status": "ok"}
    gone = desk.client.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    desk.stage.pass_time(6, until=lambda: runner.has_ended)
    assert desk.client.delete(f"{path}-nobody").status_code == 404


def publish(desk, tools, runner_id="geo-1"):
    own = [{**tool, "id": desk.named(tool["id"])} for tool in tools]
    return desk.post(f"/v0/runners/{desk.named(runner_id)}/tools", {"tools": own})


def listed_tools(desk, prefix=""):
    """The directory, less what other clients of the door have published."""
    tools, own = desk.get("/v0/tools", prefix=desk.named(prefix) if prefix else "").json(), desk.named("")
    return [{**tool, "id": tool["id"].removeprefix(own)} for tool in tools if tool["id"].startswith(own)]


def test_tools_directory(desk):
    published = publish(desk, TOOLS)
    assert (published.status_code, published.content) == (204, b"")
    runner = desk.stage.runner(tools="")

    listed = listed_tools(desk)
    assert [tool["id"] for tool in listed] == ["geo.lookup", "geo_far", "geography"]
    assert set(listed[0]) == {"id", "description", "input_schema", "runner_id", "registered_at"}
    assert (listed[0]["runner_id"], listed[0]["input_schema"]) == (desk.named("geo-1"), {"type": "object"})
    assert listed[1]["input_schema"] is None
    assert [tool["id"] for tool in listed_tools(desk, "geo")] == ["geo.lookup", "geo_far"]
    assert [tool["id"] for tool in listed_tools(desk, "geography")] == ["geography"]
    assert listed_tools(desk, "g") == []

    work = desk.work()
    step = work.remote()
    assert runner.take("job.assigned")["step_id"] == step
    publish(desk, TOOLS[:1])
    assert [tool["id"] for tool in listed_tools(desk)] == ["geo.lookup"]
    runner.close()
    desk.stage.pass_time(15)
    assert listed_tools(desk) == []


def test_tools_directory_names_the_newest_registration(desk):
    publish(desk, TOOLS[:1])
    desk.stage.pass_time(1)
    publish(desk, TOOLS[:1], "geo-2")

    [only] = listed_tools(desk)
    assert only["runner_id"] == desk.named("geo-2")


@pytest.mark.inside("fills the directory of the door")
def test_a_large_directory_comes_in_pages_that_fit_and_loses_none(desk):
    large = {"description": '"é' * 90_000}
    for number in range(30):
        tools = [{"id": f"geo.{number:02d}.{place}", "input_schema": large} for place in ("a", "b")]
        assert desk.post(f"/v0/runners/r{number}/tools", {"tools": tools}).status_code == 204

    pages, query = [], "?prefix=geo"
    while query:
        pages.append(desk.client.get(f"/v0/tools{query}"))
        query = str(pages[-1].links.get("next", {}).get("url", ""))
        assert len(pages) < 20

    assert [page.status_code for page in pages] == [200] * len(pages)
    assert all(len(page.content) <= 4_001_000 for page in pages)
    told = [tool["id"] for page in pages for tool in page.json()]
    assert told == [f"geo.{number:02d}.{place}" for number in range(30) for place in ("a", "b")]
    assert 3 < len(pages) < 8


@pytest.mark.inside("fills the directory of the door")
def test_a_small_directory_has_one_page_and_a_foreign_cursor_is_refused(desk):
    desk.post("/v0/runners/r/tools", {"tools": [{"id": "geo.lookup"}]})

    assert "link" not in desk.get("/v0/tools").headers
    assert desk.get("/v0/tools", cursor="~").status_code == 400
