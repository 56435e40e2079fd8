"""What people do through the operator's door: answers, cancels, signals, runs again; and in whose name."""

import pytest

from piecework.kernel.settings import MOST_NAMES
from piecework.ops.kernel_routes import KERNEL
from tests.support.kernel.desk import GATED, NamedDesk
from tests.support.ops.kernel import ROLES, KernelOps


@pytest.fixture
def ops():
    return KernelOps()


@pytest.fixture
def work(ops):
    return ops.desk.work(labels={"team": "a"})


def answer(ops, work, step_id, name="approver", **body):
    return ops.ask(name, "POST", f"{KERNEL}/executions/{work.id}/approvals/{step_id}", {"approved": True, **body})


def do(ops, work, verb, name="operator", **body):
    return ops.ask(name, "POST", f"{KERNEL}/executions/{work.id}/{verb}", body)


def last(work, kind):
    return [event for event in work.desk.events(work.id) if event["type"] == kind][-1]


def test_a_granted_step_goes_on_and_the_log_says_that_this_doors_token_granted_it(ops, work):
    step_id = work.step(GATED)

    assert answer(ops, work, step_id) == (200, {"status": "ok"}, answer_headers())
    assert work.status == "running"
    assert {event.get("by") for event in work.desk.events(work.id)} >= {"ops:approver"}
    [heard] = work.heard("approval.resolved")
    assert heard["approved"] is True


def answer_headers():
    return {"Content-Type": "application/json", "Cache-Control": "no-store"}


def test_a_denied_step_ends_with_the_reason_that_was_given(ops, work):
    step_id = work.step(GATED)

    assert answer(ops, work, step_id, approved=False, reason="too much").status == 200
    shown = ops.get(f"{KERNEL}/executions/{work.id}/approvals/{step_id}")
    assert (shown["state"], shown["answer"]["approved"], shown["answer"]["reason"]) == ("answered", False, "too much")
    assert shown["answer"]["by"] == "ops:approver"


def test_the_second_person_is_told_who_was_faster_and_how(ops, work):
    step_id = work.step(GATED)
    answer(ops, work, step_id, "approver")
    stood = ops.get(f"{KERNEL}/executions/{work.id}/approvals/{step_id}")["answer"]

    for approved in (True, False):
        second = answer(ops, work, step_id, "bob", approved=approved)

        assert (second.status, second.body["code"]) == (409, "conflict")
        assert second.body["error"] == "conflict: the step was granted already by ops:approver; that stands"
        told = {"step_id": step_id, "approved": True, "by": "ops:approver", "at": stood["at"]}
        assert second.body["details"] == told


def test_the_same_answer_by_the_same_person_is_done_already(ops, work):
    step_id = work.step(GATED)
    answer(ops, work, step_id)

    assert answer(ops, work, step_id).body == {"status": "ok", "already": True}
    assert answer(ops, work, step_id, approved=False).status == 409


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_wakes_the_agent_that_asked(ops, work, approved):
    step_id = work.step(GATED)
    before = hints_of_agents(ops)

    assert answer(ops, work, step_id, approved=approved).status == 200

    assert hints_of_agents(ops) == before + 1


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_is_about_its_step_whatever_signal_the_agent_waits_for(approved):
    ops = KernelOps(roles=f"{ROLES},bob=approver+operator")
    work = ops.desk.work()
    step_id = work.step(GATED)
    answer(ops, work, step_id, "approver")
    work.report(step_id)
    work.intend("wait", signal_type="step.approve" if approved else "step.deny")

    late, strange = (answer(ops, work, one, "bob", approved=approved) for one in (step_id, "another"))
    assert (late.status, late.body["details"]["by"], strange.status) == (409, "ops:approver", 400)
    assert work.status == "blocked"


def hints_of_agents(ops):
    return sum(mark.number for (kind, *_), mark in ops.desk.stage.door.hints.kept.items() if kind == "agent")


def test_a_token_of_the_kernel_door_with_the_same_name_is_somebody_else(ops):
    ops = KernelOps(desk=NamedDesk(("shop", "approver"), ""))
    work = ops.desk.work()
    step_id = work.step(GATED)
    answer(ops, work, step_id, "approver")

    with ops.desk.turned("approver"):
        refused = ops.desk.signal(work.id, "step.approve", payload={"step_id": step_id, "approved": True})
    assert (refused.status_code, refused.json()["details"]["by"]) == (409, "ops:approver")


