"""Kernel specification section 1.5 and its amendments: answers of people while the agent that asked is away."""

import pytest

from tests.support.kernel import desk as kernel_desk
from tests.support.kernel.desk import GATED, Desk, Work

pytestmark = [pytest.mark.usefixtures("stored"), pytest.mark.needs("POLICY")]


def say(work: Work, step: str, approved: bool = True, **more) -> None:
    payload = {"step_id": step, "approved": approved, **more}
    assert work.desk.signal(work.id, "step.approve", payload=payload).status_code == 200


def leave(work: Work) -> None:
    """The agent's process is gone, and that is known."""
    work.agent.close()
    work.desk.stage.pass_time(3)


def come(work: Work, consumer_id: str = "two") -> Work:
    """Another process of the agent is given the execution."""
    agent = work.desk.agent(consumer_id=consumer_id)
    work.desk.stage.pass_time(1)
    [session] = [told for told in agent.of("execution.assigned") if told["execution_id"] == work.id][-1:]
    return Work(work.desk, agent, session)


def asks(work: Work, tool_id: str = GATED, **members) -> bool:
    """Whether a call waits for a person."""
    answer = work.call(tool_id, **members).json()
    assert answer["accepted"], answer
    return bool(answer.get("pending_approval", False))


@pytest.mark.parametrize("keys", [("", ""), ("k1", "k1"), ("random-1", "random-2"), ("", "k2")])
@pytest.mark.parametrize("remote", [False, True])
def test_a_yes_that_nobody_heard_lets_the_same_call_of_the_next_run_through_once(desk, remote, keys):
    work = desk.work()
    step = work.step(GATED, remote=remote, idempotency_key=keys[0])
    leave(work)
    say(work, step)

    again = come(work)
    answer = again.call(GATED, remote=remote, idempotency_key=keys[1])

    assert answer.json().keys() == {"accepted", "step_id"}
    assert answer.json()["step_id"] != step and again.status == "running"
    cancelled = next(event for event in desk.events(work.id) if event["type"] == "step.cancelled")
    assert (cancelled["step_id"], cancelled["payload"]["answer_kept"]) == (step, True)
    created = [event for event in desk.events(work.id) if event["type"] == "step.created"][-1]
    assert created["payload"]["answered_as"] == step
    if remote:
        again.result(desk.stage.runner(tools=GATED).take("job.assigned"))
    else:
        assert again.report(answer.json()["step_id"]).status_code == 200
    assert asks(again, remote=remote, idempotency_key="another")


def test_a_yes_between_the_loss_of_a_stream_and_its_notice_is_kept_too(desk):
    work = desk.work()
    step = work.step(GATED)
    work.agent.close()
    say(work, step)
    desk.stage.pass_time(3)

    assert "execution.reset" in work.types
    assert not asks(come(work))


def test_a_yes_that_a_successor_was_told_is_not_kept_when_that_one_is_lost(desk):
    work = desk.work()
    step = work.step(GATED)
    work.agent.close()
    say(work, step)
    work.agent = desk.agent(consumer_id="one")
    work.agent.look()
    assert [told["step_id"] for told in work.heard("approval.resolved")] == [step]

    leave(work)

    assert asks(come(work))


def test_a_yes_that_the_agent_may_have_acted_on_is_asked_for_again(desk):
    work = desk.work()
    step = work.step(GATED)
    say(work, step)
    leave(work)

    assert asks(come(work))


@pytest.mark.parametrize("begun", [False, True])
def test_a_remote_call_is_asked_about_again_only_if_a_runner_was_given_it(desk, begun):
    work = desk.work()
    step = work.step(GATED, remote=True)
    say(work, step)
    if begun:
        desk.stage.runner(tools=GATED).take("job.assigned")
    leave(work)

    assert asks(come(work), remote=True) is begun


def test_a_job_that_was_given_back_unbegun_counts_as_given(desk):
    work = desk.work()
    step = work.step(GATED, remote=True)
    runner = desk.stage.runner(tools=GATED)
    say(work, step)
    runner.take("job.assigned")
    runner.close()
    desk.stage.pass_time(3)
    leave(work)

    assert asks(come(work), remote=True)


