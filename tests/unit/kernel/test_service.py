"""The kernel's operations over a store in memory: sessions, keys, rivals, timers, hand-outs."""

from dataclasses import replace

import pytest

from piecework.kernel.errors import (
    Conflict,
    ExecutionTainted,
    ExecutionTerminal,
    Invalid,
    NotFound,
    ServiceUnavailable,
    SessionExpired,
    SessionNotFound,
    StepResolved,
)
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.ports.executions import Summary, VersionConflict
from piecework.kernel.model.ports.runners import ConnectionTaken
from piecework.kernel.model.state import Status
from piecework.kernel.policy.verdicts import Decision, RateLimit, Verdict
from piecework.kernel.service.assigning import assign
from piecework.kernel.service.commits import Environment
from piecework.kernel.wire.cursors import cursor_of, place_of
from tests.support.kernel.house import House

ASK = Verdict(Decision.REQUIRE_APPROVAL, "a human must look", "gate")
ONE = Verdict(Decision.ALLOW, "", "mail", rate_limit=RateLimit(1, 60_000, "1m"))


@pytest.fixture
def house() -> House:
    return House()


def test_an_execution_is_assigned_before_create_answers(house):
    house.join()
    view = house.kernel.create("triage", {"ticket": 91}, {"env": "qa"})

    assert view.execution.status is Status.RUNNING and view.input == {"ticket": 91}
    assert house.types(view.execution.id) == ["execution.created", "execution.started"]


def test_an_execution_without_a_consumer_stays_pending(house):
    assert house.kernel.create("triage", None, {}).execution.status is Status.PENDING


def test_unknown_executions_are_not_found(house):
    for ask in (house.kernel.get, house.kernel.cancel, lambda name: house.kernel.signal(name, "go", None)):
        with pytest.raises(NotFound):
            ask("nobody")
    with pytest.raises(NotFound):
        house.kernel.job_result("r", "j", "nobody", "s", True, None, "", False)
    with pytest.raises(NotFound):
        house.kernel.started("s", "nobody", "r")
    assert house.kernel.events("nobody", 0, 10) == []


def test_an_unknown_session_is_not_found_and_a_foreign_one_is_invalid(house):
    one, other = house.running(), house.running()

    with pytest.raises(SessionNotFound, match="session not found"):
        house.act(one, Intent("complete"), "nobody")
    with pytest.raises(Invalid):
        house.act(one, Intent("complete"), house.session(other))
    with pytest.raises(SessionNotFound):
        house.kernel.step_result(one, "nobody", "step", True, None, "")


def test_a_session_lives_as_long_as_its_consumers_stream(house):
    execution_id = house.running()
    house.now += 3_000_000

    assert house.act(execution_id, Intent("wait", signal_type="go")) == {"accepted": True}


def test_a_session_outlives_its_stream_by_the_agent_timeout(house):
    execution_id = house.running()
    house.leave()
    house.now += 29_999
    house.invoke(execution_id)
    house.now += 30_000

    with pytest.raises(SessionExpired) as refused:
        house.invoke(execution_id)
    assert "session expired" in refused.value.text


def test_a_lapsed_session_ends_when_it_is_noticed(house):
    execution_id = house.running()
    house.leave()
    house.now += 30_000
    with pytest.raises(SessionExpired):
        house.invoke(execution_id)

    assert house.types(execution_id)[-2:] == ["agent.timeout", "execution.reset"]


def test_the_session_of_an_earlier_run_has_expired(house):
    execution_id = house.running()
    old = house.session(execution_id)
    house.kernel.agent_lost(execution_id, old)

    assert house.session(execution_id) != old
    with pytest.raises(SessionExpired):
        house.act(execution_id, Intent("complete"), old)


def test_intents_after_the_end_are_told_so_and_later_unauthorized(house):
    execution_id = house.running()
    session_id = house.session(execution_id)
    house.act(execution_id, Intent("complete"))
    house.leave()

    with pytest.raises(ExecutionTerminal):
        house.act(execution_id, Intent("complete"))
    house.now += 60_000
    with pytest.raises(SessionExpired):
        house.act(execution_id, Intent("complete"), session_id)


def test_a_command_that_meets_rivals_is_decided_again(house):
    execution_id = house.running()
    rivals = iter(range(5))

    def rival(change: Change, applied: bool) -> None:
        if not applied and next(rivals, None) is not None:
            raise VersionConflict

    house.store.on_commit = rival
    house.invoke(execution_id)

    assert house.types(execution_id).count("step.created") == 1
    assert house.slept > 0


