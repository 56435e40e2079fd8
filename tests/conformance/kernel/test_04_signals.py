"""Kernel specification section 11, cases 31 to 41: signals and approvals."""

import pytest

from piecework.kernel.settings import KernelSettings
from tests.support.kernel.desk import GATED, Desk, Work

pytestmark = pytest.mark.usefixtures("stored")


def approve(work: Work, step: str, approved: object = True, kind: str = "step.approve", **more):
    return work.desk.signal(work.id, kind, payload={"step_id": step, "approved": approved, **more})


def waiting_of(work: Work) -> list[dict]:
    """The approvals that this execution waits for."""
    waiting = work.desk.get("/v0/approvals").json()["approvals"]
    return [one for one in waiting if one["execution_id"] == work.id]


def test_wait_signal(desk):
    work = desk.work()
    assert work.intend("wait", signal_type="go").json() == {"accepted": True}
    assert work.status == "blocked"
    assert work.types[-2:] == ["intent.accepted", "execution.blocked"]
    assert desk.events(work.id)[-1]["payload"] == {"reason": "signal", "ref": "go"}

    answer = desk.signal(work.id, payload={"by": "mia"})

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert work.status == "running"
    received, resumed = desk.events(work.id)[-2:]
    assert received["payload"] == {"signal_type": "go", "payload": {"by": "mia"}}
    assert resumed["payload"] == {"reason": "signal received: go"}
    assert resumed["causation_id"] == resumed["correlation_id"] == received["id"] == received["causation_id"]
    assert work.heard("signal.received") == [
        {"signal_type": "go", "payload": {"by": "mia"}, "execution_id": work.id, "session_id": work.session_id}
    ]