@pytest.mark.parametrize(
    "other",
    [{"arguments": {"zip": "8002"}}, {"arguments": {"zip": 8001}}, {"arguments": None}, {"remote": True}],
    ids=["other arguments", "another type", "none", "elsewhere"],
)
def test_a_yes_holds_for_an_equal_call_only(desk, other):
    work = desk.work()
    step = work.step(GATED)
    leave(work)
    say(work, step)

    assert asks(come(work), **other)


def test_a_yes_holds_for_the_same_place_among_equal_calls(desk):
    work = desk.work()
    first = work.step(GATED)
    say(work, first)
    work.report(first)
    second = work.step(GATED)
    leave(work)
    say(work, second)

    again = come(work)
    assert asks(again)  # the first one was made in the run before; that it may be made anew nobody has said
    repeated = desk.events(work.id)[-1]["payload"]["ref"]
    say(again, repeated)
    again.report(repeated)
    assert not asks(again)


def test_a_repeated_key_tells_the_call_where_others_are_answered_from_the_record(desk):
    work = desk.work()
    first = work.step(GATED, idempotency_key="k1")
    say(work, first)
    work.report(first)
    second = work.step(GATED, idempotency_key="k2")
    leave(work)
    say(work, second)

    again = come(work)
    assert again.call(GATED, idempotency_key="k1").json()["step_id"] == first
    assert not asks(again, idempotency_key="k2")


def test_a_yes_is_kept_through_runs_that_do_not_come_to_the_call(desk):
    work = desk.work()
    step = work.step(GATED)
    leave(work)
    say(work, step)
    for number in range(3):
        again = come(work, f"run-{number}")
        again.step()
        leave(again)

    assert not asks(come(work, "last"))


def test_a_remote_call_let_through_that_no_runner_took_is_let_through_again(desk):
    work = desk.work()
    step = work.step(GATED, remote=True)
    leave(work)
    say(work, step)
    again = come(work)
    assert not asks(again, remote=True)
    leave(again)

    last = come(work, "three")
    assert not asks(last, remote=True)
    assert asks(last, remote=True)


def test_a_no_that_nobody_heard_holds_for_the_same_call_of_the_next_run(desk):
    work = desk.work()
    step = work.step(GATED)
    leave(work)
    say(work, step, approved=False, reason="too much")

    again = come(work)
    answer = again.call(GATED).json()

    assert (answer["accepted"], answer["error"]) == (False, "too much")
    denied = desk.events(work.id)[-1]
    assert (denied["type"], denied["payload"]["answered_as"]) == ("intent.denied", step)
    assert asks(again)


ENOUGH = (
    "rules:\n  - {id: enough, priority: 1, when: {tool_id: pay.refund, min_step_count: 2}, then: {decision: deny}}\n"
)


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_the_policy_goes_before_a_kept_yes(monkeypatch):
    monkeypatch.setattr(kernel_desk, "POLICY", kernel_desk.POLICY.replace("rules:\n", ENOUGH))
    work = Desk().work()
    step = work.step(GATED)
    leave(work)
    say(work, step)

    again = come(work)
    again.step()

    assert again.call(GATED).json()["accepted"] is False


@pytest.mark.inside("writes into the door's store")
def test_a_consumer_that_comes_back_while_its_loss_is_recorded_may_have_been_told(desk, monkeypatch):
    work = desk.work()
    step = work.step(GATED)
    work.agent.close()
    say(work, step)
    store = desk.stage.store
    kind, came = type(store.executions), []
    commit = kind.commit

    def come_before(executions, change):
        if not came and any(event.type == "agent.timeout" for event in change.events):
            came.append(store.agents.connect("triage", "one", desk.stage.clock() + 12_000))
        commit(executions, change)

    monkeypatch.setattr(kind, "commit", come_before)
    desk.stage.pass_time(3)

    assert came and "execution.reset" in work.types
    assert asks(come(work, "one"))