def test_a_command_that_never_gets_through_is_told_to_come_again(house):
    execution_id = house.running()

    def rival(change: Change, applied: bool) -> None:
        raise VersionConflict

    house.store.on_commit = rival
    with pytest.raises(ServiceUnavailable):
        house.invoke(execution_id)
    assert house.slept <= 5


def test_a_twin_of_a_keyed_call_gets_the_first_ones_answer(house):
    execution_id = house.running()
    twins = iter([True])

    def twin(change: Change, applied: bool) -> None:
        if not applied and next(twins, False):
            house.invoke(execution_id, idempotency_key="k")

    house.store.on_commit = twin
    step_id = house.invoke(execution_id, idempotency_key="k")

    assert house.types(execution_id).count("step.created") == 1
    assert list(house.state(execution_id).steps) == [step_id]


def test_a_twin_that_sees_the_block_before_the_answer_gets_the_answer(house):
    house.policy.verdicts["pay"] = ASK
    execution_id = house.running()
    answer = house.act(execution_id, Intent("invoke_tool", "pay", idempotency_key="k"))
    reading, torn = house.kernel._executions.read, iter([True])

    def read(*args, **named):
        found = reading(*args, **named)
        return replace(found, answered=None) if named.get("key") and next(torn, False) else found

    house.kernel._executions.read = read
    assert house.act(execution_id, Intent("invoke_tool", "pay", idempotency_key="k")) == answer


def test_a_call_over_its_rate_is_denied_and_repeats_do_not_count(house):
    house.policy.verdicts["mail.send"] = ONE
    execution_id = house.running()
    first = house.invoke(execution_id, "mail.send", idempotency_key="k")

    assert house.invoke(execution_id, "mail.send", idempotency_key="k") == first
    answer = house.act(execution_id, Intent("invoke_tool", "mail.send"))
    assert answer["error"] == "rate limit exceeded: max 1 per 1m (rule: mail)"
    assert house.windows.taken == 1


def test_a_twin_that_finds_the_window_full_gets_the_answer_of_the_other(house):
    house.policy.verdicts["mail.send"] = ONE
    execution_id = house.running()
    call = Intent("invoke_tool", "mail.send", idempotency_key="k")
    house.windows.taken = 1  # by the twin, which has not stored its answer yet
    waits = iter([True])

    def sleep(_seconds: float) -> None:
        if next(waits, False):
            house.windows.taken = 0
            house.act(execution_id, call)

    house.door.commits.environment = Environment(sleep=sleep)
    assert house.act(execution_id, call)["accepted"] is True
    assert house.types(execution_id).count("intent.denied") == 0


def test_one_attempt_after_another_takes_one_place_in_the_window(house):
    house.policy.verdicts["mail.send"] = ONE
    execution_id = house.running()
    rivals = iter(range(3))

    def rival(change: Change, applied: bool) -> None:
        if not applied and next(rivals, None) is not None:
            raise VersionConflict

    house.store.on_commit = rival
    assert house.act(execution_id, Intent("invoke_tool", "mail.send"))["accepted"] is True


def test_the_policy_is_asked_once_checks_have_passed_and_never_for_a_repeat(house):
    execution_id = house.running()
    house.invoke(execution_id, idempotency_key="k", arguments={"q": 1}, has_arguments=True)
    house.invoke(execution_id, idempotency_key="k", arguments={"q": 1}, has_arguments=True)
    with pytest.raises(Invalid):
        house.act(execution_id, Intent("invoke_tool"))

    [call] = house.policy.calls
    assert (call.agent_id, call.step_count, call.arguments, call.age_ms) == ("triage", 0, {"q": 1}, 0)


@pytest.mark.parametrize(
    "intent",
    [
        Intent("invoke_tool", "t" * 257),
        Intent("wait", signal_type="é" * 129),
        Intent("fail", error="e" * 4_097),
    ],
)
def test_texts_that_are_too_long_are_refused_before_anything_is_read(house, intent):
    with pytest.raises(Invalid):
        house.kernel.intent("nobody", "nobody", intent)


def test_a_remote_call_takes_an_idle_connection_and_the_next_one_waits_for_it(house):
    house.link()
    execution_id = house.running()
    first, second = house.remote(execution_id), house.remote(execution_id)
    assert house.job(execution_id, first).held_by is not None
    assert house.job(execution_id, second).held_by is None

    house.result(execution_id, first)

    assert house.job(execution_id, second).held_by is not None
    assert house.store.jobs == []


