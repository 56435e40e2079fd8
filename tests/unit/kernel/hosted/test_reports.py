"""What hosted runs report: steps, progress and tokens in the log, bounded, and never what steps hold."""

import json

from piecework.errors import Refused
from piecework.extend.executors import Outcome
from piecework.kernel.clocks import rfc3339
from piecework.kernel.hosted.reports import MOST_PROGRESS, MOST_STEPS, STEP_NAME_CHARACTERS
from piecework.kernel.model.evolve import fold
from piecework.kernel.model.state import Status
from tests.support.kernel.hosted_stage import HostedHouse

TOOL = "geo.lookup"
SECRET = "what the model said"


def told(house, execution, kind=""):
    """The payloads of what a run has reported, oldest first."""
    log = house.kernel.events(execution, 0, 1000)
    return [event.payload if kind else event.type for event in log if event.type.startswith(kind or "run.")]


def a_desk(*, calls_tool=True):
    def desk(task, run):
        def think():
            house_of[task.execution_id].now += 2_000
            run.note(model="m-1", model_calls=1, input_tokens=120, output_tokens=30, secret=SECRET)
            return {"said": SECRET}

        run.step("think", think)
        run.progress(40, "thought")
        found = run.tool(TOOL, {"zip": 1}) if calls_tool else None
        run.step("write", lambda: [found])
        return Outcome({"found": found})

    return desk


house_of = {}


def begun(function, **more):
    house = HostedHouse(desk=function, **more)
    execution = house.begin()
    house_of[execution] = house
    return house, execution


def test_a_run_reports_its_steps_progress_and_tokens_before_the_call_that_follows_them():
    house, execution = begun(a_desk())
    started = house.now

    house.settle()

    assert told(house, execution) == ["run.step", "run.progress", "run.tokens"]
    types = [event.type for event in house.kernel.events(execution, 0, 1000)]
    assert types.index("run.tokens") < types.index("intent.accepted")
    assert told(house, execution, "run.step") == [
        {
            "name": "think",
            "place": 1,
            "started_at": rfc3339(started),
            "ended_at": rfc3339(started + 2_000),
            "bytes": len(json.dumps({"said": SECRET}, separators=(",", ":"))),
        }
    ]
    assert told(house, execution, "run.progress") == [{"pct": 40.0, "text": "thought", "at": rfc3339(started + 2_000)}]
    assert told(house, execution, "run.tokens") == [
        {"model": "m-1", "model_calls": 1, "input_tokens": 120, "output_tokens": 30}
    ]


def test_what_a_step_holds_is_never_told():
    house, execution = begun(a_desk(calls_tool=False))

    house.settle()

    assert SECRET not in repr([event.payload for event in house.kernel.events(execution, 0, 1000)])


def test_a_run_that_resumes_reports_only_what_it_does_itself():
    house, execution = begun(a_desk())
    house.settle()
    house.finish(execution)

    house.settle()

    assert house.state(execution).status is Status.COMPLETED
    assert [step["name"] for step in told(house, execution, "run.step")] == ["think", "write"]
    assert len(told(house, execution, "run.tokens")) == 1


def test_figures_that_replayed_steps_sum_up_again_are_not_told_again():
    def desk(task, run):
        used = run.step("think", lambda: 120)
        run.note(input_tokens=used)
        found = run.tool(TOOL, {"zip": 1})
        return Outcome({"found": found})

    house, execution = begun(desk)
    house.settle()
    house.finish(execution)

    house.settle()

    assert told(house, execution, "run.tokens") == [{"input_tokens": 120}]


def test_a_run_that_fails_reports_what_it_did():
    def desk(task, run):
        run.step("think", lambda: 1)
        raise Refused("not ours")

    house, execution = begun(desk)

    house.settle()

    assert [event.type for event in house.kernel.events(execution, 0, 1000)][-3:] == [
        "run.step",
        "intent.accepted",
        "execution.failed",
    ]


def test_a_run_that_is_cancelled_meanwhile_reports_nothing_more():
    def desk(task, run):
        run.step("think", lambda: 1)
        house_of[task.execution_id].kernel.cancel(task.execution_id)
        return Outcome(None)

    house, execution = begun(desk)

    house.settle()

    assert told(house, execution) == []
    assert house.kernel.events(execution, 0, 1000)[-1].type == "execution.cancelled"


def test_a_run_reports_a_bounded_number_of_steps_and_the_last_of_its_progress():
    def desk(task, run):
        for number in range(100):
            run.step("n" * 1_024, lambda: None)
            run.progress(number, "p" * 10_000)
        return Outcome(None)

    house, execution = begun(desk)

    house.settle()

    steps, progress = told(house, execution, "run.step"), told(house, execution, "run.progress")
    assert (len(steps), steps[-1]["left_out"]) == (MOST_STEPS, 100 - MOST_STEPS)
    assert [step.get("left_out") for step in steps[:-1]] == [None] * (MOST_STEPS - 1)
    assert {len(step["name"]) for step in steps} == {STEP_NAME_CHARACTERS}
    assert [each["pct"] for each in progress] == [float(pct) for pct in range(100 - MOST_PROGRESS, 100)]
    assert {len(each["text"]) for each in progress} == {500}


def test_figures_that_are_no_numbers_are_not_told():
    def desk(task, run):
        run.note(input_tokens="many", output_tokens=7.0, model=5)
        return Outcome(None)

    house, execution = begun(desk)

    house.settle()

    assert told(house, execution, "run.tokens") == [{"output_tokens": 7}]


def test_reports_change_nothing_of_an_execution():
    house, execution = begun(a_desk())
    house.settle()
    log = house.kernel.events(execution, 0, 1000)

    plain = [event for event in log if not event.type.startswith("run.")]

    state, found = fold(log), house.state(execution)
    assert (state.status, state.sequence, state.steps.keys()) == (found.status, found.sequence, found.steps.keys())
    assert len(plain) < len(log)