@pytest.mark.parametrize(
    "body", [{}, {"approved": None}, {"approved": "yes"}, {"approved": 1}, {"approved": True, "x": 1}]
)
def test_an_answer_says_yes_or_no_and_nothing_else(ops, work, body):
    step_id = work.step(GATED)

    refused = ops.ask("approver", "POST", f"{KERNEL}/executions/{work.id}/approvals/{step_id}", body)

    assert (refused.status, refused.body["code"]) == (400, "bad_request")
    assert work.status == "blocked"


def test_an_operator_does_not_answer_about_steps_by_a_signal_either(ops, work):
    step_id = work.step(GATED)
    payload = {"step_id": step_id, "approved": True}

    for kind in ("step.approve", "approval"):
        refused = do(ops, work, "signal", signal_type=kind, payload=payload)

        assert (refused.status, refused.body["error"]) == (403, "this needs the role approver")
    assert work.status == "blocked"
    assert do(ops, work, "signal", "approver", signal_type="step.approve", payload=payload).status == 200


def test_an_ordinary_signal_is_for_clients_and_operators(ops, work):
    work.intend("wait", signal_type="go")

    assert do(ops, work, "signal", "approver", signal_type="go").status == 403
    assert do(ops, work, "signal", "operator", signal_type="go", payload={"n": 1}).status == 200
    assert work.status == "running"
    assert last(work, "signal.received")["by"] == "ops:operator"


def test_who_works_as_the_agent_does_not_answer_what_it_asks():
    desk = NamedDesk(("shop", "bob"), "bob=agent,shop=agent+client+viewer+approver")
    ops = KernelOps(desk=desk)
    with desk.turned("bob"):
        desk.stage.agent("triage", "two", "bob").close()
    work = desk.work()
    step_id = work.step(GATED)
    payload = {"step_id": step_id, "approved": True}

    for refused in (
        answer(ops, work, step_id, "bob"),
        do(ops, work, "signal", "bob", signal_type="step.approve", payload=payload),
    ):
        assert (refused.status, refused.body["code"]) == (403, "forbidden")
        assert "somebody else must answer" in refused.body["error"]
    assert work.status == "blocked"
    assert answer(ops, work, step_id, "approver").status == 200


def test_who_works_as_the_agent_does_not_answer_what_it_asks_while_he_answers(monkeypatch):
    desk = NamedDesk(("shop", "bob"), "bob=agent,shop=agent+client+viewer+approver")
    ops = KernelOps(roles="bob=approver+client", desk=desk)
    with desk.turned("bob"):
        desk.stage.agent("triage", "two", "bob").close()
    work, executions = desk.work(), desk.stage.door.executions
    read = executions.read

    def read_and_asked(*args, **named):
        found = read(*args, **named)
        monkeypatch.setattr(executions, "read", read)
        work.step(GATED)
        return found

    monkeypatch.setattr(executions, "read", read_and_asked)
    refused = do(ops, work, "signal", "bob", signal_type="approval", payload={"approved": True})

    assert (refused.status, work.status) == (403, "blocked")
    assert "somebody else must answer" in refused.body["error"]


def test_who_sends_an_agents_calls_without_connecting_does_not_answer_them_either():
    desk = NamedDesk(("shop", "bob"), "bob=agent,shop=agent+client+viewer+approver")
    ops = KernelOps(desk=desk)
    work = desk.work()
    with desk.turned("bob"):
        step_id = work.step(GATED)

    assert answer(ops, work, step_id, "bob").status == 403
    assert work.status == "blocked" and answer(ops, work, step_id, "approver").status == 200


def test_that_rule_is_none_where_no_name_has_roles():
    desk = NamedDesk(("bob",), "")
    ops = KernelOps(roles="", desk=desk)
    work = desk.work()

    assert answer(ops, work, work.step(GATED), "bob").status == 200


def test_an_agent_of_many_names_can_still_be_answered_here(ops):
    desk = NamedDesk(tuple(f"n{number}" for number in range(MOST_NAMES + 1)), "")
    ops = KernelOps(desk=desk)
    work = desk.work()
    for number in range(MOST_NAMES + 1):
        with desk.turned(f"n{number}"):
            work.step(idempotency_key=str(number))
    assert answer(ops, work, work.step(GATED)).status == 200


