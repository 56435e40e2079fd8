"""The kernel's times, ids and numbers."""

import uuid

import pytest

from piecework.errors import SettingsError
from piecework.kernel.clocks import millis, new_id, rfc3339
from piecework.kernel.model import metrics
from piecework.kernel.model.commands import Cancel, Intent, StepResult
from piecework.kernel.model.events import Event
from piecework.kernel.model.evolve import LogBroken, fold
from piecework.kernel.policy.verdicts import Decision, Verdict
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.story import DENY, Story


def test_times_are_read_as_go_writes_them():
    settings = KernelSettings.from_env({"REBUNO_AGENT_TIMEOUT": "2s", "REBUNO_EXECUTION_TIMEOUT": "1h30m"})

    assert (settings.agent_timeout_ms, settings.execution_timeout_ms, settings.step_timeout_ms) == (
        2_000,
        5_400_000,
        300_000,
    )
    assert KernelSettings.from_env({}) == KernelSettings()
    assert KernelSettings.from_env({"PIECEWORK_KERNEL_ROTATION": "45s"}).rotation_ms == 45_000


def test_every_bad_time_is_named():
    with pytest.raises(SettingsError) as refused:
        KernelSettings.from_env({"REBUNO_AGENT_TIMEOUT": "soon", "PIECEWORK_KERNEL_ROTATION": "-1s"})

    assert "REBUNO_AGENT_TIMEOUT" in refused.value.message
    assert "PIECEWORK_KERNEL_ROTATION" in refused.value.message


def test_retries_wait_two_then_four_seconds_up_to_the_cap():
    assert [KernelSettings().retry_delay_ms(attempt) for attempt in (2, 3, 9)] == [2_000, 4_000, 30_000]


def test_ids_are_uuids_of_version_seven_that_sort_by_time():
    first, second = new_id(1_750_000_000_000), new_id(1_750_000_000_001)

    assert (uuid.UUID(first).version, uuid.UUID(first).variant) == (7, uuid.RFC_4122)
    assert str(uuid.UUID(first)) == first < second
    assert len({new_id(1_750_000_000_000)[14:] for _ in range(1_000)}) == 1_000


def test_a_time_reads_back_to_the_millisecond():
    for at_ms in (0, 1, 999, 1_750_000_000_123, 4_102_444_799_999):
        assert millis(rfc3339(at_ms)) == at_ms
    assert rfc3339(None) == "0001-01-01T00:00:00Z"


def changes(story: Story) -> dict[str, float]:
    assert story.last is not None
    return metrics.counts_of(story.last)


def test_executions_are_counted_when_they_begin_and_end():
    story = Story().create()
    assert changes(story) == {metrics.executions("created"): 1, metrics.ACTIVE: 1}

    story.do(Cancel())
    assert changes(story) == {metrics.executions("cancelled"): 1, metrics.ACTIVE: -1}


def test_intents_are_counted_by_what_was_decided():
    story = Story().assigned()
    story.act(Intent("invoke_tool", "rm"), DENY, policy_seconds=0.02)
    assert changes(story)[metrics.intents("invoke_tool", "denied")] == 1
    assert changes(story)[f"policy{metrics.PARTED}tool.invoke{metrics.PARTED}0.025"] == 1

    story.act(Intent("invoke_tool", "mail"), Verdict(Decision.ALLOW, "", "r"), over_limit=True)
    assert changes(story)[metrics.intents("invoke_tool", "rate_limited")] == 1
    story.wait()
    assert changes(story) == {metrics.intents("wait", "accepted"): 1}


def test_metrics_are_shown_in_prometheus_text():
    story = Story().create().assigned()
    step_id = story.invoke('we"ird\n')
    story.later(2_000).do(StepResult(story.session, step_id, True, None, ""))
    rows = changes(story) | {metrics.executions("created"): 3, metrics.ACTIVE: 2}

    lines = metrics.render(rows).splitlines()

    assert 'rebuno_executions_total{status="created"} 3' in lines
    assert "rebuno_active_executions 2" in lines
    assert "# TYPE rebuno_step_duration_seconds histogram" in lines
    assert r'rebuno_step_duration_seconds_bucket{tool_id="we\"ird\n",le="1"} 0' in lines
    assert r'rebuno_step_duration_seconds_bucket{tool_id="we\"ird\n",le="2.5"} 1' in lines
    assert r'rebuno_step_duration_seconds_bucket{tool_id="we\"ird\n",le="+Inf"} 1' in lines
    assert r'rebuno_step_duration_seconds_sum{tool_id="we\"ird\n"} 2' in lines


def test_a_log_that_contradicts_itself_does_not_fold():
    story = Story().assigned()
    step_id = story.invoke()
    story.do(StepResult(story.session, step_id, True, None, ""))
    log = story.log
    twice = Event("x", "exec-1", 6, "step.completed", story.now_ms, {"result": None}, "x", "x", step_id)
    unknown = Event("x", "exec-1", 6, "step.invented", story.now_ms, {}, "x", "x")

    for broken in ([], log[1:], [log[0], *log[2:]], [*log, log[-1]], [*log, twice], [*log, unknown]):
        with pytest.raises(LogBroken):
            fold(broken)
    assert fold(log).sequence == 5