def test_a_connection_that_is_lost_to_another_job_is_chosen_anew(house):
    house.link()
    execution_id = house.running()
    rivals = iter(range(2))

    def rival(change: Change, applied: bool) -> None:
        if not applied and next(rivals, None) is not None:
            raise ConnectionTaken

    house.store.on_commit = rival
    step_id = house.remote(execution_id)
    assert house.job(execution_id, step_id).held_by is not None


def test_a_job_queues_when_every_choice_is_lost(house):
    house.link()
    execution_id = house.running()

    def rival(change: Change, applied: bool) -> None:
        if not applied and change.job_push:
            raise ConnectionTaken

    house.store.on_commit = rival
    step_id = house.remote(execution_id)

    assert house.job(execution_id, step_id).held_by is None
    assert [job.step_id for job in house.store.jobs] == [step_id]


def test_a_late_result_is_refused_and_frees_its_connection(house):
    link = house.link()
    execution_id = house.running()
    step_id = house.remote(execution_id)
    job_id = house.job(execution_id, step_id).id
    house.kernel.cancel(execution_id)
    other = house.running("c2")
    waiting = house.remote(other)
    assert house.store.links[link.connection].job_id == job_id

    with pytest.raises(StepResolved):
        house.result(execution_id, step_id, job_id)

    assert house.job(other, waiting).held_by == link.connection


def test_a_result_for_an_unknown_step_frees_its_connection_too(house):
    link = house.link()
    execution_id = house.running()
    step_id = house.remote(execution_id)
    job_id = house.job(execution_id, step_id).id

    with pytest.raises(NotFound):
        house.result(execution_id, "unknown", job_id)
    assert house.store.links[link.connection].job_id == ""


def test_a_result_by_the_agent_for_a_runners_step_is_refused_and_leaves_the_runner_busy(house):
    link = house.link()
    execution_id = house.running()
    step_id = house.remote(execution_id)

    with pytest.raises(Conflict):
        house.kernel.step_result(execution_id, house.session(execution_id), step_id, True, None, "")

    assert house.store.links[link.connection].job_id != ""
    assert house.job(execution_id, step_id).id == house.store.links[link.connection].job_id


def test_an_approved_remote_step_goes_to_an_idle_connection(house):
    house.link()
    house.policy.verdicts["geo.lookup"] = ASK
    execution_id = house.running()
    step_id = house.remote(execution_id)
    house.kernel.signal(execution_id, "step.approve", {"step_id": step_id, "approved": True})

    assert house.job(execution_id, step_id).held_by is not None


def test_a_retry_is_handed_out_when_its_time_has_come(house):
    house.link()
    execution_id = house.running()
    step_id = house.remote(execution_id)
    house.result(execution_id, step_id, success=False, error="busy", retryable=True)
    house.kernel.run_due_timers(execution_id)
    assert house.job(execution_id, step_id).held_by is None

    house.now += 2_000
    house.kernel.run_due_timers(execution_id)

    assert house.job(execution_id, step_id).held_by is not None
    assert house.types(execution_id)[-1] == "step.dispatched"


def test_a_retry_without_a_runner_does_not_stay_due(house):
    execution_id = house.running()
    step_id = house.remote(execution_id)
    house.result(execution_id, step_id, success=False, error="busy", retryable=True)
    house.now += 2_000
    house.kernel.run_due_timers(execution_id)
    version = house.state(execution_id).version
    house.kernel.run_due_timers(execution_id)

    assert house.state(execution_id).version == version
    assert house.state(execution_id).clock_ms == house.now


def test_a_look_at_get_settles_what_has_come(house):
    execution_id = house.running()
    house.now += 3_600_000

    assert house.kernel.get(execution_id).execution.status is Status.FAILED
    assert house.types(execution_id)[-1] == "execution.failed"
    with pytest.raises(ExecutionTerminal):
        house.kernel.cancel(execution_id)


def test_a_result_after_the_deadline_is_late_even_if_no_sweep_came(house):
    execution_id = house.running()
    step_id = house.invoke(execution_id)
    house.now += 300_000

    with pytest.raises(StepResolved):
        house.kernel.step_result(execution_id, house.session(execution_id), step_id, True, None, "")
    assert house.types(execution_id)[-2:] == ["step.timed_out", "execution.failed"]


