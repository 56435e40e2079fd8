"""Deciding commands: what each operation appends, pushes and queues (specification sections 1, 2.9, 4.3)."""

import pytest

from piecework.kernel.errors import Conflict, ExecutionBlocked, ExecutionTerminal, Invalid, NotFound, StepResolved
from piecework.kernel.model.commands import (
    AgentLost,
    Assign,
    Cancel,
    Dispatch,
    Expire,
    Intent,
    JobResult,
    MoveClock,
    Recover,
    Requeue,
    SendFailed,
    Started,
    StepResult,
)
from piecework.kernel.model.events import Event
from piecework.kernel.model.state import Blocked, Status, StepStatus
from piecework.kernel.model.timers import due_at
from piecework.kernel.policy.verdicts import Decision, RateLimit, Verdict
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.story import ASK, DENY, RUNNER, Story, linked


def chain(log: list[Event], *types: str) -> list[tuple[str, str]]:
    """Cause and correlation of the last events, as the types of the events they name; `fresh` for an id of none."""
    last = log[-len(types) :]
    assert [event.type for event in last] == list(types)
    names = {event.id: event.type for event in log}

    def name(event: Event, found: str) -> str:
        return "self" if found == event.id else names.get(found, "fresh")

    return [(name(event, event.causation_id), name(event, event.correlation_id)) for event in last]


def succeeded(story: Story, step_id: str, data: object = None) -> None:
    story.do(StepResult(story.session, step_id, True, data, ""))


def reported(story: Story, step_id: str, **members: object) -> None:
    given = {"success": True, "data": None, "error": "", "retryable": False} | members
    story.do(JobResult(given.pop("job_id", None) or story.job_id(step_id), step_id, **given))


def test_an_assignment_starts_a_session_and_tells_its_consumer():
    story = Story().create(input={"ticket": 91}, labels={"env": "qa"}).assigned()

    assert chain(story.log, "execution.created", "execution.started") == [("self", "self"), ("self", "self")]
    assert story.log[0].payload == {"agent_id": "triage", "input": {"ticket": 91}, "labels": {"env": "qa"}}
    assert story.log[1].payload == {"session_id": story.session, "consumer_id": "triage-9f"}
    assert [(push.kind, push.consumer_id) for push in story.pushes] == [("execution.assigned", "triage-9f")]
    assert story.state.session.expires_at_ms == story.now_ms + 30_000


def test_an_execution_is_assigned_only_once():
    story = Story().assigned()

    assert story.do(Assign("another")) is False
    assert story.types.count("execution.started") == 1


def test_a_local_step_is_created_behind_its_intent_and_ends_by_its_result():
    story = Story().assigned()
    step_id = story.invoke(idempotency_key="k1")

    assert chain(story.log, "intent.accepted", "step.created") == [("self", "self"), ("self", "intent.accepted")]
    details = {"tool_id": "notes.find", "arguments": {"q": "vpn"}, "idempotency_key": "k1"}
    assert story.log[-2].payload == {"intent_type": "invoke_tool", "details": details}
    created = story.log[-1].payload
    assert (created["max_attempts"], created["attempt"], created["tool_version"]) == (1, 1, 0)

    succeeded(story.later(1_500), step_id, {"hits": 2})

    assert chain(story.log, "step.completed") == [("self", "fresh")]
    assert story.pushes[-1].kind == "tool.result" and story.pushes[-1].ref == step_id
    assert story.records[step_id].outcome.result == {"hits": 2}
    assert story.last.durations == (("notes.find", 1.5),)
    assert story.state.steps == {}


def test_a_remote_step_goes_to_the_chosen_connection_in_the_same_change():
    story = Story().assigned()
    step_id = story.remote(linked())

    assert chain(story.log, "intent.accepted", "step.created", "step.dispatched") == [
        ("self", "self"),
        ("self", "intent.accepted"),
        ("step.created", "intent.accepted"),
    ]
    push = story.last.job_push
    assert (push.to, push.job_id, push.attempt, push.not_before_ms) == (RUNNER, story.job_id(step_id), 1, 0)
    assert story.log[-1].payload["runner_id"] == "" and story.log[-1].payload["job_id"] == push.job_id
    assert story.queue == []


