"""Kernel specification sections 1.5 and 2.10 and their amendments: people's answers, and who may end a step."""

import json

import pytest

from tests.support.kernel.desk import GATED, Desk, Work

pytestmark = [pytest.mark.usefixtures("stored"), pytest.mark.needs("POLICY")]

TOKENS = (("mia", "secret of mia"), ("ben", "secret of ben"))
SECRETS = dict(TOKENS)


class Signed(Desk):
    """A door with tokens; whoever says nothing is mia."""

    def __init__(self) -> None:
        super().__init__(tokens=TOKENS)
        self.caller = "mia"

    def get(self, path, **query):
        return self.client.get(path, params=query, headers=self._headers())

    def post(self, path, body=None, **named):
        return self.client.post(path, json=body, headers=self._headers(), **named)

    def _headers(self):
        return {"Authorization": f"Bearer {SECRETS[self.caller]}"}


def say(work: Work, step, approved=True, kind="step.approve", by="mia", **more):
    """Answer about a step; `step` None leaves it open which, `approved` None leaves it open what."""
    payload = {"step_id": step, "approved": approved, **more}
    if isinstance(work.desk, Signed):
        work.desk.caller = by
    answer = work.desk.signal(work.id, kind, payload={name: said for name, said in payload.items() if said is not None})
    if isinstance(work.desk, Signed):
        work.desk.caller = "mia"
    return answer


@pytest.mark.parametrize("stale", ["approval", "step.approve"])
def test_a_click_delivered_twice_does_not_answer_the_next_question(desk, stale):
    work = desk.work()
    first = work.step(GATED)
    assert desk.signal(work.id, "approval", payload={"approved": True}).status_code == 200
    work.report(first)
    second = work.step(GATED)
    before = work.types

    again = desk.signal(work.id, stale, payload={"approved": True})

    assert again.status_code == 400, again.text
    assert "step_id is required" in again.json()["error"]
    assert work.types == before and work.status == "blocked"
    assert say(work, second, kind="approval").status_code == 200
    assert work.status == "running"


def test_a_click_that_comes_between_two_questions_is_not_kept_for_a_later_wait(desk):
    work = desk.work()
    step = work.step(GATED)
    assert say(work, None, kind="approval").status_code == 200
    work.report(step)

    late = say(work, None, kind="approval")

    assert late.status_code == 400
    work.intend("wait", signal_type="approval")
    assert work.status == "blocked"


@pytest.mark.inside("needs credentials of two callers")
@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True)])
def test_the_second_of_two_opposite_answers_is_told_what_stands(first, then):
    work = Signed().work()
    step = work.step(GATED)
    assert say(work, step, first, by="mia").json() == {"status": "ok"}
    before = work.types

    other = say(work, step, then, by="ben")

    assert (other.status_code, other.json()["code"]) == (409, "CONFLICT")
    assert ("granted" if first else "denied") in other.json()["error"] and "mia" in other.json()["error"]
    details = other.json()["details"]
    assert (details["step_id"], details["approved"], details["by"]) == (step, first, "mia")
    assert details["at"].endswith("Z")
    assert work.types == before


@pytest.mark.inside("needs credentials of two callers")
@pytest.mark.parametrize("approved", [True, False])
def test_the_same_caller_may_repeat_an_answer_whose_reply_was_lost(approved):
    work = Signed().work()
    step = work.step(GATED)
    say(work, step, approved)
    before = work.types

    again = say(work, step, approved)

    assert (again.status_code, again.json()) == (200, {"status": "ok", "already": True})
    assert say(work, step, approved, by="ben").status_code == 409
    assert work.types == before
    if approved:
        work.report(step)
    work.intend("complete")
    assert say(work, step, approved).json() == {"status": "ok", "already": True}
    assert say(work, step, not approved).status_code == 409


@pytest.mark.inside("starts a door without tokens")
def test_where_no_tokens_tell_callers_apart_a_repeated_answer_counts_as_the_same_callers(desk):
    work = desk.work()
    step = work.step(GATED)
    say(work, step)

    assert say(work, step).json() == {"status": "ok", "already": True}
    other = say(work, step, False)
    assert (other.status_code, other.json()["details"]["by"]) == (409, None)


