"""Hosted agents: one model call however often they resume, tools under policy, and nothing lost when a process dies."""

import asyncio

import pytest

from executors.refund_desk import refund_desk
from piecework.errors import PolicyDenied, Refused, Retryable, ToolFailed, Unavailable
from piecework.extend.executors import Outcome
from piecework.kernel.hosted.runs import FAILED, LEASE_MS, LOST, MOST_TRIES
from piecework.kernel.model.hosted import HOSTED
from piecework.kernel.model.state import Status
from piecework.kernel.model.timers import due_at
from piecework.kernel.policy.verdicts import Decision, Verdict
from tests.support.kernel.doors import a_door
from tests.support.kernel.hosted_stage import HostedHouse, an_executor

TOOL = "geo.lookup"
GATED = "pay.refund"
LOOK_MS = 30_000  # the agent timeout
PERSON = Verdict(Decision.REQUIRE_APPROVAL, "a person must look", "gate")


class Model:
    """Counts its calls and never answers twice the same."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return f"answer {self.calls}"


def a_desk(model, runs=None, tools=(TOOL,)):
    """An executor that asks a model, then its tools in turn."""

    def desk(task, run):
        if runs is not None:
            runs.append(task.execution_id)
        thought = run.step("think", model)
        found = [run.tool(tool_id, {"about": thought}) for tool_id in tools]
        return Outcome({"thought": thought, "found": found})

    return desk


def a_house(function=None, **kwargs):
    house = HostedHouse(desk=function or a_desk(Model()), **kwargs)
    house.policy.verdicts[GATED] = PERSON
    return house


def test_an_executor_without_tools_completes_its_execution():
    house = a_house(lambda task, run: Outcome({"got": task.inputs, "prompt": task.prompt, "labels": task.contract}))

    execution_id = house.begin(given={"prompt": "hi", "n": 1}, labels={"env": "qa"})

    assert house.settle() == ["completed"]
    view = house.kernel.get(execution_id)
    assert view.output == {"got": {"prompt": "hi", "n": 1}, "prompt": "hi", "labels": {"labels": {"env": "qa"}}}
    assert house.types(execution_id) == [
        "execution.created",
        "execution.started",
        "intent.accepted",
        "execution.completed",
    ]


def test_a_model_is_called_once_however_often_the_run_resumes():
    model, runs = Model(), []
    house = a_house(a_desk(model, runs, (TOOL, GATED, TOOL)))
    execution_id = house.begin()
    assert house.settle() == ["suspended"]

    house.finish(execution_id, data="one")
    assert house.settle() == ["suspended"]
    house.answer(execution_id, approved=True)
    house.finish(execution_id, data="two")
    assert house.settle() == ["suspended"]
    house.finish(execution_id, data="three")

    assert house.settle() == ["completed"]
    assert (model.calls, len(runs)) == (1, 4)
    assert house.kernel.get(execution_id).output == {"thought": "answer 1", "found": ["one", "two", "three"]}
    assert house.types(execution_id).count("step.created") == 3


def test_a_suspended_run_costs_no_compute_until_its_tool_answers():
    runs = []
    house = a_house(a_desk(Model(), runs, (GATED,)))
    execution_id = house.begin()
    house.settle()

    assert house.state(execution_id).status is Status.BLOCKED
    assert [house.look(execution_id) for _ in range(3)] == ["nothing"] * 3
    house.answer(execution_id, approved=True)  # a runner has yet to do it
    assert house.settle() == []
    assert len(runs) == 1


@pytest.mark.parametrize("ends_with_error", [False, True], ids=["denied by a person", "denied by the policy"])
def test_a_denial_reaches_the_executor_with_its_reason(ends_with_error):
    def desk(task, run):
        try:
            return Outcome(run.tool(GATED))
        except PolicyDenied as denial:
            return Outcome({"denied": denial.message})

    house = a_house(desk)
    if ends_with_error:
        house.policy.verdicts[GATED] = Verdict(Decision.DENY, "no money", "closed")
    execution_id = house.begin()
    house.settle()
    if not ends_with_error:
        house.answer(execution_id, approved=False, reason="no money")

        assert house.settle() == ["completed"]
    assert house.kernel.get(execution_id).output == {"denied": "no money"}


def test_a_tool_that_failed_raises_its_text():
    def desk(task, run):
        try:
            return Outcome(run.tool(TOOL))
        except PolicyDenied:
            return Outcome("denied")
        except ToolFailed as failure:
            return Outcome({"failed": failure.message})

    house = a_house(desk)
    execution_id = house.begin()
    house.settle()
    house.finish(execution_id, success=False, error="no such town")

    assert house.settle() == ["completed"]
    assert house.kernel.get(execution_id).output == {"failed": "no such town"}


def test_a_tool_failure_that_nobody_handles_fails_the_execution():
    house = a_house(a_desk(Model()))
    execution_id = house.begin()
    house.settle()
    house.finish(execution_id, success=False, error="no such town")

    assert house.settle() == ["failed"]
    assert house.error(execution_id) == "no such town"


def test_plain_handlers_do_not_swallow_a_suspension():
    def desk(task, run):
        try:
            return Outcome(run.tool(TOOL))
        except Exception:  # noqa: BLE001  # what plain code does
            return Outcome("swallowed")

    house = a_house(desk)
    house.begin()

    assert house.settle() == ["suspended"]


def test_a_suspension_that_is_swallowed_all_the_same_still_counts():
    def desk(task, run):
        try:
            return Outcome(run.tool(TOOL))
        except BaseException:  # noqa: BLE001  # what careless code does
            return Outcome("swallowed")

    house = a_house(desk)
    execution_id = house.begin()

    assert house.settle() == ["suspended"]
    assert house.state(execution_id).status is Status.RUNNING


def test_an_async_executor_suspends_and_resumes():
    model = Model()

    async def desk(task, run):
        async def think():
            await asyncio.sleep(0)
            return model()

        thought = await run.step("think", think)
        return Outcome([thought, run.tool(TOOL)])

    house = a_house(desk)
    execution_id = house.begin()
    assert house.settle() == ["suspended"]
    house.finish(execution_id, data=7)

    assert house.settle() == ["completed"]
    assert house.kernel.get(execution_id).output == ["answer 1", 7]
    assert model.calls == 1


@pytest.mark.parametrize(
    "second", [("other.tool", {"a": 1}), (TOOL, {"a": 2}), None], ids=["another tool", "other arguments", "no call"]
)
def test_a_run_that_calls_otherwise_than_recorded_fails_with_a_clear_text(second):
    calls = [(TOOL, {"a": 1}), second]

    def desk(task, run):
        call = calls.pop(0)
        return Outcome(run.tool(*call) if call else "nothing to do")

    house = a_house(desk)
    execution_id = house.begin()
    house.settle()
    house.finish(execution_id)

    assert house.settle() == ["failed"]
    assert "call 1 of run.tool" in house.error(execution_id) and "same calls" in house.error(execution_id)


def test_a_tool_inside_a_step_is_refused():
    house = a_house(lambda task, run: Outcome(run.step("one", lambda: run.tool(TOOL))))
    execution_id = house.begin()

    assert house.settle() == ["failed"]
    assert "inside run.step" in house.error(execution_id)


@pytest.mark.parametrize(
    ("error", "text"),
    [(Refused("nothing to refund"), "nothing to refund"), (KeyError("secret-4711"), FAILED), (Refused(""), FAILED)],
)
def test_refusals_are_told_and_bugs_are_not(error, text):
    def desk(task, run):
        raise error

    house = a_house(desk)
    execution_id = house.begin()

    assert house.settle() == ["failed"]
    assert house.error(execution_id) == text


def test_a_transient_failure_is_tried_again_a_few_times_then_fails():
    def desk(task, run):
        raise Retryable("the model is busy")

    house = a_house(desk)
    execution_id = house.begin()
    came = house.settle()
    while house.delayed:
        execution_id, _ = house.delayed.pop()
        came.append(house.look(execution_id))

    assert came == ["retry"] * (MOST_TRIES - 1) + ["failed"]
    assert house.error(execution_id) == f"the executor gave up after {MOST_TRIES} tries: the model is busy"


def test_tries_wait_longer_each_time_and_start_over_after_a_success():
    failures = [Retryable("busy"), Retryable("busy"), None, Retryable("busy"), None]

    def desk(task, run):
        found = run.step("think", lambda: 1)
        failure = failures.pop(0)
        if failure:
            raise failure
        return Outcome([found, run.tool(TOOL)])

    house = a_house(desk)
    execution_id = house.begin()
    house.settle()
    house.look(execution_id)
    assert house.look(execution_id) == "suspended"
    house.finish(execution_id)
    house.settle()

    assert [delay for _, delay in house.delayed] == [2_000, 4_000, 2_000]
    assert house.look(execution_id) == "completed"


def test_an_executor_that_kills_its_process_is_given_up():
    class Died(BaseException):
        pass

    def desk(task, run):
        raise Died

    house = a_house(desk)
    execution_id = house.begin()
    for _ in range(MOST_TRIES):
        with pytest.raises(Died):
            house.look(execution_id)
        house.now += LEASE_MS

    assert house.look(execution_id) == "failed"
    assert house.error(execution_id) == LOST


def test_two_wake_ups_at_once_run_the_executor_once_at_a_time():
    seen = []

    def desk(task, run):
        seen.append(house.look(task.execution_id))
        return Outcome(run.step("think", lambda: 1))

    house = a_house(desk)
    execution_id = house.begin()

    assert house.settle() == ["completed"]
    assert seen == ["busy"]
    assert house.types(execution_id).count("execution.completed") == 1


def test_a_result_that_comes_while_the_run_ends_makes_it_look_again():
    house = a_house(a_desk(Model()))
    execution_id = house.begin()
    house.wakes.clear()

    class Meddling(type(house.leases)):
        """The result comes, and its wake-up is delivered, just before the first release."""

        def release(self, execution_id, token):
            if house.state(execution_id).steps:
                house.finish(execution_id, data="in between")
                assert [house.look(waking) for waking in house.wakes] == ["busy"]
            return super().release(execution_id, token)

    house.leases = Meddling()

    assert house.look(execution_id) == "completed"
    assert house.kernel.get(execution_id).output["found"] == ["in between"]


def test_a_run_that_was_cancelled_meanwhile_records_nothing():
    def desk(task, run):
        house.kernel.cancel(task.execution_id)
        return Outcome(run.tool(TOOL))

    house = a_house(desk)
    execution_id = house.begin()

    assert house.settle() == ["gone"]
    assert house.types(execution_id)[-1] == "execution.cancelled"


def test_an_execution_cancelled_before_its_end_stays_cancelled():
    def desk(task, run):
        house.kernel.cancel(task.execution_id)
        return Outcome("too late")

    house = a_house(desk)
    execution_id = house.begin()

    assert house.settle() == ["gone"]
    assert house.state(execution_id).status is Status.CANCELLED


def test_an_execution_cancelled_while_suspended_is_not_run_again():
    runs = []
    house = a_house(a_desk(Model(), runs))
    execution_id = house.begin()
    house.settle()
    house.kernel.cancel(execution_id)

    assert house.settle() == []
    assert house.look(execution_id) == "nothing"
    assert len(runs) == 1


def test_a_lost_wake_up_is_made_up_for_by_the_due_time():
    house = a_house()
    execution_id = house.begin()
    house.wakes.clear()

    assert due_at(house.state(execution_id), house.settings) == house.now + LOOK_MS
    house.now += LOOK_MS
    house.kernel.run_due_timers(execution_id)

    assert house.settle() == ["suspended"]


def test_a_wake_up_that_cannot_be_sent_does_not_undo_its_change():
    house = a_house()

    def out_of_reach(execution_id, delay_ms):
        raise Unavailable("the queue")

    vars(house.door)["wake"] = out_of_reach
    execution_id = house.begin()

    assert house.state(execution_id).session.consumer_id == HOSTED


def test_a_suspended_execution_is_not_looked_at_until_something_is_due():
    house = a_house(a_desk(Model(), None, (GATED,)))
    execution_id = house.begin()
    house.settle()

    created_ms = house.state(execution_id).created_at_ms
    assert due_at(house.state(execution_id), house.settings) == created_ms + house.settings.execution_timeout_ms


def test_a_hosted_session_outlives_any_silence():
    house = a_house(a_desk(Model(), None, (TOOL, TOOL)))
    execution_id = house.begin()
    house.settle()
    house.now += 200_000
    house.finish(execution_id)

    assert house.settle() == ["suspended"]
    assert "execution.reset" not in house.types(execution_id)


def test_after_a_reset_the_run_starts_over_and_cancelled_calls_are_made_again():
    model = Model()
    house = a_house(a_desk(model))
    execution_id = house.begin()
    house.settle()
    house.kernel.agent_lost(execution_id, house.state(execution_id).session.id)

    assert house.settle() == ["suspended"]
    house.finish(execution_id, data="again")
    assert house.settle() == ["completed"]
    assert model.calls == 1
    assert house.types(execution_id).count("step.created") == 2


def test_a_registered_executor_goes_before_a_connected_agent_of_its_name():
    house = a_house()
    house.join("stranger", "desk")
    house.join("stranger", "other")

    hosted, other = house.begin("desk"), house.begin("other")

    assert house.state(hosted).session.consumer_id == HOSTED
    assert house.state(other).session.consumer_id == "stranger"


def test_who_cannot_wake_an_executor_leaves_its_executions_to_those_who_can():
    house = a_house()
    unable = a_door(house.store, house.clock, can_wake=False, hosted_names=house.executors)
    house.join("stranger", "desk")

    execution_id = unable.kernel.create("desk", None, {}).execution.id

    assert house.state(execution_id).status is Status.PENDING
    assert unable.assigner.offer("desk") == 0
    assert house.assigner.offer("desk") == 1
    assert house.settle() == ["suspended"]


def test_pushes_to_hosted_agents_are_not_stored():
    house = a_house()
    execution_id = house.begin()
    house.settle()
    house.kernel.signal(execution_id, "note", 1)
    house.finish(execution_id)
    house.settle()

    assert house.store.outbox.messages("agent", "desk", HOSTED, 100) == []


def test_an_executor_that_is_not_deployed_any_more_fails_its_executions():
    house = a_house()
    execution_id = house.begin()
    del house.executors["desk"]

    assert house.settle() == ["failed"]
    assert "no executor of this name" in house.error(execution_id)


@pytest.mark.parametrize(
    ("output", "told"),
    [({"n": "one"}, "does not fit its schema"), (float("nan"), "not a JSON value"), ("x" * 1_048_577, "larger than")],
    ids=["schema", "nan", "size"],
)
def test_an_output_that_cannot_be_recorded_fails_the_execution(output, told):
    house = a_house(lambda task, run: Outcome(output))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}} if isinstance(output, dict) else None
    execution_id = house.begin(given={"output_schema": schema})

    assert house.settle() == ["failed"]
    assert told in house.error(execution_id)


def test_a_step_result_that_no_item_can_hold_fails_the_execution():
    house = a_house(lambda task, run: Outcome(run.step("big", lambda: "x" * 350_000)))
    execution_id = house.begin()

    assert house.settle() == ["failed"]
    assert "350000" in house.error(execution_id)


def test_a_profile_is_chosen_by_label_if_the_executor_has_it():
    def desk(task, run):
        return Outcome([task.profile, task.settings["words"]])

    house = a_house()
    profiles = {"default": {"words": 100}, "fast": {"words": 10}}
    house.executors["desk"] = an_executor("profiled", desk, profiles=profiles)
    fast, unheard_of = (house.begin(labels={"profile": name}) for name in ("fast", "unheard-of"))
    house.settle()

    assert house.kernel.get(fast).output == ["fast", 10]
    assert house.kernel.get(unheard_of).output == ["default", 100]


PORTS = ("executions", "kernel", "leases", "steps")


class Power(BaseException):
    """The process is gone."""


class Faulty:
    """Ports that count their calls, and die before or after one of them."""

    def __init__(self, inner, tap):
        self._inner, self._tap = inner, tap

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        return lambda *given, **named: self._tap(found, *given, **named) if callable(found) else found


def die():
    raise Power


class Tap:
    """Lets something happen before or after one of the calls that go through it: by default the end of the process."""

    def __init__(self, at=-1, after=False, happening=die):
        self.calls, self.at, self.after, self.happening = 0, at, after, happening

    def __call__(self, function, *given, **named):
        number, self.calls = self.calls, self.calls + 1
        if number == self.at and not self.after:
            self.happening()
        result = function(*given, **named)
        if number == self.at and self.after:
            self.happening()
        return result


def a_whole_flow(tap):
    """From creation to the end, over ports that may die once; the net catches what a crash leaves."""
    model = Model()
    house = a_house(a_desk(model, None, (TOOL, GATED)))
    faulty = {name: Faulty(getattr(house, name), tap) for name in PORTS}
    execution_id = house.begin()
    for _ in range(40):
        execution = house.state(execution_id)
        if execution.status.is_terminal:
            break
        if execution.status is Status.BLOCKED:
            house.answer(execution_id, approved=True)
        elif execution.steps:
            house.finish(execution_id, data="done")
        for waking in [house.wakes.pop() for _ in list(house.wakes)]:
            try:
                house.look(waking, **faulty)
            except Power:
                house.wakes.clear()  # the message comes back later than the due time
        house.now += LOOK_MS + LEASE_MS
        house.kernel.run_due_timers(execution_id)
    return house, execution_id, model


def test_a_crash_at_any_call_costs_no_step_and_ends_as_expected():
    counting = Tap()
    a_whole_flow(counting)
    assert counting.calls > 20

    for at in range(counting.calls):
        for after in (False, True):
            house, execution_id, model = a_whole_flow(Tap(at, after))

            types = house.types(execution_id)
            assert types[-1] == "execution.completed", (at, after, types)
            assert types.count("step.created") == 2, (at, after, types)
            assert house.kernel.get(execution_id).output["found"] == ["done", "done"]
            assert model.calls <= 2 and (model.calls == 1 or _died_before_recording(at, after)), (at, after)


def _died_before_recording(at, after):
    """A model's answer that was not recorded yet is lost with its process: view, claim, view, find, then record."""
    return (at, after) == (4, False)


