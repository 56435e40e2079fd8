"""Approvals with a time of their own: the execution's clock stands still, and time answers where nobody does."""

from dataclasses import replace

import pytest

from piecework.kernel.errors import AlreadyDecided
from piecework.kernel.model.commands import AgentLost, Cancel, Dispatch, Expire, Intent, JobResult, Recover, StepResult
from piecework.kernel.model.evolve import fold
from piecework.kernel.model.state import Status
from piecework.kernel.model.timers import due_at, must_expire
from piecework.kernel.policy.verdicts import OnTimeout, Verdict, Wait
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.story import ALLOW, ASK, Story, linked

HOUR = 3_600_000
DAY = 24 * HOUR


def gate(on_timeout: OnTimeout = OnTimeout.DENY, timeout_ms: int = 6 * DAY) -> Verdict:
    return replace(ASK, wait=Wait(timeout_ms, on_timeout, "144h"))


def waiting(on_timeout: OnTimeout = OnTimeout.DENY) -> tuple[Story, str]:
    story = Story().assigned()
    return story, story.invoke("pay", gate(on_timeout))


def due(story: Story) -> int:
    return due_at(story.state, story.settings)


def granted(story: Story, step_id: str) -> None:
    story.signal("step.approve", {"step_id": step_id, "approved": True})


def test_the_events_tell_how_long_is_waited_and_what_happens_then():
    story, _ = waiting(OnTimeout.FAIL)

    told = story.log[-1].payload
    assert (told["expires_at"], told["on_timeout"]) == ("2025-06-21T15:06:40.000Z", "fail")
    assert due(story) == story.now_ms + 6 * DAY


def test_a_rule_without_a_time_waits_as_long_as_its_execution_lives():
    story = Story().assigned()
    story.invoke("pay", ASK)

    assert "expires_at" not in story.log[-1].payload and "on_timeout" not in story.log[-1].payload
    assert due(story) == story.state.created_at_ms + HOUR
    story.later(HOUR).do(Expire())
    assert story.log[-1].payload == {"error": "execution exceeded maximum duration"}


def test_the_executions_clock_stands_still_while_it_waits():
    story, step_id = waiting()
    granted(story.later(5 * DAY), step_id)

    assert story.state.status is Status.RUNNING and story.state.paused_ms == 5 * DAY
    story.do(StepResult(story.session, step_id, True, None, ""))
    assert due(story) == story.state.created_at_ms + 5 * DAY + HOUR
    assert not must_expire(story.state, due(story) - 1, story.settings)
    story.now_ms = due(story)
    story.do(Expire())
    assert story.types[-1] == "execution.failed"


def test_a_short_wait_is_over_long_before_its_execution():
    story = Story().assigned()
    story.invoke("pay", gate(timeout_ms=60_000))

    assert due(story) == story.now_ms + 60_000
    story.later(60_000).do(Expire())
    assert story.state.status is Status.RUNNING


def test_other_steps_sleep_meanwhile_and_have_their_time_afterwards():
    story = Story().assigned()
    other = story.invoke("notes.find", ALLOW)
    left = story.state.steps[other].deadline_ms - story.now_ms
    step_id = story.later(1_000).invoke("pay", gate())
    granted(story.later(5 * DAY), step_id)

    assert story.state.steps[other].deadline_ms == story.now_ms + left - 1_000
    assert story.state.steps[step_id].deadline_ms == story.now_ms + 300_000
    assert not must_expire(story.state, story.now_ms, story.settings)


def test_a_job_that_is_handed_out_during_the_wait_has_the_time_that_it_had_left():
    story = Story().assigned()
    remote = story.invoke("geo.lookup", ALLOW, remote=True)
    job = story.state.steps[remote].job
    step_id = story.later(60_000).invoke("pay", gate())
    story.later(5 * DAY)
    story.do(Dispatch(remote, job.id, linked(), job.not_before_ms, "geo.lookup"))

    assert story.last.job_push.deadline_ms == story.now_ms + 240_000
    granted(story.later(60_000), step_id)
    assert story.state.steps[remote].deadline_ms == story.now_ms + 240_000
    story.do(JobResult(job.id, remote, True, None, "", False))
    assert remote not in story.state.steps


