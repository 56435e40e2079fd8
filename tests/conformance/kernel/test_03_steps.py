"""Kernel specification section 11, cases 19 to 30: intents and steps."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from piecework.kernel.settings import KernelSettings
from tests.support.kernel.desk import ARGUMENTS, GATED, Desk

INTENTS = (
    ("invoke_tool", {"tool_id": "notes.find"}),
    ("wait", {"signal_type": "go"}),
    ("complete", {}),
    ("fail", {"error": "boom"}),
)


pytestmark = pytest.mark.usefixtures("stored")


def test_local_happy_path(desk):
    work = desk.work(input={"ticket": 91})
    step = work.step(idempotency_key="k1")
    assert work.report(step, data={"hits": 2}).json() == {"status": "ok"}
    told = {"execution_id": work.id, "step_id": step, "status": "succeeded", "result": {"hits": 2}}
    assert work.heard("tool.result") == [told]
    assert work.intend("complete", output={"done": True}).json() == {"accepted": True}

    assert work.types == [
        "execution.created",
        "execution.started",
        "intent.accepted",
        "step.created",
        "step.completed",
        "intent.accepted",
        "execution.completed",
    ]
    events = desk.events(work.id)
    assert [event["sequence"] for event in events] == list(range(1, 8))
    assert events[2]["payload"] == {
        "intent_type": "invoke_tool",
        "details": {"tool_id": desk.named("notes.find"), "arguments": ARGUMENTS, "idempotency_key": "k1"},
    }
    assert events[3]["causation_id"] == events[3]["id"] and events[3]["correlation_id"] == events[2]["id"]
    assert (events[4]["step_id"], events[4]["payload"]) == (step, {"result": {"hits": 2}})
    assert events[6]["payload"] == {"output": {"done": True}}
    for event in events:
        assert (event["schema_version"], event["idempotency_key"], event["execution_id"]) == (1, "", work.id)
    assert (desk.show(work.id)["status"], desk.show(work.id)["output"]) == ("completed", {"done": True})


def test_intent_validation(desk):
    work = desk.work()
    before = work.types
    for kind, members in [
        ("", {}),
        ("huh", {}),
        ("invoke_tool", {}),
        ("wait", {}),
        ("fail", {}),
        ("fail", {"error": ""}),
        ("invoke_tool", {"tool_id": "t" * 257}),
        ("wait", {"signal_type": "é" * 129}),
        ("fail", {"error": "e" * 4_097}),
        ("invoke_tool", {"tool_id": 5}),
        ("invoke_tool", {"tool_id": "t", "remote": "yes"}),
    ]:
        answer = work.intend(kind, **members)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (kind, members)
    ids = {"execution_id": work.id, "session_id": work.session_id}
    for missing in ids:
        body = {name: value for name, value in ids.items() if name != missing} | {"intent": {"type": "complete"}}
        assert desk.post("/v0/agents/intent", body).status_code == 400
    assert desk.post("/v0/agents/intent", ids).status_code == 400
    assert work.types == before


def test_session_checks(desk):
    work, other = desk.work(), desk.work("another")

    work.session_id = "unknown"
    unknown = work.intend("complete")
    assert unknown.status_code == 401 and "session not found" in unknown.json()["error"]
    assert work.report("step").status_code == 401
    work.session_id = other.session_id
    assert work.intend("complete").status_code == 400
    assert work.report("step").status_code == 400


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_session_checks_of_one_that_has_lapsed():
    desk = Desk(KernelSettings(agent_timeout_ms=2_000))
    work = desk.work()
    work.agent.close()
    desk.stage.clock.move(40)
    lapsed = work.intend("complete")
    assert (lapsed.status_code, lapsed.json()["code"]) == (401, "UNAUTHORIZED")
    assert "session expired" in lapsed.json()["error"]


def test_idempotent_invoke(desk):
    work = desk.work()
    step = work.step(idempotency_key="k")

    assert work.step(idempotency_key="k") == step
    assert work.types.count("step.created") == 1
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: work.call(idempotency_key="many").json()["step_id"], range(10)))
    assert len(set(answers)) == 1 and answers[0] != step
    conflict = work.call(idempotency_key="k", arguments={"zip": "9000"})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "CONFLICT")
    assert work.call("other.tool", idempotency_key="k").status_code == 409
    assert work.step(idempotency_key="k2") not in (step, answers[0])
    assert work.step() != work.step()

    work.agent.close()
    desk.stage.pass_time(5, until=lambda: work.status == "pending")
    agent = desk.agent(consumer_id="two")
    work.session_id = agent.take("execution.assigned")["session_id"]
    assert work.step(idempotency_key="k") != step


def test_idempotent_repeats_push_a_known_result_again_after_a_reset(desk):
    work = desk.work()
    step = work.step(idempotency_key="k")
    work.report(step, data=1)
    work.agent.close()
    desk.stage.pass_time(5, until=lambda: work.status == "pending")
    agent = desk.agent(consumer_id="two")
    work.session_id, work.agent = agent.take("execution.assigned")["session_id"], agent

    assert work.step(idempotency_key="k") == step
    assert [told["result"] for told in work.heard("tool.result")] == [1]
    assert work.types.count("step.created") == 1


@pytest.mark.needs("POLICY")
def test_idempotent_after_block(desk):
    work = desk.work()
    first = work.call(GATED, idempotency_key="k")

    assert first.json()["pending_approval"] is True and work.status == "blocked"
    again = work.call(GATED, idempotency_key="k")
    assert (again.status_code, again.json()) == (200, first.json())
    assert work.types.count("step.created") == 1


def test_parallel_steps(desk):
    work = desk.work()
    steps = [work.step() for _ in range(3)]
    before = work.types

    refused = work.intend("complete")
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    assert work.intend("fail", error="boom").status_code == 409
    assert work.types == before
    for step in steps:
        work.report(step)
    assert work.intend("complete").json() == {"accepted": True}


def test_complete_without_output(desk):
    work = desk.work()

    assert work.intend("complete").json() == {"accepted": True}
    assert desk.show(work.id)["output"] is None
    assert desk.events(work.id)[-1]["payload"] == {"output": None}


def test_intent_after_terminal(desk):
    work = desk.work()
    work.intend("complete")
    before = work.types

    for kind, members in INTENTS:
        answer = work.intend(kind, **members)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT"), kind
        assert answer.json()["error"].startswith("execution is in terminal state")
    assert work.types == before


def test_step_result_twice(desk):
    work = desk.work()
    step = work.step()

    assert work.report(step).status_code == 200
    again = work.report(step)
    assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")
    assert "step already resolved" in again.json()["error"]
    assert work.report("unknown").status_code == 404
    other = work.step()
    assert work.report(other, success=None).status_code == 400
    body = {"execution_id": work.id, "session_id": work.session_id, "step_id": other}
    assert desk.post("/v0/agents/step-result", body).status_code == 400
    for missing in body:
        assert desk.post("/v0/agents/step-result", {**body, missing: "", "success": True}).status_code == 400


def test_step_result_failure(desk):
    work = desk.work()
    step = work.step()
    work.report(step, success=False, error="boom", data={"trace": 1})

    assert desk.events(work.id)[-1]["payload"] == {"error": "boom", "retryable": False}
    [told] = work.heard("tool.result")
    assert (told["status"], told["error"], told["step_id"]) == ("failed", "boom", step)
    assert work.status == "running"


@pytest.mark.needs("POLICY")
def test_deny(desk):
    work = desk.work()
    answer = work.call("rm.all", idempotency_key="k")

    assert answer.status_code == 200
    assert answer.json() == {"accepted": False, "error": "tool not on the list", "rule_id": "no"}
    assert work.types[-1] == "intent.denied"
    assert desk.events(work.id)[-1]["payload"] == {
        "intent_type": "invoke_tool",
        "tool_id": desk.named("rm.all"),
        "arguments": ARGUMENTS,
        "idempotency_key": "k",
        "reason": "tool not on the list",
        "rule_id": "no",
    }
    assert work.intend("complete").json() == {"accepted": True}


@pytest.mark.needs("POLICY")
def test_rate_limit(desk):
    work, other = desk.work(), desk.work("another")
    assert work.call("mail.send").json()["accepted"] is True

    full = work.call("mail.send")
    assert full.status_code == 200
    assert full.json()["accepted"] is False
    assert full.json()["error"] == "rate limit exceeded: max 1 per 1m (rule: mail)"
    assert work.types[-1] == "intent.denied"
    assert other.call("mail.send").json()["accepted"] is True


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_rate_limit_lets_one_of_two_through_when_the_window_is_over(desk):
    work = desk.work()
    assert work.call("mail.send").json()["accepted"] is True
    desk.stage.pass_time(61)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: work.call("mail.send").json()["accepted"], range(2)))
    assert sorted(answers) == [False, True]