def test_a_remote_step_without_a_free_connection_waits_in_the_queue():
    story = Story().assigned()
    step_id = story.remote()

    assert story.last.job_push is None
    assert story.queued == [story.job_id(step_id)]
    assert story.types[-1] == "step.dispatched"


def test_a_queued_job_names_its_runner_when_it_is_handed_out():
    story = Story().assigned()
    step_id = story.remote()
    row = story.queue[0]

    assert story.do(Dispatch(step_id, row.job_id, linked(), row.not_before_ms, row.tool_id)) is True

    assert story.log[-1].payload["runner_id"] == "geo-1" and story.log[-1].payload["job_id"] == row.job_id
    assert story.state.steps[step_id].job.held_by == RUNNER
    assert story.queue == []


def test_a_job_that_is_not_current_only_leaves_the_queue():
    story = Story().assigned()
    step_id = story.remote()
    row = story.queue[0]
    reported(story, step_id)
    story.queue.append(row)

    assert story.do(Dispatch(step_id, row.job_id, linked(), row.not_before_ms, row.tool_id)) is False

    assert story.last.events == () and story.queue == []


def test_a_denied_call_is_told_the_rules_reason():
    story = Story().assigned()
    answer = story.act(Intent("invoke_tool", "rm", idempotency_key="k"), DENY)

    assert answer == {"accepted": False, "error": "tool not on the list", "rule_id": "default"}
    assert chain(story.log, "intent.denied") == [("self", "self")]
    assert story.log[-1].payload == {
        "intent_type": "invoke_tool",
        "tool_id": "rm",
        "idempotency_key": "k",
        "reason": "tool not on the list",
        "rule_id": "default",
    }
    assert story.state.status is Status.RUNNING and story.state.steps == {}


def test_a_call_over_its_rate_is_told_the_limit():
    story = Story().assigned()
    verdict = Verdict(Decision.ALLOW, "", "mail", rate_limit=RateLimit(5, 60_000, "1m"))
    answer = story.act(Intent("invoke_tool", "mail.send"), verdict, over_limit=True)

    assert answer["error"] == "rate limit exceeded: max 5 per 1m (rule: mail)"
    assert story.types[-1] == "intent.denied"


def test_an_approval_blocks_and_logs_no_accepted_intent():
    story = Story().assigned()
    answer = story.act(Intent("invoke_tool", "pay", {"cents": 5}, True, remote=True), ASK)

    assert answer == {"accepted": True, "step_id": story.log[-1].payload["ref"], "pending_approval": True}
    assert chain(story.log, "step.created", "step.approval_required", "execution.blocked") == [
        ("self", "fresh"),
        ("step.created", "fresh"),
        ("step.approval_required", "fresh"),
    ]
    assert story.log[-3].payload["max_attempts"] == 1
    assert story.log[-1].payload["remote"] is True
    assert story.state.blocked == Blocked("approval", answer["step_id"])
    assert story.queue == []


def test_a_granted_approval_dispatches_a_remote_step_and_tells_the_agent_in_order():
    story = Story().assigned()
    step_id = story.invoke("pay", ASK, remote=True)
    story.later(6_000).signal("step.approve", {"step_id": step_id, "approved": True}, linked())

    assert chain(story.log, "signal.received", "step.dispatched", "execution.resumed") == [
        ("self", "self"),
        ("signal.received", "signal.received"),
        ("signal.received", "signal.received"),
    ]
    assert story.log[-2].payload["job_id"] == story.last.job_push.job_id != ""
    assert story.state.steps[step_id].deadline_ms == story.now_ms + 300_000
    assert [push.kind for push in story.last.pushes] == ["approval.resolved", "signal.received"]
    assert story.last.pushes[0].data == {"approved": True}
    assert story.state.signals == ()


def test_a_granted_approval_leaves_a_local_step_to_the_agent():
    story = Story().assigned()
    step_id = story.invoke("pay", ASK)
    story.signal("approval", {"approved": True})

    assert (story.log[-2].payload["job_id"], story.log[-2].payload["runner_id"]) == ("", "")
    assert story.state.status is Status.RUNNING
    succeeded(story, step_id)
    assert story.types[-1] == "step.completed"