@pytest.mark.parametrize("kind", ["step.approve", "step.deny", "approval"])
@pytest.mark.parametrize("place", ["pending", "running", "waits for a signal", "waits for a person", "ended"])
def test_an_answer_about_a_step_that_does_not_exist_is_refused_and_logs_nothing(desk, kind, place):
    work = desk.work()
    if place == "pending":
        work.id = desk.create("nobody")
    elif place == "waits for a signal":
        work.intend("wait", signal_type="go")
    elif place == "waits for a person":
        work.step(GATED)
    elif place == "ended":
        work.intend("complete")
    before = work.types

    answer = say(work, "made-up", None if kind == "step.deny" else True, kind=kind)

    assert answer.status_code == (409 if place == "ended" else 400), answer.text
    assert work.types == before


def test_an_answer_about_a_step_that_nobody_was_asked_about_is_refused(desk):
    work = desk.work()
    step = work.step()

    assert say(work, step).status_code == 400
    work.report(step)
    assert say(work, step, False).status_code == 400
    assert desk.signal(work.id, "step.approve", payload={"approved": True}).status_code == 400


def test_an_answer_about_a_step_that_was_cancelled_unanswered_is_409(desk):
    work = desk.work()
    step = work.step(GATED)
    work.agent.close()
    desk.stage.pass_time(40)
    assert "execution.reset" in work.types
    before = work.types

    late = say(work, step)

    assert (late.status_code, late.json()["code"]) == (409, "CONFLICT")
    assert work.types == before


def test_step_deny_says_no(desk):
    work = desk.work()
    step = work.step(GATED)
    assert say(work, step, True, kind="step.deny").status_code == 400

    assert say(work, step, None, kind="step.deny", reason="too much").status_code == 200

    assert work.types[-3:] == ["signal.received", "step.failed", "execution.resumed"]
    assert desk.events(work.id)[-2]["payload"]["error"] == "too much"
    assert [told["approved"] for told in work.heard("approval.resolved")] == [False]


def test_an_agent_that_waits_for_an_approval_signal_by_its_type_gets_it(desk):
    work = desk.work()
    step = work.step(GATED)
    say(work, step)
    work.report(step)

    for kind in ("approval", "step.approve", "step.deny"):
        work.intend("wait", signal_type=kind)
        assert desk.signal(work.id, kind, payload={"approved": True}).status_code == 200
        assert desk.events(work.id)[-1]["payload"] == {"reason": f"signal received: {kind}"}


@pytest.mark.parametrize("runner", ["none", "idle", "at work"])
def test_only_a_runner_ends_a_remote_step(desk, runner):
    line = desk.stage.runner() if runner != "none" else None
    work = desk.work()
    step = work.remote()
    if line and runner == "at work":
        work.started(step)
    before = work.types

    forged = work.report(step, data={"forged": True})

    assert (forged.status_code, forged.json()["code"]) == (409, "CONFLICT"), forged.text
    assert work.types == before
    line = line or desk.stage.runner()
    assert work.result(line.take("job.assigned"), data={"city": "Zürich"}).status_code == 200
    assert desk.events(work.id)[-1]["payload"] == {"result": {"city": "Zürich"}}


def test_what_others_read_does_not_open_a_session(desk):
    work = desk.work()
    work.intend("wait", signal_type="go")
    work.agent.close()
    desk.stage.pass_time(3)
    stranger = desk.stage.monitor(work.id)
    stranger.look()
    pages = [
        desk.get(f"/v0/executions/{work.id}/events").text,
        desk.get(f"/v0/executions/{work.id}").text,
        desk.get("/v0/executions").text,
        desk.get("/v0/approvals").text,
        desk.get("/metrics").text,
        json.dumps(stranger.seen),
    ]

    assert [page for page in pages if work.session_id in page] == []
    told = {kind: data["payload"] for kind, data in stranger.seen}
    name = told["execution.started"]["session_id"]
    assert told["agent.timeout"] == {"session_id": name}  # the same session is still told from others
    again = Work(desk, desk.agent(consumer_id="two"), {"execution_id": work.id, "session_id": name})
    assert again.intend("complete").status_code == 401
    assert again.report("any").status_code == 401