def create(ops, name="client", **body):
    return ops.ask(name, "POST", f"{KERNEL}/executions", {"agent_id": "shop", **body})


def test_a_repeat_with_its_key_gets_the_execution_that_the_first_request_created(ops):
    given = {"input": {"n": 12345678901234567890, "share": 1.0}, "labels": {"b": "2", "a": "1"}, "idempotency_key": "k"}
    first, second = create(ops, **given), create(ops, **given)

    assert (first.status, second.status) == (201, 201) and first.body["id"] == second.body["id"]
    assert len(ops.get(f"{KERNEL}/executions", agent_id="shop")["executions"]) == 1
    [event] = [one for one in ops.desk.events(first.body["id"]) if one["type"] == "execution.created"]
    assert event["by"] == "ops:client"


def test_keys_are_of_a_caller_and_of_one_request_alone(ops):
    first = create(ops, input={"n": 1}, idempotency_key="k").body["id"]

    assert create(ops, "operator", input={"n": 1}, idempotency_key="k").body["id"] != first
    assert (
        create(ops, input={"n": 1}).body["id"] != first
        and create(ops, input={"n": 1}, idempotency_key="").status == 201
    )
    for other in ({"input": {"n": 1.0}}, {"input": {"n": True}}, {}, {"input": {"n": 1}, "labels": {"a": "b"}}):
        answer = create(ops, idempotency_key="k", **other)
        assert (answer.status, answer.body["code"]) == (409, "conflict") and "this key" in answer.body["error"]
    assert create(ops, agent_id="other", input={"n": 1}, idempotency_key="k").status == 409
    for bad in (7, ["k"], "x" * 257):
        assert create(ops, idempotency_key=bad).status == 400


def test_a_key_goes_on_to_name_its_execution_after_its_end_and_after_it_was_forgotten(ops):
    made = create(ops, input="secret", idempotency_key="k").body["id"]
    path = f"{KERNEL}/executions/{made}"
    ops.ask("operator", "POST", f"{path}/cancel", {})
    assert create(ops, input="secret", idempotency_key="k").body["status"] == "cancelled"
    ops.ask("operator", "POST", f"{path}/forget", {"reason": "asked for"})

    again = create(ops, input="secret", idempotency_key="k")
    assert (again.status, again.body["id"], again.body["input"]) == (201, made, None)


def test_cancel_run_again_and_forget_carry_the_name(ops, work):
    ended = do(ops, work, "cancel")
    assert (ended.status, ended.body["status"]) == (200, "cancelled")
    assert last(work, "execution.cancelled")["by"] == "ops:operator"
    assert do(ops, work, "cancel").body["code"] == "conflict"

    first = do(ops, work, "again", "client", idempotency_key="k")
    second = do(ops, work, "again", "client", idempotency_key="k")
    assert (first.status, first.body["again_of"]) == (201, work.id)
    assert first.body["id"] == second.body["id"]
    assert ops.desk.events(first.body["id"])[0]["by"] == "ops:client"

    gone = do(ops, work, "forget", reason="asked to")
    assert (gone.status, gone.body["forgotten"]["by"], gone.body["forgotten"]["reason"]) == (
        200,
        "ops:operator",
        "asked to",
    )


def test_many_are_cancelled_once_their_count_is_confirmed(ops):
    ids = [ops.desk.create("desk") for _ in range(3)]
    path = f"{KERNEL}/executions/cancel"
    counted = ops.ask("operator", "POST", path, {"agent_id": "desk"}).body

    wrong = ops.ask("operator", "POST", path, {"agent_id": "desk", "confirm": 2})
    assert (wrong.status, wrong.body["details"]["count"]) == (409, 3)
    assert ops.ask("operator", "POST", path, {"agent_id": "desk", "confirm": 3, "cursor": counted["cursor"]}).body[
        "cancelled"
    ] == len(ids)
    assert {ops.desk.status(one) for one in ids} == {"cancelled"}
    for body in ({}, {"status": "completed"}, {"labels": {"a": 1}}, {"agent_id": "desk", "confirm": True}):
        assert ops.ask("operator", "POST", path, body).status == 400, body


