"""Kernel specification section 11, cases 54 to 65: streams and liveness. Time moves when a test says so."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from piecework.kernel.errors import Conflict, SessionExpired, Unauthorized
from piecework.kernel.model.state import Status
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.stage import GATED, KernelStage, rotating, supersede

PRELUDE = b"retry: 5000\n\n"
ENDS = ("execution.completed", "execution.failed", "execution.cancelled")


@pytest.mark.parametrize(
    "path",
    [
        "/v0/agents/stream",
        "/v0/agents/stream?agent_id=a",
        "/v0/agents/stream?agent_id=&consumer_id=c",
        f"/v0/agents/stream?agent_id={'x' * 257}&consumer_id=c",
        f"/v0/agents/stream?agent_id=a&consumer_id={'%C3%A9' * 129}",
        "/v0/agents/stream?agent_id=a&consumer_id=piecework-hosted",
        "/v0/runners/stream?consumer_id=c",
        f"/v0/runners/stream?runner_id=r&consumer_id={'x' * 257}",
        f"/v0/runners/stream?runner_id=r&consumer_id=c&capabilities={','.join(map(str, range(1001)))}",
    ],
)
def test_stream_params(door, path):
    answer = door.get(path, headers={"X-Request-ID": "mine-1"})

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == "mine-1"
    assert (answer.json()["code"], answer.json()["details"]) == ("VALIDATION_ERROR", None)


def test_stream_of_an_unknown_execution_is_a_json_404(door):
    answer = door.get("/v0/executions/01890000-0000-7000-8000-000000000000/stream?after_sequence=junk")

    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_sse_prelude_comes_at_once_over_http(door):
    execution = door.post("/v0/executions", json={"agent_id": f"nobody-{uuid.uuid4()}"}).json()["id"]
    longest = f"{uuid.uuid4()}".ljust(256, "x")
    for path in (
        f"/v0/agents/stream?agent_id={longest}&consumer_id={longest}",
        f"/v0/runners/stream?runner_id={longest}&consumer_id={longest}&capabilities=a.b,%20,c",
        f"/v0/executions/{execution}/stream",
    ):
        with door.stream("GET", path) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["cache-control"] == "no-cache"
            assert next(answer.iter_raw()).startswith(PRELUDE)


def test_unicode_line_separators_are_escaped_over_http(door):
    text = "a\u0085b\u2028c\u2029d"
    reader = f"reader-{uuid.uuid4()}"
    with door.stream("GET", f"/v0/agents/stream?agent_id={reader}&consumer_id=one") as answer:
        frames = answer.iter_lines()
        next(frames)
        created = door.post("/v0/executions", json={"agent_id": reader, "input": text}).json()
        data = next(line for line in frames if line.startswith("data: "))

    assert data.isascii()
    told = json.loads(data.removeprefix("data: "))
    assert (told["execution_id"], told["input"]) == (created["id"], text)


def test_sse_prelude_and_heartbeat(stage):
    lines = [stage.agent("other"), stage.runner(), stage.monitor(stage.create())]

    stage.pass_time(21)

    for line in lines:
        assert len(line.beats) in (3, 4) and all(4_000 <= b - a <= 6_000 for a, b in pairwise(line.beats))


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_sse_heartbeat_keeps_its_time(stage):
    execution, opened = stage.create(), stage.clock()
    lines = [stage.agent("other"), stage.runner(), stage.monitor(execution)]

    stage.pass_time(21)

    for line in lines:
        assert [at - opened for at in line.beats] == [5_000, 10_000, 15_000, 20_000]


def test_monitor_replay_then_live(stage):
    agent, execution = stage.agent(), stage.create()
    session = agent.take("execution.assigned")
    for _ in range(40):
        stage.report(session, stage.invoke(session))
    early = stage.monitor(execution, after=3)

    for _ in range(40):  # two hundred events in all, while the reader is on its way
        early.look()
        stage.report(session, stage.invoke(session))
    stage.intend(session, "complete", output=1)
    stage.pass_time(5, until=lambda: early.has_ended)

    sequences = [data["sequence"] for _, data in early.seen]
    assert sequences == list(range(4, len(stage.types(execution)) + 1))
    assert len(sequences) > 200
    assert early.seen[-1][0] == "execution.completed"
    assert all(kind == data["type"] for kind, data in early.seen)


def test_monitor_opened_after_the_end_closes_at_once(stage):
    execution = stage.create()
    stage.cancel(execution)

    assert stage.monitor(execution).has_ended
    late = stage.monitor(execution, after=99)
    assert (late.has_ended, late.seen) == (True, [])


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_monitor_of_a_removed_execution_ends(stage):
    execution = stage.create()
    monitor = stage.monitor(execution)
    stage.store.executions.forget(execution)

    stage.pass_time(6, until=lambda: monitor.has_ended)

    assert monitor.has_ended


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_monitor_is_not_rotated_but_ends_before_the_platform_cuts_it():
    stage = KernelStage(rotating(45))
    monitor = stage.monitor(stage.create())

    for minutes in range(14):
        stage.clock.move(60)
        monitor.look()
        assert not monitor.has_ended, minutes
    stage.clock.move(46)
    monitor.look()

    assert monitor.has_ended


def test_round_robin(stage):
    lines = {"one": stage.agent(consumer_id="one"), "two": stage.agent(consumer_id="two")}

    order = []
    for _ in range(4):
        execution = stage.create()
        stage.pass_time(1)
        told = {name: [one["execution_id"] for one in line.of("execution.assigned")] for name, line in lines.items()}
        order += [name for name, executions in told.items() if execution in executions]

    assert order in (["one", "two"] * 2, ["two", "one"] * 2)
    assert [len(line.of("execution.assigned")) for line in lines.values()] == [2, 2]


def test_same_consumer_reconnect(stage):
    first, runner, execution = stage.agent(), stage.runner(), stage.create()
    session = first.take("execution.assigned")
    step = stage.invoke(session, remote=True)
    before = stage.types(execution)

    second = stage.copy().agent()
    stage.finish(runner.take("job.assigned"), {"city": "Zug"})
    stage.pass_time(6, until=lambda: first.has_ended)

    second.look()
    assert [(each["step_id"], each["result"]) for each in second.of("tool.result")] == [(step, {"city": "Zug"})]
    assert second.of("execution.assigned") == []
    assert stage.types(execution) == [*before, "step.completed"]
    stage.pass_time(30)
    assert stage.intend(session, "complete") == {"accepted": True}


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_same_consumer_reconnect_closes_the_first_at_once_within_a_process(stage):
    first = stage.agent()
    stage.agent()
    supersede(first)

    first.look()

    assert first.has_ended


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_same_consumer_reconnect_after_a_close_adopts_the_session(stage):
    first, execution = stage.agent(), stage.create()
    session = first.take("execution.assigned")
    before = stage.types(execution)

    first.close()
    stage.pass_time(0.75)
    second = stage.agent()
    stage.pass_time(60)

    assert second.of("execution.assigned") == []
    assert stage.types(execution) == before
    assert stage.intend(session, "complete") == {"accepted": True}


def test_disconnect_resets(stage):
    agent, execution = stage.agent(), stage.create({"n": 1})
    session = agent.take("execution.assigned")
    done, open_step = stage.invoke(session, "notes.find"), stage.invoke(session, "geo.lookup", remote=True)
    stage.report(session, done, {"hits": 2})
    before = stage.types(execution)

    agent.close()
    stage.pass_time(15, until=lambda: stage.status(execution) is Status.PENDING)

    assert stage.types(execution) == [*before, "agent.timeout", "step.cancelled", "execution.reset"]
    with pytest.raises(Unauthorized):
        stage.intend(session, "complete")
    other = stage.agent(consumer_id="two")
    again = other.take("execution.assigned")
    assert again["session_id"] != session["session_id"]
    assert [(entry["step_id"], entry["status"]) for entry in again["history"]] == [
        (done, "succeeded"),
        (open_step, "cancelled"),
    ]
    assert again["history"][0]["result"] == {"hits": 2}
    assert again["history"][1]["error"] == "agent disconnected"


def test_disconnect_resets_at_once_when_another_consumer_is_there(stage):
    agent, execution = stage.agent(), stage.create()
    agent.take("execution.assigned")
    other = stage.agent(consumer_id="two")

    agent.close()

    took = stage.pass_time(15, until=lambda: bool(other.of("execution.assigned")))
    assert took <= 3
    assert [told["execution_id"] for told in other.of("execution.assigned")] == [execution]


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_disconnect_resets_when_the_serving_process_dies(stage):
    agent, execution = stage.agent(), stage.create()
    agent.take("execution.assigned")

    stage.lines.remove(agent)  # nobody writes its heartbeats any more

    stage.pass_time(15, until=lambda: stage.status(execution) is Status.PENDING)
    assert "agent.timeout" in stage.types(execution)


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_disconnect_resets_where_closes_are_not_seen():
    stage = KernelStage(rotating())
    agent, execution = stage.agent(), stage.create()
    agent.take("execution.assigned")

    agent.is_lost = True
    took = stage.pass_time(60, until=lambda: stage.status(execution) is Status.PENDING)

    assert 50 <= took <= 57  # the stream ends itself after 45 s, and 10 s are left for a successor


def test_disconnect_blocked_stays(stage):
    agent, execution = stage.agent(), stage.create()
    session = agent.take("execution.assigned")
    stage.intend(session, "wait", signal_type="go")
    before = stage.types(execution)

    agent.close()
    stage.pass_time(2)

    assert stage.status(execution) is Status.BLOCKED
    assert stage.types(execution) == [*before, "agent.timeout"]
    stage.signal(execution, "go", {"n": 1})
    assert stage.types(execution)[-2:] == ["signal.received", "execution.resumed"]
    assert stage.status(execution) is Status.RUNNING


@pytest.mark.needs("POLICY")
def test_disconnect_blocked_for_long_is_reset_and_its_approval_cancelled(stage):
    agent, execution = stage.agent(), stage.create()
    stage.invoke(agent.take("execution.assigned"), GATED)
    assert stage.status(execution) is Status.BLOCKED

    agent.close()

    stage.pass_time(60, until=lambda: stage.status(execution) is Status.PENDING)
    assert stage.types(execution)[-3:] == ["step.cancelled", "agent.timeout", "execution.reset"]


def test_double_connect_single_assign(stage):
    execution = stage.create()
    copies = [stage.copy() for _ in range(20)]

    with ThreadPoolExecutor(20) as threads:
        lines = list(threads.map(lambda each: each[1].agent(consumer_id=f"c{each[0]}"), enumerate(copies)))
    for line in lines:
        line.look()

    assert stage.types(execution).count("execution.started") == 1
    assert sum(len(line.of("execution.assigned")) for line in lines) == 1


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_idle_agent_keeps_session():
    stage = KernelStage(KernelSettings(agent_timeout_ms=2_000))
    agent, execution = stage.agent(), stage.create()
    session = agent.take("execution.assigned")

    stage.pass_time(10)

    assert stage.intend(session, "complete") == {"accepted": True}
    assert stage.status(execution) is Status.COMPLETED


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_a_session_lapses_when_its_stream_has_gone():
    stage = KernelStage(KernelSettings(agent_timeout_ms=2_000))
    agent = stage.agent()
    stage.create()
    session = agent.take("execution.assigned")

    agent.close()
    stage.clock.move(13)  # nobody sweeps

    with pytest.raises(SessionExpired):
        stage.intend(session, "complete")


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_long_remote_tool():
    stage = KernelStage(KernelSettings(agent_timeout_ms=2_000))
    agent, runner = stage.agent(), stage.runner()
    stage.create()
    session = agent.take("execution.assigned")
    stage.invoke(session, remote=True)
    job = runner.take("job.assigned")

    stage.pass_time(20)
    stage.finish(job, 1)
    stage.pass_time(1)

    assert len(agent.of("tool.result")) == 1
    assert stage.intend(session, "complete") == {"accepted": True}


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_rotation():
    stage = KernelStage(rotating(20))
    agent, runner, execution = stage.agent(), stage.runner(), stage.create()
    session = agent.take("execution.assigned")
    stage.pass_time(15)
    stage.invoke(session, remote=True)
    job = runner.take("job.assigned")

    stage.pass_time(10, until=lambda: agent.has_ended and runner.has_ended)
    stage.pass_time(0.5)
    successor, busy = stage.agent(), stage.runner()
    stage.invoke(session, remote=True)
    stage.pass_time(1)
    assert busy.of("job.assigned") == []  # it still works on the first
    stage.finish(job, {"city": "Zug"})
    stage.pass_time(1)

    assert [each["result"] for each in successor.of("tool.result")] == [{"city": "Zug"}]
    assert successor.of("execution.assigned") == []
    stage.finish(busy.take("job.assigned"))
    assert stage.intend(session, "complete") == {"accepted": True}
    assert "execution.reset" not in stage.types(execution)
    assert [kind for kind in stage.types(execution) if kind in ENDS] == ["execution.completed"]


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_rotation_hands_out_again_what_a_client_that_left_unseen_never_read():
    stage = KernelStage(rotating())
    gone = stage.agent()
    stage.pass_time(10)
    gone.is_lost = True
    execution = stage.create()
    gone.look()

    back = stage.copy().agent()  # the client's own reconnect, 2 s later, while we still write to the old stream
    for _ in range(20):
        back.look()
        stage.clock.move(0.25)

    assert stage.types(execution)[2:] == ["execution.reset", "execution.started"]
    assert back.take("execution.assigned")["execution_id"] == execution


def test_unicode_line_separators(stage):
    text = "a\u0085b\u2028c\u2029d\u000b\u001ce"
    agent, execution = stage.agent(), stage.create({"text": text})
    monitor = stage.monitor(execution)
    session = agent.take("execution.assigned")
    stage.intend(session, "wait", signal_type="go")
    stage.signal(execution, "go", text)
    stage.pass_time(1)

    assert session["input"] == {"text": text}
    assert agent.take("signal.received")["payload"] == text
    assert monitor.of("signal.received")[0]["payload"]["payload"] == text
    assert json.dumps(text).isascii()


def test_disconnect_gives_an_unstarted_job_to_another_runner(stage):
    agent, lost = stage.agent(), stage.runner(consumer_id="one")
    stage.create()
    session = agent.take("execution.assigned")
    step = stage.invoke(session, remote=True)
    job = lost.take("job.assigned")

    lost.close()
    other = stage.runner(consumer_id="two")
    stage.pass_time(5, until=lambda: bool(other.of("job.assigned")))

    [again] = other.of("job.assigned")
    assert (again["step_id"], again["attempt"]) == (step, 1)
    assert again["id"] != job["id"]
    with pytest.raises(Conflict):
        stage.finish(job)
    stage.finish(again, 7)


def test_disconnect_leaves_a_started_job_with_its_runner(stage):
    agent, lost = stage.agent(), stage.runner()
    execution = stage.create()
    session = agent.take("execution.assigned")
    stage.invoke(session, remote=True)
    job = lost.take("job.assigned")
    stage.started(job)

    lost.close()
    stage.pass_time(10)
    back = stage.runner()
    stage.finish(job, 7)

    assert back.of("job.assigned") == []
    assert stage.types(execution)[-1] == "step.completed"