def test_a_denied_approval_fails_the_step():
    story = Story().assigned()
    step_id = story.invoke("pay", ASK)
    story.signal("step.approve", {"step_id": step_id, "approved": False})

    assert chain(story.log, "signal.received", "step.failed", "execution.resumed") == [
        ("self", "self"),
        ("self", "signal.received"),
        ("step.failed", "signal.received"),
    ]
    assert story.log[-2].payload == {"error": "approval denied by human", "retryable": False}
    assert story.log[-1].payload == {"reason": "approval denied"}
    assert [push.kind for push in story.last.pushes] == ["approval.resolved", "signal.received"]


@pytest.mark.parametrize(
    "payload",
    [None, "yes", {"step_id": "other", "approved": True}, {"approved": True}, {"approved": "yes"}, [1]],
)
def test_a_bad_approval_changes_and_logs_nothing(payload):
    story = Story().assigned()
    step_id = story.invoke("pay", ASK)
    if isinstance(payload, dict) and payload.get("approved") == "yes":
        payload = payload | {"step_id": step_id}
    before = list(story.log)

    with pytest.raises(Invalid):
        story.signal("step.approve", payload)

    assert story.log == before and story.state.status is Status.BLOCKED


def test_results_of_a_step_that_waits_for_approval_are_refused():
    story = Story().assigned()
    step_id = story.invoke("pay", ASK)

    with pytest.raises(Conflict):
        succeeded(story, step_id)
    with pytest.raises(Conflict):
        story.do(JobResult("any", step_id, True, None, "", False))
    assert story.do(Started(step_id, "r")) is False


def test_an_approval_signal_is_an_ordinary_one_while_something_else_is_waited_for():
    story = Story().assigned()
    story.wait("approval")
    story.signal("approval", {"approved": True})

    assert story.log[-1].payload == {"reason": "signal received: approval"}


def test_a_wait_blocks_until_its_signal_comes():
    story = Story().assigned()
    assert story.wait() == {"accepted": True}
    assert chain(story.log, "intent.accepted", "execution.blocked") == [("self", "self"), ("self", "intent.accepted")]

    story.signal("other")
    assert story.state.status is Status.BLOCKED
    story.signal("go", {"by": "mia"})

    assert chain(story.log, "signal.received", "execution.resumed") == [
        ("self", "self"),
        ("signal.received", "signal.received"),
    ]
    assert story.signals[story.log[-2].sequence] == {"signal_type": "go", "payload": {"by": "mia"}}
    assert [stored.type for stored in story.state.signals] == ["other"]


def test_stored_signals_satisfy_one_wait_each_oldest_first():
    story = Story().create()
    story.signal("go", 1)
    story.signal("go", 2)
    story.assigned()

    story.wait()
    assert chain(story.log, "intent.accepted", "execution.resumed")[1] == ("self", "intent.accepted")
    assert story.last.pushes[0].ref == "2"
    story.wait()
    assert story.last.pushes[0].ref == "3"
    story.wait()
    assert story.state.status is Status.BLOCKED


def test_a_signal_type_that_no_wait_can_name_is_not_stored():
    story = Story().assigned()
    story.signal("x" * 257)

    assert story.state.signals == ()
    assert story.pushes[-1].kind == "signal.received"


def test_every_intent_is_refused_while_blocked():
    story = Story().assigned()
    story.wait()
    for intent in (Intent("wait", signal_type="x"), Intent("complete"), Intent("fail", error="e"), Intent("huh")):
        with pytest.raises(ExecutionBlocked):
            story.act(intent)


def test_an_intent_without_its_members_is_refused_after_the_status():
    story = Story().assigned()
    for intent in (Intent("wait"), Intent("invoke_tool"), Intent("fail"), Intent("huh")):
        with pytest.raises(Invalid):
            story.act(intent)
    story.do(Cancel())
    with pytest.raises(ExecutionTerminal):
        story.act(Intent("huh"))