def test_intent_while_blocked(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")
    before = work.types

    for kind, members in (
        ("invoke_tool", {"tool_id": "x"}),
        ("wait", {"signal_type": "go"}),
        ("complete", {}),
        ("fail", {"error": "boom"}),
    ):
        answer = work.intend(kind, **members)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT"), kind
        assert answer.json()["error"].startswith("execution is blocked: ")
    assert work.types == before


def test_results_while_blocked_are_accepted_and_leave_it_blocked(desk):
    work = desk.work()
    step = work.step()
    work.intend("wait", signal_type="go")

    assert work.report(step).status_code == 200
    assert work.status == "blocked"


def test_other_signal_while_blocked(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")

    assert desk.signal(work.id, "stop", payload=[1]).status_code == 200
    assert work.status == "blocked"
    assert [(one["signal_type"], one["payload"]) for one in work.heard("signal.received")] == [("stop", [1])]
    desk.signal(work.id, "go")
    work.intend("wait", signal_type="stop")
    assert work.status == "running"


def test_signal_before_wait(desk):
    work = desk.work()
    desk.signal(work.id, payload=7)
    work.heard("signal.received")

    assert work.intend("wait", signal_type="go").json() == {"accepted": True}
    assert work.types[-2:] == ["intent.accepted", "execution.resumed"]
    assert "execution.blocked" not in work.types and work.status == "running"
    assert [told["payload"] for told in work.heard("signal.received")] == [7, 7]
    work.intend("wait", signal_type="go")
    assert work.status == "blocked"


def test_signal_before_assignment(desk):
    execution = desk.create()
    assert desk.signal(execution, payload=7).status_code == 200
    agent = desk.agent()
    work = Work(desk, agent, agent.take("execution.assigned"))

    assert work.intend("wait", signal_type="go").json() == {"accepted": True}
    assert work.status == "running"
    assert [told["payload"] for told in work.heard("signal.received")] == [7]
    work.intend("wait", signal_type="go")
    assert work.status == "blocked"


def test_signal_terminal(desk):
    work = desk.work()
    work.intend("complete")
    before = work.types

    answer = desk.signal(work.id)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert work.types == before


def test_signal_needs_a_type(desk):
    execution = desk.create()

    for body in ({}, {"signal_type": ""}, {"signal_type": 5}, None):
        assert desk.post(f"/v0/executions/{execution}/signal", body).status_code == 400
    assert desk.signal(execution, "x" * 10_000).status_code == 200


@pytest.mark.needs("POLICY")
def test_approve_local(desk):
    work = desk.work()
    step = work.step(GATED)
    events = desk.events(work.id)[-3:]
    assert [event["type"] for event in events] == ["step.created", "step.approval_required", "execution.blocked"]
    assert events[1]["payload"]["reason"] == "a human must look"
    assert events[2]["payload"] == {
        "reason": "approval",
        "ref": step,
        "tool_id": desk.named(GATED),
        "arguments": {"zip": "8001"},
    }
    [waiting] = waiting_of(work)
    assert (waiting["step_id"], waiting["tool_id"]) == (step, desk.named(GATED))

    assert approve(work, step).status_code == 200

    assert work.types[-3:] == ["signal.received", "step.dispatched", "execution.resumed"]
    dispatched, resumed = desk.events(work.id)[-2:]
    assert (dispatched["payload"]["job_id"], dispatched["payload"]["runner_id"]) == ("", "")
    assert resumed["payload"] == {"reason": "approval granted"}
    work.agent.look()
    kinds = [kind for kind, _ in work.agent.seen if kind != "execution.assigned"]
    assert kinds == ["approval.resolved", "signal.received"]
    assert work.heard("approval.resolved") == [
        {"execution_id": work.id, "step_id": step, "approved": True, "session_id": work.session_id}
    ]
    assert waiting_of(work) == []
    assert work.report(step).status_code == 200


@pytest.mark.needs("POLICY")
def test_approve_remote(desk):
    runner = desk.stage.runner(tools=GATED)
    work = desk.work()
    step = work.step(GATED, remote=True)
    assert desk.events(work.id)[-1]["payload"]["remote"] is True
    runner.look()
    assert runner.of("job.assigned") == []

    approve(work, step)

    job = runner.take("job.assigned")
    assert desk.events(work.id)[-2]["payload"]["job_id"] == job["id"] != ""
    assert work.types[-3:] == ["signal.received", "step.dispatched", "execution.resumed"]
    assert work.result(job, data={"paid": True}).status_code == 200
    assert [told["result"] for told in work.heard("tool.result")] == [{"paid": True}]


@pytest.mark.needs("POLICY")
def test_deny_approval(desk):
    work = desk.work()
    step = work.step(GATED)

    approve(work, step, approved=False, reason="too much")

    assert work.types[-3:] == ["signal.received", "step.failed", "execution.resumed"]
    received, failed, resumed = desk.events(work.id)[-3:]
    assert failed["payload"] == {"error": "too much", "retryable": False}
    assert resumed["payload"] == {"reason": "approval denied"}
    assert failed["correlation_id"] == resumed["correlation_id"] == received["id"]
    assert resumed["causation_id"] == failed["id"]
    work.agent.look()
    assert [kind for kind, _ in work.agent.seen][-2:] == ["approval.resolved", "signal.received"]
    assert work.heard("approval.resolved")[0]["approved"] is False
    other = work.step(GATED)
    approve(work, other, approved=False)
    assert desk.events(work.id)[-2]["payload"]["error"] == "approval denied by human"


@pytest.mark.needs("POLICY")
def test_approval_alias(desk):
    work = desk.work()
    step = work.step(GATED)
    assert desk.signal(work.id, "approval", payload={"approved": True}).status_code == 200
    assert work.types[-2:] == ["step.dispatched", "execution.resumed"]
    work.report(step)

    work.intend("wait", signal_type="approval")
    assert desk.signal(work.id, "approval", payload="anything").status_code == 200
    assert desk.events(work.id)[-1]["payload"] == {"reason": "signal received: approval"}


@pytest.mark.needs("POLICY")
def test_approve_bad(desk):
    work = desk.work()
    step = work.step(GATED)
    before = work.types

    assert approve(work, "another").status_code == 400
    for payload in ("yes", None, [step], {"approved": True}, {"step_id": step}, {"step_id": step, "approved": "no"}):
        answer = desk.signal(work.id, "step.approve", payload=payload)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), payload
    assert work.types == before and work.status == "blocked"


@pytest.mark.needs("POLICY")
def test_result_before_approval(desk):
    work = desk.work()
    step = work.step(GATED, remote=True)

    assert work.report(step).status_code == 409
    job = {"id": "any", "execution_id": work.id, "step_id": step}
    assert work.result(job).status_code == 409
    assert work.status == "blocked"


@pytest.mark.inside("gives the door other rules, or moves its clock")
def test_approval_outlives_step_timeout():
    desk = Desk(KernelSettings(step_timeout_ms=2_000))
    work = desk.work()
    step = work.step(GATED)
    desk.stage.pass_time(6)
    assert work.status == "blocked"

    approve(work, step)
    desk.stage.pass_time(1)

    assert work.status == "running"
    assert work.report(step).status_code == 200
    assert "step.timed_out" not in work.types


def test_signal_wakes_orphan(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")
    work.agent.close()
    desk.stage.pass_time(3)

    assert desk.signal(work.id, payload={"by": "mia"}).status_code == 200
    assert work.status == "running"
    agent = desk.agent(consumer_id="two")
    again = Work(desk, agent, agent.take("execution.assigned"))
    assert again.types[-2:] == ["execution.reset", "execution.started"]
    assert desk.events(work.id)[-2]["payload"] == {"reason": "recovery", "from_status": "running"}
    again.intend("wait", signal_type="go")
    assert [told["payload"] for told in again.heard("signal.received")] == [{"by": "mia"}]


def test_signal_wakes_orphan_whose_loss_was_not_noticed_yet(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")
    work.agent.close()
    desk.signal(work.id, payload={"by": "mia"})
    desk.stage.pass_time(5, until=lambda: work.status == "pending")

    agent = desk.agent(consumer_id="two")
    again = Work(desk, agent, agent.take("execution.assigned"))
    again.intend("wait", signal_type="go")

    assert [told["payload"] for told in again.heard("signal.received")] == [{"by": "mia"}]


def test_signal_wakes_orphan_at_once_where_a_second_consumer_is_connected(desk):
    work, second = desk.work(), desk.agent(consumer_id="two")
    work.intend("wait", signal_type="go")
    work.agent.close()
    desk.stage.pass_time(3)

    desk.signal(work.id)

    assert second.take("execution.assigned")["execution_id"] == work.id