@pytest.mark.parametrize(
    "text",
    [
        '{"labels": {"team": "a", "team": "b"}}',
        '{"labels": {"team": "a"}, "labels": {"team": "b"}}',
        '{"labels": {"team": "b", "t\\u0065am": "b"}, "confirm": 1}',
        '{"agent_id": "other", "agent_id": "desk"}',
    ],
)
def test_nobody_is_cancelled_by_a_filter_that_says_two_things(ops, text):
    made = ops.desk.create("desk", labels={"team": "b"})

    refused = ops.ask("operator", "POST", f"{KERNEL}/executions/cancel", text)
    assert (refused.status, refused.body["code"]) == (400, "bad_request")
    assert "more than once" in refused.body["error"] and ops.desk.status(made) == "pending"


def test_a_new_execution_keeps_its_input_to_the_digit(ops):
    text = '{"agent_id": "desk", "input": {"n": 12345678901234567890123}, "labels": {"team": "b"}}'

    made = ops.ask("client", "POST", f"{KERNEL}/executions", text)

    assert (made.status, made.body["input"], made.body["labels"]) == (
        201,
        {"n": 12345678901234567890123},
        {"team": "b"},
    )
    assert ops.desk.events(made.body["id"])[0]["by"] == "ops:client"


def test_an_agent_is_paused_and_resumed_with_a_reason(ops):
    path, body = f"{KERNEL}/agents/pause", {"agent_id": "desk/éà", "reason": "it spends too much"}

    paused = ops.ask("operator", "POST", path, body).body
    assert (paused["agent_id"], paused["pause"]["by"]) == ("desk/éà", "ops:operator")
    refused = ops.ask("client", "POST", f"{KERNEL}/executions", {"agent_id": "desk/éà"})
    assert (refused.status, refused.body["code"], refused.headers["Retry-After"]) == (503, "unavailable", "30")
    resumed = ops.ask("operator", "POST", f"{KERNEL}/agents/resume", body).body
    assert resumed["pause"]["resumed_by"] == "ops:operator"
    for wrong in (
        {"agent_id": "desk"},
        {"reason": "x"},
        {"agent_id": "x" * 257, "reason": "x"},
        {**body, "reason": " "},
    ):
        assert ops.ask("operator", "POST", path, wrong).status == 400, wrong


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("{", 400, "bad_request"),
        ("[]", 400, "bad_request"),
        ('{"agent_id":"\\ud800"}', 400, "bad_request"),
        ("[" * 200, 400, "bad_request"),
        ('{"agent_id":"x","input":"' + "y" * 1_048_576 + '"}', 413, "too_large"),
        ('{"agent_id":"' + "é" * 129 + '"}', 400, "bad_request"),
        ('{"agent_id":["x"]}', 400, "bad_request"),
        ('{"agent_id":"x","labels":{"a":1}}', 400, "bad_request"),
        ('{"agent_id":"x","unknown":1}', 400, "bad_request"),
        ("", 400, "bad_request"),
    ],
)
def test_a_hostile_body_is_refused_in_the_doors_own_shape(ops, text, status, code):
    answer = ops.ask("client", "POST", f"{KERNEL}/executions", text)

    assert (answer.status, answer.body["code"]) == (status, code)


def test_a_body_must_be_declared_as_json_even_where_it_is_empty(ops, work):
    """A page of another site can post a form unasked, but not this."""
    from piecework.ops.kernel_routes import ONE
    from tests.support.ops.requests import an_event
    from tests.support.runtime.runtime_handlers import Context

    event = an_event(ONE.format(execution_id=work.id) + "/cancel", method="POST", token="secret-of-operator")

    assert ops.writing.handler(event, Context())["statusCode"] == 415
    assert work.status == "running"


def test_what_was_never_there_is_404(ops):
    for verb, body in (("cancel", {}), ("again", {}), ("forget", {"reason": "x"}), ("signal", {"signal_type": "go"})):
        answer = ops.ask("operator", "POST", f"{KERNEL}/executions/nope/{verb}", body)

        assert (answer.status, answer.body["code"]) == (404, "not_found")
    assert ops.ask("approver", "POST", f"{KERNEL}/executions/nope/approvals/x", {"approved": True}).status == 404