def test_an_unattended_execution_waits_for_a_consumer_after_the_agent_timeout(house):
    execution_id = house.running()
    house.act(execution_id, Intent("wait", signal_type="go"))
    house.leave()
    house.kernel.agent_lost(execution_id, house.session(execution_id))
    house.now += 29_999
    house.kernel.run_due_timers(execution_id)
    assert house.state(execution_id).status is Status.BLOCKED

    house.now += 1
    house.kernel.run_due_timers(execution_id)

    assert house.types(execution_id)[-2:] == ["agent.timeout", "execution.reset"]


def test_a_blocked_execution_stays_blocked_while_its_agent_has_another_consumer(house):
    execution_id = house.running()
    house.act(execution_id, Intent("wait", signal_type="go"))
    house.kernel.agent_lost(execution_id, house.session(execution_id))
    house.now += 30_000
    house.kernel.run_due_timers(execution_id)

    assert house.state(execution_id).status is Status.BLOCKED
    assert house.state(execution_id).unattended_at_ms == house.now


def test_a_signal_to_an_unattended_execution_assigns_it_at_once(house):
    execution_id = house.running()
    house.act(execution_id, Intent("wait", signal_type="go"))
    house.kernel.agent_lost(execution_id, house.session(execution_id))
    house.kernel.signal(execution_id, "go", 1)

    assert house.types(execution_id)[-3:] == ["execution.resumed", "execution.reset", "execution.started"]
    house.act(execution_id, Intent("wait", signal_type="go"))
    assert house.state(execution_id).status is Status.RUNNING


def test_a_lost_agents_execution_goes_to_another_consumer(house):
    execution_id = house.running()
    house.leave()
    house.join("c2")
    house.kernel.agent_lost(execution_id, house.session(execution_id))

    assert house.state(execution_id).session.consumer_id == "c2"


def test_an_ended_execution_is_forgotten_after_its_retention(house):
    execution_id = house.running()
    house.act(execution_id, Intent("complete"))
    house.now += 604_799_999
    house.kernel.run_due_timers(execution_id)
    assert execution_id in house.store.kept

    house.now += 1
    house.kernel.run_due_timers(execution_id)
    house.kernel.run_due_timers("nobody")
    assert execution_id not in house.store.kept


def test_an_assignment_of_long_ago_is_not_made(house):
    execution_id = house.kernel.create("triage", None, {}).execution.id

    def slow(change: Change, applied: bool) -> None:
        house.now += 2_000
        raise VersionConflict

    house.store.on_commit = slow
    assert assign(house.door.commits, execution_id, "c1", "triage") is False
    assert assign(house.door.commits, "nobody", "c1", "triage") is False


def test_a_tainted_execution_takes_neither_intents_nor_results(house):
    execution_id = house.running()
    step_id = house.invoke(execution_id)
    house.store.kept[execution_id].execution = replace(house.state(execution_id), is_tainted=True)

    with pytest.raises(ExecutionTainted):
        house.act(execution_id, Intent("complete"))
    with pytest.raises(ExecutionTainted):
        house.kernel.step_result(execution_id, house.session(execution_id), step_id, True, None, "")
    with pytest.raises(ExecutionTainted):
        house.result(execution_id, step_id, "job")


def test_a_log_that_contradicts_the_checkpoint_is_a_conflict(house):
    execution_id = house.running()
    step_id = house.invoke(execution_id)
    broken = replace(house.state(execution_id).steps[step_id], status="failed")
    house.store.kept[execution_id].execution = replace(house.state(execution_id), steps={step_id: broken})

    with pytest.raises(Conflict, match="tainted"):
        house.kernel.step_result(execution_id, house.session(execution_id), step_id, True, None, "")


def test_a_cursor_of_another_kind_is_refused():
    for cursor in ("abc", "!", "MTJ8", "fHg", "w6k", "a", "MTIzfA"):
        with pytest.raises(Invalid):
            place_of(cursor)


def test_a_cursor_holds_the_place_it_was_made_for_and_no_character_that_a_url_would_change():
    row = Summary("0197b0c4-ÿÿÿ", Status.PENDING, "triage", {}, 1_750_000_000_123, 0)

    assert place_of(cursor_of(row)) == (row.created_at_ms, row.id)
    assert place_of("") is None
    assert cursor_of(row).replace("-", "").replace("_", "").isalnum()
