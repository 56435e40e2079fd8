"""Executions once more: additions to the specification's operations on executions."""

import pytest

pytestmark = pytest.mark.usefixtures("stored")

GIVEN = {"input": {"ticket": 91, "deep": [1.50, None]}, "labels": {"env": "qa"}}


def again(desk, execution_id, body=None):
    return desk.post(f"/v0/executions/{execution_id}/again", body)


@pytest.fixture
def work(desk):
    return desk.work(**GIVEN)


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_again_is_a_new_execution_of_what_its_client_gave(desk, work, how):
    {
        "completed": lambda: work.intend("complete", output={"hits": 2}),
        "failed": lambda: work.intend("fail", error="not ours"),
        "cancelled": lambda: desk.cancel(work.id),
    }[how]()
    old = desk.show(work.id)
    assert old["status"] == how

    answer = again(desk, work.id)

    assert answer.status_code == 201
    made = answer.json()
    assert made["id"] != old["id"] and made["again_of"] == old["id"]
    assert {name: made[name] for name in ("agent_id", "input", "labels")} == {
        name: old[name] for name in ("agent_id", "input", "labels")
    }
    assert (made["status"], made["output"], made["error"]) == ("running", None, None)
    [created] = [event for event in desk.events(made["id"]) if event["type"] == "execution.created"]
    assert created["payload"]["again_of"] == old["id"]
    assert desk.show(made["id"]) == made
    assert desk.show(work.id) == old
    assert made["id"] in [
        row["id"] for row in desk.get("/v0/executions", agent_id=old["agent_id"]).json()["executions"]
    ]


def test_again_of_an_execution_that_goes_on_is_refused(desk, work):
    waiting = desk.create("nobody-there")

    for execution in (work.id, waiting):
        answer = again(desk, execution)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert len(desk.get("/v0/executions", agent_id=desk.named("triage")).json()["executions"]) == 1


def test_again_of_an_unknown_execution_is_not_found(desk):
    assert again(desk, "00000000-0000-7000-8000-000000000000").status_code == 404


def test_again_with_a_key_makes_one_execution(desk, work):
    desk.cancel(work.id)

    first, second = (again(desk, work.id, {"idempotency_key": "click-1"}) for _ in range(2))
    other = again(desk, work.id, {"idempotency_key": "click-2"}).json()
    without = [again(desk, work.id, body).json()["id"] for body in (None, {}, {"idempotency_key": None})]

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert len({first.json()["id"], other["id"], *without}) == 5


def test_again_reads_its_key_as_other_ids_are_read(desk, work):
    desk.cancel(work.id)

    for body in ({"idempotency_key": 7}, {"idempotency_key": "é" * 129}, ["click"], "click"):
        assert again(desk, work.id, body).status_code == 400, body


def test_again_takes_no_answer_of_a_person_along(desk, work):
    step = work.step("pay.refund")
    desk.signal(work.id, "step.approve", payload={"step_id": step, "approved": True})
    work.report(step)
    work.intend("complete")

    made = again(desk, work.id).json()

    work.agent.look()
    [session] = [one for one in work.agent.of("execution.assigned") if one["execution_id"] == made["id"]]
    assert "history" not in session
    intent = {"type": "invoke_tool", "tool_id": desk.named("pay.refund"), "arguments": {"zip": "8001"}}
    ids = {"execution_id": made["id"], "session_id": session["session_id"]}
    assert desk.post("/v0/agents/intent", {**ids, "intent": intent}).json()["pending_approval"] is True