def test_an_end_with_active_steps_is_refused_and_logs_nothing():
    story = Story().assigned()
    step_id = story.invoke()
    before = list(story.log)

    with pytest.raises(Conflict):
        story.act(Intent("complete", output=1))
    with pytest.raises(Conflict):
        story.act(Intent("fail", error="e"))
    assert story.log == before

    succeeded(story, step_id)
    story.act(Intent("complete", output={"done": True}))
    assert chain(story.log, "intent.accepted", "execution.completed") == [
        ("self", "self"),
        ("self", "intent.accepted"),
    ]
    assert story.last.output == {"done": True}


def test_a_completion_without_output_logs_null():
    story = Story().assigned()
    story.act(Intent("complete"))

    assert "details" not in story.log[-2].payload
    assert story.log[-1].payload == {"output": None}


def test_a_session_stays_on_record_for_a_while_after_the_end():
    story = Story(KernelSettings(agent_timeout_ms=2_000)).assigned()
    story.act(Intent("fail", error="boom"))

    assert story.log[-1].payload == {"error": "boom"}
    assert story.state.session.expires_at_ms == story.now_ms + 30_000


def test_a_repeated_key_gets_the_stored_answer_and_logs_nothing():
    story = Story().assigned()
    step_id = story.invoke(idempotency_key="k")
    before = list(story.log)

    assert story.invoke(idempotency_key="k") == step_id
    assert story.log == before
    with pytest.raises(Conflict):
        story.invoke(idempotency_key="k", arguments={"q": "other"})


def test_a_repeat_is_answered_while_blocked_and_after_the_end():
    story = Story().assigned()
    step_id = story.invoke("pay", ASK, idempotency_key="k")
    gated = Intent("invoke_tool", "pay", {"q": "vpn"}, True, idempotency_key="k")
    assert story.act(gated) == {"accepted": True, "step_id": step_id, "pending_approval": True}

    story.do(Cancel())
    ended = Story().assigned()
    ended.act(Intent("complete", idempotency_key="end"))
    assert ended.act(Intent("complete", idempotency_key="end")) == {"accepted": True}
    assert ended.types.count("execution.completed") == 1


def test_a_repeat_of_an_ended_step_pushes_its_result_again():
    story = Story().assigned()
    step_id = story.invoke(idempotency_key="k")
    succeeded(story, step_id, 1)
    sent = len(story.pushes)

    assert story.invoke(idempotency_key="k") == step_id
    assert [(push.kind, push.ref) for push in story.pushes[sent:]] == [("tool.result", step_id)]
    assert story.last.events == ()


@pytest.mark.parametrize("approved", [True, False])
def test_a_repeat_of_a_resolved_approval_is_told_again_how_it_went(approved):
    story = Story().assigned()
    step_id = story.invoke("pay", ASK, idempotency_key="k")
    story.signal("step.approve", {"step_id": step_id, "approved": approved})
    if approved:
        story.do(StepResult(story.session, step_id, False, None, "boom"))

    story.act(Intent("invoke_tool", "pay", {"q": "vpn"}, True, idempotency_key="k"))

    assert [push.kind for push in story.last.pushes] == ["approval.resolved", "tool.result"]
    assert story.last.pushes[0].data == {"approved": approved}


def test_a_key_whose_step_was_cancelled_is_free_again():
    story = Story().assigned()
    step_id = story.invoke(idempotency_key="k")
    story.do(AgentLost(story.session))
    story.assigned()

    other = story.invoke(idempotency_key="k", arguments={"q": "another"})

    assert other != step_id
    assert story.last.freed_key == "k"


def test_a_wait_of_an_earlier_session_is_waited_for_again():
    story = Story().assigned()
    story.wait(idempotency_key="w")
    assert story.act(Intent("wait", signal_type="go", idempotency_key="w")) == {"accepted": True}
    story.do(AgentLost(story.session))
    story.do(Recover())
    story.assigned()

    story.wait(idempotency_key="w")

    assert story.state.blocked == Blocked("signal", "go")


def test_a_denial_is_stored_under_its_key():
    story = Story().assigned()
    denied = Intent("invoke_tool", "rm", idempotency_key="k")
    answer = story.act(denied, DENY)

    assert story.act(denied) == answer
    assert story.types.count("intent.denied") == 1


