"""Kernel specification section 11, cases 66 to 70: timeouts and races."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from piecework.kernel.settings import KernelSettings
from tests.support.kernel.desk import GATED, Desk

TERMINAL = ("execution.completed", "execution.failed", "execution.cancelled")

pytestmark = pytest.mark.usefixtures("stored")


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_step_timeout():
    desk = Desk(KernelSettings(step_timeout_ms=2_000))
    work = desk.work()
    late, other = work.step(), work.step()

    desk.stage.pass_time(3)

    assert work.types[-3:] == ["step.timed_out", "step.cancelled", "execution.failed"]
    timed_out, cancelled, failed = desk.events(work.id)[-3:]
    assert {timed_out["step_id"], cancelled["step_id"]} == {late, other}
    assert (timed_out["payload"], failed["payload"]) == ({}, {"error": "step timed out"})
    assert cancelled["payload"] == {"reason": "sibling step timed out"}
    assert timed_out["correlation_id"] == cancelled["correlation_id"] == failed["correlation_id"]
    assert failed["causation_id"] == cancelled["id"] and cancelled["causation_id"] == timed_out["id"]
    assert work.heard("tool.result") == []
    assert work.types.count("execution.failed") == 1
    assert work.report(late).status_code == work.report(other).status_code == 409


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_execution_timeout():
    desk = Desk(KernelSettings(execution_timeout_ms=60_000))
    running, waiting, gated = desk.work("one"), desk.work("two"), desk.work("three")
    step = running.step()
    waiting.intend("wait", signal_type="go")
    gated.step(GATED)
    pending = desk.create("nobody")

    desk.stage.pass_time(61)

    for execution in (running.id, waiting.id, gated.id, pending):
        assert desk.status(execution) == "failed"
        assert desk.events(execution)[-1]["payload"] == {"error": "execution exceeded maximum duration"}
    cancelled = desk.events(running.id)[-2]
    assert (cancelled["step_id"], cancelled["payload"]) == (step, {"reason": "execution timed out"})
    assert [told["reason"] for told in running.heard("execution.cancelled")] == ["execution exceeded maximum duration"]


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_execution_timeout_is_seen_by_get_before_any_sweep():
    desk = Desk(KernelSettings(execution_timeout_ms=60_000))
    execution = desk.create()
    desk.stage.clock.move(60)

    assert desk.status(execution) == "failed"


def at_once(*calls) -> list[int]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result().status_code for future in [pool.submit(call) for call in calls]]


def test_cancel_vs_complete_race(desk):
    for _ in range(50):
        work = desk.work()
        answers = at_once(lambda: desk.cancel(work.id), lambda: work.intend("complete"))  # noqa: B023  # called at once

        ends = [name for name in work.types if name in TERMINAL]
        assert sorted(answers) == [200, 409]
        assert ends == [work.types[-1]] == [f"execution.{work.status}"]
        assert work.status == ("cancelled" if answers[0] == 200 else "completed")


def test_result_vs_cancel_race(desk):
    runner = desk.stage.runner()
    for _ in range(20):
        work = desk.work()
        step = work.step()
        work.remote()
        runner.look()
        job = runner.of("job.assigned")[-1]
        at_once(lambda: work.report(step), lambda: desk.cancel(work.id), lambda: work.result(job))  # noqa: B023

        types = work.types
        assert types[-1] == "execution.cancelled" and types.count("execution.cancelled") == 1
        assert types.count("step.completed") + types.count("step.cancelled") == 2


def test_sequence_integrity(desk):
    runner, work = desk.stage.runner(), desk.work()
    work.remote()
    job = runner.take("job.assigned")
    steps = [work.step() for _ in range(5)]
    calls = [lambda step=step: work.report(step) for step in steps]
    signals = [lambda: desk.signal(work.id, "go") for _ in range(5)]
    at_once(*calls, *signals, lambda: work.result(job), lambda: work.call(idempotency_key="k"))
    at_once(*[lambda: desk.cancel(work.id) for _ in range(3)], lambda: work.intend("wait", signal_type="go"))

    events = desk.events(work.id)
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events if event["type"] in TERMINAL] == [events[-1]["type"]]
    assert len({event["id"] for event in events}) == len(events)
    page = desk.get(f"/v0/executions/{work.id}/events", after_sequence=3, limit=2).json()
    assert [event["sequence"] for event in page["events"]] == [4, 5] and page["latest_sequence"] == 5
