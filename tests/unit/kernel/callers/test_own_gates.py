"""A token that works as an agent does not answer what that agent asks, whatever other roles it has."""

import asyncio
from contextlib import suppress

import pytest

from piecework.kernel.settings import MOST_NAMES
from tests.support.kernel.desk import GATED, NamedDesk
from tests.support.kernel.functions import streams_function
from tests.support.kernel.hints import FakeHints

NAMES = ("desk", "twin", "other", "ada", "shop")
EVERYTHING = "client+agent+runner+approver+viewer+operator"
ROLES = f"desk={EVERYTHING},twin={EVERYTHING},other={EVERYTHING},ada=approver+viewer,shop=client"


@pytest.fixture
def desk():
    return NamedDesk(NAMES, ROLES)


def answered(work, step_id, name, approved=True, kind="step.approve"):
    """The reply to an answer by the token of a name."""
    with work.desk.turned(name):
        return work.desk.signal(work.id, kind, payload={"step_id": step_id, "approved": approved})


@pytest.mark.parametrize(("kind", "approved"), [("step.approve", True), ("step.approve", False), ("step.deny", False)])
def test_the_token_that_asked_cannot_answer_and_is_told_why(desk, kind, approved):
    work = desk.work()
    step_id = work.step(GATED)

    refused = answered(work, step_id, "desk", approved, kind)

    assert (refused.status_code, refused.json()) == (
        403,
        {
            "error": "the token desk works as the agent triage, which asks; somebody else must answer",
            "code": "FORBIDDEN",
            "details": None,
        },
    )
    assert work.status == "blocked"
    assert answered(work, step_id, "ada").status_code == 200
    assert answered(work, step_id, "desk").status_code == 403  # nor when it is too late


def test_the_alias_of_an_answer_is_one_too(desk):
    work = desk.work()
    work.step(GATED)

    assert desk.signal(work.id, "approval", payload={"approved": True}).status_code == 403


def test_a_token_by_which_the_agent_has_connected_cannot_answer_either(desk):
    desk.stage.agent("triage", "two", "twin").close()
    desk.stage.pass_time(60)  # its consumer is forgotten
    work = desk.work()
    step_id = work.step(GATED)

    assert desk.stage.store.agents.find("triage", "two") is None
    assert answered(work, step_id, "twin").status_code == 403
    assert answered(work, step_id, "other").status_code == 200


@pytest.mark.parametrize(
    "intent",
    [
        {"kind": "wait", "signal_type": "go"},
        {"kind": "invoke_tool", "tool_id": "rm.x"},
        {"kind": "invoke_tool", "tool_id": GATED},
    ],
)
def test_a_token_by_which_an_intent_came_cannot_answer_either(desk, intent):
    work = desk.work()
    desk.signal(work.id, "go")
    with desk.turned("twin"):
        answer = work.intend(**intent).json()
    step_id = answer["step_id"] if answer.get("pending_approval") else work.step(GATED)

    assert answered(work, step_id, "twin").status_code == 403
    assert answered(work, step_id, "other").status_code == 200


@pytest.mark.parametrize("success", [True, False])
def test_a_token_by_which_a_result_of_a_local_step_came_cannot_answer_either(desk, success):
    work = desk.work()
    reported = work.step()
    with desk.turned("twin"):
        assert work.report(reported, success).status_code == 200
    step_id = work.step(GATED)

    assert answered(work, step_id, "twin").status_code == 403
    assert answered(work, step_id, "other").status_code == 200


def test_who_denies_a_call_or_reports_a_job_does_not_work_as_the_agent(desk):
    runner = desk.stage.runner("geo-1", "one", "geo.lookup")
    work = desk.work()
    assert answered(work, work.step(GATED), "other", approved=False).status_code == 200
    work.remote()
    with desk.turned("twin"):
        assert work.result(runner.take("job.assigned")).status_code == 200

    assert desk.state(work.id).worked_by == ("desk",)
    assert answered(work, work.step(GATED), "other").status_code == 200


def test_an_agent_of_another_name_may_answer(desk):
    with desk.turned("other"):
        desk.agent("mail")
    work = desk.work()

    assert answered(work, work.step(GATED), "other").status_code == 200


def test_other_signals_of_an_agents_token_are_not_answers(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")

    assert desk.signal(work.id, "go").status_code == 200


def test_a_signal_that_the_agent_waits_for_by_the_name_of_an_answer_is_not_one(desk):
    work = desk.work()
    work.intend("wait", signal_type="step.approve")

    assert desk.signal(work.id, "step.approve", payload={"approved": True}).status_code == 200


def test_without_roles_the_one_token_can_approve():
    desk = NamedDesk(("only",))
    work = desk.work()

    assert answered(work, work.step(GATED), "only").status_code == 200


def test_an_agent_with_more_names_than_are_kept_is_answered_by_no_agents_token():
    names = [f"n{number:02d}" for number in range(MOST_NAMES + 1)]
    desk = NamedDesk([*names, "ada", "far"], f"ada=approver,{','.join(f'{n}={EVERYTHING}' for n in [*names, 'far'])}")
    work = desk.work()
    for name in names:
        with desk.turned(name):
            work.call("rm.x")
    step_id = work.step(GATED)

    assert desk.state(work.id).worked_by == tuple(names[:MOST_NAMES])
    assert answered(work, step_id, names[-1]).status_code == 403
    assert answered(work, step_id, "far").status_code == 403
    assert answered(work, step_id, "ada").status_code == 200


def test_names_are_asked_for_by_answers_of_agents_tokens_alone(desk, monkeypatch):
    agents, asked = type(desk.stage.store.agents), []
    monkeypatch.setattr(agents, "has_served", lambda _self, agent_id, name: bool(asked.append((agent_id, name))))
    work = desk.work()
    work.report(work.step())
    desk.signal(work.id, "go")
    step_id = work.step(GATED)
    assert answered(work, step_id, "ada").status_code == 200
    assert asked == []

    work.report(step_id)
    assert answered(work, work.step(GATED), "other").status_code == 200
    assert asked == [("triage", "other")]


def test_the_streams_function_keeps_the_name_of_the_token_that_connects(desk):
    async def opened_and_left(app):
        async def left():
            return {"type": "http.disconnect"}

        async def sent(message):
            pass

        headers = [(b"authorization", b"Bearer secret of twin")]
        query = b"agent_id=triage&consumer_id=two"
        scope = {"type": "http", "method": "GET", "path": "/v0/agents/stream", "query_string": query}
        with suppress(asyncio.CancelledError):
            await app({**scope, "headers": headers}, left, sent)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    door = desk.door
    with streams_function(desk.stage, FakeHints(), tokens=door.tokens, roles=door.roles()) as streams:
        asyncio.run(opened_and_left(streams.app))

    assert desk.stage.store.agents.has_served("triage", "twin")
    assert not desk.stage.store.agents.has_served("triage", "desk")