def test_a_step_ends_only_once():
    story = Story().assigned()
    step_id = story.invoke()
    succeeded(story, step_id)

    with pytest.raises(StepResolved):
        succeeded(story, step_id)
    with pytest.raises(NotFound):
        succeeded(story, "unknown")


def test_a_failed_step_is_pushed_and_the_execution_goes_on():
    story = Story().assigned()
    step_id = story.invoke()
    story.do(StepResult(story.session, step_id, False, {"trace": 1}, "boom"))

    assert story.log[-1].payload == {"error": "boom", "retryable": False}
    assert story.records[step_id].outcome.result == {"trace": 1}
    assert story.history[-1].error == "boom"
    assert story.state.status is Status.RUNNING


def test_a_retryable_failure_is_tried_again_later_without_a_word_to_the_agent():
    story = Story().assigned()
    step_id = story.remote(linked())
    first, told = story.job_id(step_id), len(story.pushes)
    reported(story, step_id, success=False, error="busy", retryable=True)

    assert chain(story.log, "step.failed", "step.retried") == [("self", "fresh"), ("step.failed", "fresh")]
    assert story.log[-1].payload == {"next_attempt": 2}
    assert len(story.pushes) == told
    step = story.state.steps[step_id]
    assert (step.attempt, step.deadline_ms, step.status) == (2, None, StepStatus.PENDING)
    assert story.queue[0].not_before_ms == story.now_ms + 2_000 and story.queued != [first]
    assert story.last.free == ((RUNNER, first),)
    assert due_at(story.state, story.settings) == story.now_ms + 2_000

    with pytest.raises(StepResolved):
        reported(story, step_id, job_id=first)


def test_the_third_failure_is_final():
    story = Story().assigned()
    step_id = story.remote(linked())
    for delay in (2_000, 4_000):
        reported(story, step_id, success=False, error="busy", retryable=True)
        row = story.queue[0]
        early = Dispatch(step_id, row.job_id, linked(), row.not_before_ms, row.tool_id)
        assert story.do(early) is False
        story.later(delay)
        assert story.do(early) is True
        assert story.last.job_push.not_before_ms == row.not_before_ms
        assert story.state.steps[step_id].deadline_ms == story.now_ms + 300_000
    reported(story, step_id, success=False, error="busy", retryable=True)

    assert story.log[-1].payload == {"error": "busy", "retryable": False}
    assert story.pushes[-1].kind == "tool.result"
    assert [entry.attempt for entry in story.history] == [1, 2, 3]


def test_only_the_current_job_of_a_remote_step_has_a_result():
    story = Story().assigned()
    local, far = story.invoke(), story.remote()

    for step_id, job_id in ((local, "j"), (far, "j")):
        with pytest.raises(StepResolved):
            reported(story, step_id, job_id=job_id)
    reported(story, far)
    assert story.queue == []


def test_a_start_is_recorded_once_and_never_after_the_end():
    story = Story().assigned()
    step_id = story.remote(linked())

    assert story.do(Started(step_id, "geo-1")) is True
    assert story.do(Started(step_id, "geo-1")) is False
    reported(story, step_id)
    assert story.do(Started(step_id, "geo-1")) is False
    assert story.types.count("step.started") == 1
    with pytest.raises(NotFound):
        story.do(Started("unknown", "geo-1"))


def test_a_lost_job_goes_back_to_its_place_under_a_new_id_unless_it_was_begun():
    story = Story().assigned()
    begun, lost = story.remote(linked()), story.remote(linked())
    story.do(Started(begun, "geo-1"))
    job_id = story.job_id(lost)

    assert story.do(Requeue(begun, story.job_id(begun))) is False
    assert story.do(Requeue(lost, job_id)) is True
    assert story.last.events == () and story.last.free == ((RUNNER, job_id),)
    assert story.queued == [story.job_id(lost)] != [job_id]
    assert story.do(Requeue(lost, job_id)) is False


