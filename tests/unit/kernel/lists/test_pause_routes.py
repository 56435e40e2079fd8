"""POST /v0/agents/{agent_id}/pause and /resume as their callers see them."""

import pytest

from piecework.edge.roles import parse_roles
from piecework.kernel.clocks import rfc3339
from tests.support.fakes import START_MS
from tests.support.kernel.desk import Desk

TOKENS = (("mia", "m" * 32), ("ada", "a" * 32))


@pytest.fixture
def desk():
    made = Desk(tokens=TOKENS, roles=lambda: parse_roles("mia=operator+client,ada=client"))
    vars(made.stage.door)["hosted_names"] = frozenset()
    return made


def bearer(name):
    return {"authorization": f"Bearer {dict(TOKENS)[name]}"}


def told(desk, verb, body, name="mia", agent_id="triage"):
    return desk.post(f"/v0/agents/{agent_id}/{verb}", body, headers=bearer(name))


def create(desk, agent_id="triage"):
    return desk.post("/v0/executions", {"agent_id": agent_id}, headers=bearer("ada"))


def test_an_agent_is_paused_and_resumed_and_the_list_says_who_when_and_why(desk):
    paused = told(desk, "pause", {"reason": "it refunds twice"})
    desk.stage.clock.move(60)

    assert (paused.status_code, paused.json()["agent_id"]) == (200, "triage")
    begun = {"at": rfc3339(START_MS), "by": "mia", "reason": "it refunds twice"}
    still = {"resumed_at": None, "resumed_by": None, "resumed_reason": None}
    assert paused.json()["pause"] == begun | still
    assert told(desk, "pause", {"reason": "once more"}).json()["pause"] == begun | still
    [triage] = desk.client.get("/v0/agents", headers=bearer("ada")).json()["agents"]
    assert triage["pause"] == begun | still

    ended = {"resumed_at": rfc3339(START_MS + 60_000), "resumed_by": "mia", "resumed_reason": "mended"}
    assert told(desk, "resume", {"reason": "mended"}).json() == {"agent_id": "triage", "pause": begun | ended}
    [triage] = desk.client.get("/v0/agents", headers=bearer("ada")).json()["agents"]
    assert triage["pause"] == begun | ended


def test_a_create_for_a_paused_agent_is_503_and_says_when_to_come_again(desk):
    told(desk, "pause", {"reason": "it refunds twice"})

    refused = create(desk)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert refused.json()["code"] == "SERVICE_UNAVAILABLE"
    assert "triage is paused" in refused.json()["error"] and "twice" not in refused.json()["error"]
    assert create(desk, "another").status_code == 201
    told(desk, "resume", {"reason": "mended"})
    assert create(desk).status_code == 201


def test_an_ended_execution_is_not_run_again_for_a_paused_agent(desk):
    execution = create(desk).json()["id"]
    desk.post(f"/v0/executions/{execution}/cancel", headers=bearer("ada"))
    told(desk, "pause", {"reason": "it refunds twice"})

    again = desk.post(f"/v0/executions/{execution}/again", {}, headers=bearer("ada"))

    assert (again.status_code, again.headers["retry-after"]) == (503, "30")


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    "body", [None, {}, {"reason": ""}, {"reason": " "}, {"reason": None}, {"reason": 7}, {"reason": "x" * 501}]
)
def test_a_reason_is_needed_and_bounded(desk, verb, body):
    refused = told(desk, verb, body)

    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert create(desk).status_code == 201


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_id_is_bounded_and_the_longest_reason_is_taken(desk, verb):
    assert told(desk, verb, {"reason": "x"}, agent_id="a" * 257).status_code == 400
    assert told(desk, verb, {"reason": "é" * 500}, agent_id="a" * 256).status_code == 200


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_only_operators_pause(desk, verb):
    refused = told(desk, verb, {"reason": "x"}, name="ada")

    assert (refused.status_code, refused.json()["error"]) == (403, "this needs the role operator")


def test_an_agent_that_was_never_paused_is_resumed_to_no_effect(desk):
    assert told(desk, "resume", {"reason": "x"}).json() == {"agent_id": "triage", "pause": None}