def a_run_that_is_met(at, after):
    """At one moment of a run the tool's result comes, if it can, and the wake-up is delivered twice."""
    model = Model()
    house = a_house(a_desk(model, None, (TOOL, TOOL)))
    execution_id = house.begin()
    house.wakes.clear()

    def meet():
        if house.state(execution_id).steps:
            house.finish(execution_id, data="met")
        for waking in [house.wakes.pop() for _ in list(house.wakes)] + [execution_id]:
            house.look(waking)

    tap = Tap(at, after, meet)
    house.look(execution_id, **{name: Faulty(getattr(house, name), tap) for name in PORTS})
    for _ in range(2):
        if house.state(execution_id).steps:
            house.finish(execution_id, data="later")
        house.settle()
    return house, execution_id, model, tap


def test_a_result_at_any_moment_of_a_run_is_neither_lost_nor_used_twice():
    *_, counting = a_run_that_is_met(-1, False)
    assert counting.calls >= 8

    for at in range(counting.calls):
        for after in (False, True):
            house, execution_id, model, _ = a_run_that_is_met(at, after)

            types = house.types(execution_id)
            assert types[-1] == "execution.completed", (at, after, types)
            assert types.count("step.created") == 2, (at, after, types)
            assert model.calls == 1, (at, after)


def test_the_refund_desk_asks_a_person_and_says_what_came_of_it():
    house = HostedHouse(refund_desk=refund_desk)
    house.policy.verdicts[GATED] = PERSON
    granted = house.begin("refund_desk", {"prompt": "Please refund order A-17, 42.00 francs"})
    denied = house.begin("refund_desk", {"order": "A-18", "cents": 990})
    assert house.settle() == ["suspended", "suspended"]

    house.answer(granted, approved=True)
    house.finish(granted, data={"receipt": 1})
    house.answer(denied, approved=False, reason="not ours")
    house.settle()

    assert house.kernel.get(granted).output == {
        "order": "A-17",
        "cents": 4200,
        "refunded": True,
        "receipt": {"receipt": 1},
    }
    assert house.kernel.get(denied).output == {"order": "A-18", "cents": 990, "refunded": False, "because": "not ours"}


@pytest.mark.parametrize("given", [None, "give me money", {"order": "A-1"}, {"order": "A-1", "cents": True}])
def test_the_refund_desk_refuses_what_it_cannot_read(given):
    house = HostedHouse(refund_desk=refund_desk)
    execution_id = house.begin("refund_desk", given)

    assert house.settle() == ["failed"]
    assert "name the" in house.error(execution_id)