def test_a_cancelled_execution_ends_its_steps_first_and_drops_its_queued_jobs():
    story = Story().assigned()
    held, waiting = story.remote(linked()), story.remote()
    story.signal("stored")
    story.do(Cancel())

    assert chain(story.log, "step.cancelled", "step.cancelled", "execution.cancelled") == [("self", "self")] * 3
    assert story.log[-1].payload == {"reason": "cancelled by request"}
    assert story.queue == [] and story.last.free == () and story.state.signals == ()
    assert (story.pushes[-1].kind, story.pushes[-1].data) == ("execution.cancelled", {"reason": "cancelled by request"})
    assert {entry.error for entry in story.history} == {"execution cancelled"}
    for step_id in (held, waiting):
        with pytest.raises(StepResolved):
            reported(story, step_id, job_id="any")
    with pytest.raises(ExecutionTerminal):
        story.do(Cancel())
    with pytest.raises(ExecutionTerminal):
        story.signal()


def test_a_lost_agent_sends_a_running_execution_back_to_the_start():
    story = Story().assigned()
    step_id, session = story.remote(), story.session
    story.signal("kept")
    story.do(AgentLost(session))

    assert chain(story.log, "agent.timeout", "step.cancelled", "execution.reset") == [
        ("self", "fresh"),
        ("agent.timeout", "fresh"),
        ("step.cancelled", "fresh"),
    ]
    assert story.log[-1].payload == {"reason": "agent_disconnect", "from_status": "running"}
    assert story.state.status is Status.PENDING and story.state.session is None
    assert [stored.type for stored in story.state.signals] == ["kept"]
    assert story.queue == [] and story.history[-1].step_id == step_id
    assert story.do(AgentLost(session)) is False


def test_a_lost_agent_leaves_a_blocked_execution_blocked():
    story = Story().assigned()
    story.wait()
    story.do(AgentLost(story.session))

    assert chain(story.log, "agent.timeout") == [("self", "fresh")]
    assert story.state.status is Status.BLOCKED and story.state.session is None
    assert due_at(story.state, story.settings) == story.now_ms + 30_000


def test_a_signal_that_nobody_was_there_for_is_kept_for_the_next_run():
    story = Story().assigned()
    story.wait()
    story.do(AgentLost(story.session))
    story.signal("go", {"by": "mia"})
    assert story.state.status is Status.RUNNING and story.state.is_waiting

    story.assigned("another")

    assert story.types[-2:] == ["execution.reset", "execution.started"]
    assert story.log[-2].payload == {"reason": "recovery", "from_status": "running"}
    story.wait()
    assert story.state.status is Status.RUNNING
    assert story.pushes[-1].kind == "signal.received"


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_signal_that_its_agent_may_not_have_heard_of_comes_back_with_a_reset(is_stored):
    story = Story().assigned()
    if is_stored:
        story.signal("go", 1)
    story.wait()
    if not is_stored:
        story.signal("go", 1)
    story.signal("go", 2)
    story.do(AgentLost(story.session))
    story.assigned("another")

    story.wait()
    assert story.signals[int(story.last.pushes[0].ref)]["payload"] == 1
    story.wait()
    assert story.signals[int(story.last.pushes[0].ref)]["payload"] == 2


def test_a_signal_is_used_up_by_the_next_intent():
    story = Story().assigned()
    story.wait()
    story.signal("go")
    story.invoke()
    story.do(AgentLost(story.session))
    story.assigned("another")

    story.wait()
    assert story.state.status is Status.BLOCKED


def test_recovery_resets_a_blocked_execution_with_its_pending_approval():
    story = Story().assigned()
    story.invoke("pay", ASK)
    assert story.do(Recover()) is False
    story.do(AgentLost(story.session))
    story.do(Recover())

    assert chain(story.log, "step.cancelled", "agent.timeout", "execution.reset")[0] == ("self", "fresh")
    assert story.log[-2].payload == {"session_id": ""}
    assert story.log[-1].payload == {"reason": "recovery", "from_status": "blocked"}


def test_an_assignment_that_was_never_written_is_taken_back():
    story = Story().assigned()
    session = story.session
    assert story.do(SendFailed("other")) is False
    story.do(SendFailed(session))

    assert story.log[-1].payload == {"reason": "send_failed", "from_status": "running"}
    assert story.types[-2:] == ["execution.started", "execution.reset"]


