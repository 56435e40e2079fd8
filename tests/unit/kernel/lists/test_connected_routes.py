"""GET /v0/agents and /v0/runners as their callers see them."""

import base64

import pytest

from piecework.kernel.clocks import rfc3339
from tests.support.fakes import START_MS
from tests.support.kernel.desk import Desk


@pytest.fixture
def desk():
    made = Desk()
    vars(made.stage.door)["hosted_names"] = frozenset()  # those of the samples
    return made


def at(desk, seconds):
    return rfc3339(START_MS + round(seconds * 1000))


def test_an_agent_shows_its_consumers_their_work_and_how_many_executions_wait(desk):
    desk.create("refunds")
    one = desk.agent("triage", "one")
    execution = desk.create("triage")
    one.close()
    desk.agent("triage", "two")

    answer = desk.get("/v0/agents")

    assert answer.status_code == 200
    work, none = {"executions": [execution], "more_executions": False}, {"executions": [], "more_executions": False}
    lease = desk.stage.settings.lease_ms / 1000
    grace = {"lease_until": answer.json()["agents"][0]["consumers"][0]["lease_until"]}
    assert answer.json() == {
        "agents": [
            {
                "agent_id": "triage",
                "consumers": [
                    {"consumer_id": "one", "connected": False, "since": at(desk, 0), **grace, **work},
                    {
                        "consumer_id": "two",
                        "connected": True,
                        "since": at(desk, 0),
                        "lease_until": at(desk, lease),
                        **none,
                    },
                ],
                "more_consumers": False,
                "waiting": 0,
                "more_waiting": False,
                "hosted": None,
                "pause": None,
            }
        ],
        "next_cursor": "",
    }
    assert at(desk, 0) < grace["lease_until"]


def test_an_agent_that_has_left_is_still_listed_with_what_waits_for_it(desk):
    desk.agent("triage").close()
    desk.stage.pass_time(30)
    for _ in range(2):
        desk.create("triage")

    [triage] = desk.get("/v0/agents").json()["agents"]

    assert (triage["consumers"], triage["waiting"], triage["more_waiting"]) == ([], 2, False)


def test_a_runner_shows_the_job_in_its_hand_and_what_it_offers(desk):
    offered = [f"geo.n{number:02d}" for number in range(26)]
    desk.stage.runner("geo-1", "one", ",".join(offered[::-1]))
    work = desk.work("triage")
    step_id = work.step("geo.n07", remote=True)

    answer = desk.get("/v0/runners").json()

    [geo] = answer["runners"]
    [connection] = geo["connections"]
    job = connection.pop("job")
    assert (geo["runner_id"], geo["more_connections"], answer["next_cursor"]) == ("geo-1", False, "")
    assert job.pop("id")
    assert job == {"execution_id": work.id, "step_id": step_id, "tool_id": "geo.n07"}
    assert connection == {
        "consumer_id": "one",
        "connected": True,
        "since": at(desk, 0),
        "lease_until": at(desk, desk.stage.settings.lease_ms / 1000),
        "tools": offered[:25],
        "more_tools": True,
    }


def test_a_job_whose_execution_has_moved_on_is_shown_without_its_step(desk):
    desk.stage.runner("geo-1", "one", "geo.lookup")
    work = desk.work("triage")
    work.step("geo.lookup", remote=True)
    desk.stage.store.kept.pop(work.id)  # as by its retention

    [geo] = desk.get("/v0/runners").json()["runners"]

    assert (geo["connections"][0]["job"]["step_id"], geo["connections"][0]["job"]["tool_id"]) == (None, None)


@pytest.mark.parametrize("path", ["agents", "runners"])
def test_pages_follow_their_cursor(desk, path):
    for name in ("c", "a", "b"):
        desk.agent(name) if path == "agents" else desk.stage.runner(name)
    member = "agent_id" if path == "agents" else "runner_id"

    first = desk.get(f"/v0/{path}", limit=2).json()
    second = desk.get(f"/v0/{path}", limit=2, cursor=first["next_cursor"]).json()

    assert [[one[member] for one in page[path]] for page in (first, second)] == [["a", "b"], ["c"]]
    assert first["next_cursor"] and second["next_cursor"] == ""


@pytest.mark.parametrize("path", ["agents", "runners"])
@pytest.mark.parametrize("limit", ["0", "-1", "x", "51", "9" * 400])
def test_a_limit_is_bounded(desk, path, limit):
    for number in range(52):
        desk.agent(f"n{number:02d}") if path == "agents" else desk.stage.runner(f"n{number:02d}")

    page = desk.get(f"/v0/{path}", limit=limit).json()

    assert len(page[path]) == (50 if limit in ("51", "9" * 400) else 20)


@pytest.mark.parametrize("path", ["agents", "runners"])
@pytest.mark.parametrize(
    "cursor", ["?", "ä", "x", "////", base64.urlsafe_b64encode(b"a b").decode(), base64.b64encode(b"\xff").decode()]
)
def test_a_cursor_that_this_door_did_not_give_is_refused(desk, path, cursor):
    refused = desk.get(f"/v0/{path}", cursor=cursor)

    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