def test_time_denies_as_a_person_does_and_is_nobody():
    story, step_id = waiting()
    story.later(6 * DAY).do(Expire())

    assert story.types[-2:] == ["step.failed", "execution.resumed"]
    late = "approval timed out: nobody answered about pay until 2025-06-21T15:06:40.000Z"
    assert story.log[-2].payload == {"error": late, "retryable": False}
    assert story.log[-1].payload == {"reason": "approval timed out"}
    assert [(push.kind, push.data) for push in story.last.pushes] == [("approval.resolved", {"approved": False})]
    assert story.records[step_id].outcome.is_denied


@pytest.mark.parametrize("end", OnTimeout)
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("by", ["", "mia"])
def test_an_answer_that_comes_too_late_meets_the_denial_that_stands(end, approved, by):
    story, step_id = waiting(end)
    story.later(6 * DAY).do(Expire())
    before = list(story.log)

    with pytest.raises(AlreadyDecided) as late:
        story.signal("step.approve", {"step_id": step_id, "approved": approved}, by=by)

    assert (late.value.details["approved"], late.value.details["by"]) == (False, None)
    assert story.log == before


def test_time_fails_the_execution_where_the_rule_says_so():
    story = Story().assigned()
    other = story.invoke("notes.find", ALLOW)
    step_id = story.invoke("pay", gate(OnTimeout.FAIL))
    story.later(6 * DAY).do(Expire())

    ended = [(event.step_id, event.payload["reason"]) for event in story.log if event.type == "step.cancelled"]
    assert ended == [(other, "approval timed out"), (step_id, "approval timed out")]
    assert story.log[-1].payload == {"error": "nobody answered about pay until 2025-06-21T15:06:40.000Z"}
    assert story.state.status is Status.FAILED


def test_an_execution_with_many_steps_fails_in_parts_when_nobody_answers():
    story = Story().assigned()
    for number in range(120):
        story.invoke("notes.find", ALLOW, idempotency_key=f"k{number}")
    step_id = story.invoke("pay", gate(OnTimeout.FAIL))
    before = story.state.version
    story.later(6 * DAY).do(Expire())

    assert story.state.version == before + 4 and len(story.last.history) <= 40
    assert story.records[step_id].decided.timed_out
    assert story.types.count("step.cancelled") == 121


def test_a_wait_that_a_reset_ends_counts_too():
    story, _ = waiting()
    story.do(AgentLost(story.session))
    story.later(2 * DAY).do(Recover())

    assert story.state.status is Status.PENDING
    assert due(story) == story.state.created_at_ms + 2 * DAY + HOUR


def test_a_wait_can_be_cancelled():
    story, _ = waiting()
    story.later(3 * DAY).do(Cancel())

    assert story.types[-1] == "execution.cancelled"


def test_no_wait_is_longer_than_what_an_execution_needs_is_kept():
    story = Story(KernelSettings(execution_timeout_ms=DAY, retention_ms=3_590 * DAY)).assigned()
    story.later(HOUR).invoke("pay", gate(timeout_ms=366 * DAY))

    assert due(story) == story.state.created_at_ms + 9 * DAY


def test_the_age_that_a_policy_sees_stands_still_too():
    from piecework.kernel.service.intents import call_of

    story, step_id = waiting()
    granted(story.later(5 * DAY), step_id)

    call = call_of(story.state, Intent("invoke_tool", "pay"), story.later(60_000).now_ms)
    assert call.age_ms == 60_000


def test_the_log_of_a_wait_tells_its_state():
    story, step_id = waiting()
    assert fold(story.log).blocked == story.state.blocked
    granted(story.later(DAY), step_id)

    assert (fold(story.log).paused_ms, fold(story.log).steps[step_id].deadline_ms) == (DAY, story.now_ms + 300_000)