def test_a_step_past_its_deadline_fails_the_execution_once():
    story = Story(KernelSettings(step_timeout_ms=2_000)).assigned()
    late, other = story.invoke(), story.later(1).remote()
    assert story.do(Expire()) is False
    told = len(story.pushes)
    story.later(3_000).do(Expire())

    assert chain(story.log, "step.timed_out", "step.cancelled", "execution.failed") == [
        ("self", "fresh"),
        ("step.timed_out", "fresh"),
        ("step.cancelled", "fresh"),
    ]
    assert [event.step_id for event in story.log[-3:]] == [late, other, ""]
    assert story.log[-2].payload == {"reason": "sibling step timed out"}
    assert story.log[-1].payload == {"error": "step timed out"}
    assert [push.kind for push in story.pushes[told:]] == ["execution.cancelled"]
    assert story.do(Expire()) is False


def test_step_deadlines_sleep_while_the_execution_is_blocked():
    story = Story(KernelSettings(step_timeout_ms=2_000)).assigned()
    step_id = story.invoke("pay", ASK)
    story.later(6_000)

    assert story.do(Expire()) is False
    story.signal("step.approve", {"step_id": step_id, "approved": True})
    assert story.do(Expire()) is False
    assert due_at(story.state, story.settings) == story.now_ms + 2_000


@pytest.mark.parametrize("place", ["pending", "running", "blocked"])
def test_the_execution_timeout_ends_every_status(place):
    story = Story().create()
    if place != "pending":
        story.assigned()
        story.invoke()
    if place == "blocked":
        story.wait()
    story.later(3_600_000).do(Expire())

    steps = [] if place == "pending" else ["step.cancelled"]
    assert story.types[-1 - len(steps) :] == [*steps, "execution.failed"]
    assert story.log[-1].payload == {"error": "execution exceeded maximum duration"}


def test_an_end_with_very_many_steps_is_stored_in_parts():
    story = Story().assigned()
    for _ in range(95):
        story.remote()
    story.do(Cancel())

    assert story.types.count("step.cancelled") == 95
    assert story.types[-1] == "execution.cancelled"
    assert len(story.last.unqueue) <= 40 and story.queue == []


def test_a_step_timeout_with_very_many_steps_still_names_the_late_one():
    story = Story(KernelSettings(step_timeout_ms=2_000)).assigned()
    late = story.invoke()
    for _ in range(60):
        story.invoke()
    story.later(2_000).do(Expire())

    timed_out = [event.step_id for event in story.log if event.type == "step.timed_out"]
    assert timed_out == [late]
    assert story.log[-1].payload == {"error": "step timed out"}


def test_a_copy_with_a_slow_clock_does_not_turn_time_back():
    story = Story().assigned()
    story.later(-5_000).invoke()

    assert story.log[-1].at_ms == story.log[0].at_ms


def test_a_look_moves_the_due_time_of_what_could_not_be_done():
    story = Story().assigned()
    story.wait()
    story.do(AgentLost(story.session))
    story.later(30_000).do(MoveClock())

    assert due_at(story.state, story.settings) == story.now_ms + 30_000


def test_an_execution_has_at_most_five_hundred_active_steps():
    story = Story().assigned()
    for _ in range(500):
        story.invoke()

    with pytest.raises(Conflict):
        story.invoke()
    succeeded(story, next(iter(story.state.steps)))
    story.invoke()


def test_an_execution_stores_at_most_five_hundred_signals():
    story = Story().create()
    for _ in range(500):
        story.signal("go")

    with pytest.raises(Conflict):
        story.signal("go")
    story.assigned()
    story.wait()
    story.signal("go")


def test_an_attempts_error_is_cut_for_history_only():
    story = Story().assigned()
    step_id = story.invoke()
    story.do(StepResult(story.session, step_id, False, None, "e" * 5_000))

    assert len(story.history[-1].error) == 4_096
    assert len(story.log[-1].payload["error"]) == len(story.records[step_id].outcome.error) == 5_000
