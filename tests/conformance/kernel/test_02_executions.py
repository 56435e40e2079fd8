"""Kernel specification section 11, cases 8 to 18: executions."""

import re

import pytest

ZERO_TIME = "0001-01-01T00:00:00Z"
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z")


pytestmark = pytest.mark.usefixtures("stored")


def test_create_requires_agent(desk):
    for body in ({}, {"agent_id": ""}, None, {"agent_id": "a" * 257}, {"agent_id": "é" * 129}, {"agent_id": None}):
        answer = desk.post("/v0/executions", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), body
    assert desk.post("/v0/executions", {"agent_id": "a" * 256}).status_code == 201
    assert desk.post("/v0/executions", {"agent_id": "é" * 128}).status_code == 201


def test_create_roundtrip(desk):
    for given in (
        {"ticket": 91, "deep": {"list": [1, 2.5, None, True]}},
        [1, "two", None],
        "text \u2028 ü 😀",
        None,
        9_223_372_036_854_775_807,
        {"min": -9_223_372_036_854_775_808, "max": 18_446_744_073_709_551_615},
        0,
        False,
    ):
        answer = desk.post("/v0/executions", {"agent_id": "a", "input": given}).json()
        assert answer["input"] == given
        assert desk.show(answer["id"]) == answer
        assert (answer["status"], answer["output"], answer["labels"]) == ("pending", None, {})
        assert RFC3339.fullmatch(answer["created_at"]) and answer["created_at"] == answer["updated_at"] != ZERO_TIME
    absent = desk.show(desk.create())
    assert absent["input"] is None
    members = {"id", "status", "agent_id", "labels", "input", "output", "created_at", "updated_at"}
    assert set(absent) == members | {"error", "waiting_for", "again_of", "forgotten"}


def test_create_labels_type(desk):
    for labels in ({"x": 1}, {"x": None}, {"x": ["y"]}, "x", ["x"]):
        assert desk.post("/v0/executions", {"agent_id": "a", "labels": labels}).status_code == 400, labels
    execution = desk.create()
    assert desk.show(execution)["labels"] == {}
    assert desk.get("/v0/executions", agent_id=desk.named("triage")).json()["executions"][0]["labels"] == {}
    assert desk.show(desk.create(labels={"env": "qa"}))["labels"] == {"env": "qa"}


def test_create_assigns(desk):
    agent = desk.agent()

    given = {"agent_id": desk.named("triage"), "input": {"n": 1}, "labels": {"env": "qa"}}
    answer = desk.post("/v0/executions", given).json()

    assigned = agent.take("execution.assigned")
    assert len(assigned.pop("session_id")) == 36
    assert assigned == {
        "execution_id": answer["id"],
        "agent_id": desk.named("triage"),
        "input": {"n": 1},
        "labels": {"env": "qa"},
    }
    assert answer["status"] == desk.status(answer["id"]) == "running"


def test_list_order_and_pages(desk):
    made = [desk.create() for _ in range(5)]
    pages, cursor = [], ""
    for _ in range(3):
        page = desk.get("/v0/executions", agent_id=desk.named("triage"), limit=2, cursor=cursor).json()
        pages.append([row["id"] for row in page["executions"]])
        cursor = page["next_cursor"]

    found = [execution for page in pages for execution in page]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(found) == sorted(made) and len(set(found)) == 5
    created = [(desk.show(execution)["created_at"], execution) for execution in found]
    assert created == sorted(created, reverse=True)
    assert cursor == ""
    for _ in range(2):
        desk.stage.pass_time(1)
        newest = desk.create()
        assert (
            desk.get("/v0/executions", agent_id=desk.named("triage"), limit=1).json()["executions"][0]["id"] == newest
        )


def test_list_filters(desk):
    def listed(**query) -> list[str]:
        return [row["id"] for row in desk.get("/v0/executions", **query).json()["executions"]]

    one, red, blue = desk.named("one"), desk.named("red"), desk.named("blue")
    wanted = desk.create("one", labels={"env": "qa", "team": red})
    other = desk.create("one", labels={"env": "qa", "team": blue})
    desk.create("two", labels={"env": "qa", "team": red})
    assert listed(agent_id=one, label=["env:qa", f"team:{red}"], status="pending") == [wanted]
    assert set(listed(agent_id=one, label="env:qa")) == {wanted, other}
    assert listed(label=[f"team:{red}", f"team:{blue}"]) == [other]
    assert listed(agent_id=one, status="running") == listed(agent_id=one[:-2]) == []
    for query in ({"status": "done"}, {"label": "kv"}, {"label": ":v"}):
        assert desk.get("/v0/executions", **query).status_code == 400, query
    for _ in range(203):
        desk.create("many")
    for limit, most in ((0, 50), ("abc", 50), (-3, 50), (999, 200), (7, 7)):
        assert len(listed(agent_id=desk.named("many"), limit=limit)) == most
    assert set(desk.get("/v0/executions", agent_id=desk.named("nobody")).json()) == {"executions", "next_cursor"}
    row = desk.get("/v0/executions", limit=1).json()["executions"][0]
    assert set(row) == {"id", "status", "agent_id", "labels", "created_at", "updated_at"}


def test_list_bad_cursor(desk):
    for cursor in ("garbage", "MTIz", "%%%", "fA", "é"):
        answer = desk.get("/v0/executions", cursor=cursor)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), cursor


def test_get_unknown(desk):
    for name in ("nobody", "x" * 3_000, "0197b0c4-0000-7000-8000-000000000000"):
        for answer in (desk.get(f"/v0/executions/{name}"), desk.cancel(name), desk.signal(name)):
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    assert desk.get("/v0/executions/nobody").status_code == 404
    assert not {row["id"] for row in desk.get("/v0/executions").json()["executions"]} & {"nobody", "x" * 3_000}
    assert desk.get("/v0/executions/nobody/events").json() == {"events": [], "latest_sequence": 0}


def test_cancel_twice(desk):
    execution = desk.create()

    first = desk.cancel(execution)
    assert (first.status_code, first.json()["status"]) == (200, "cancelled")
    again = desk.cancel(execution)
    assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")
    assert desk.types(execution).count("execution.cancelled") == 1


def test_cancel_pending_no_agent(desk):
    execution = desk.create()
    desk.cancel(execution)

    assert desk.types(execution) == ["execution.created", "execution.cancelled"]
    agent = desk.agent()
    desk.stage.pass_time(5)
    assert agent.seen == []


def test_cancel_running_with_steps(desk):
    runner, work = desk.stage.runner(), desk.work()
    work.step()
    work.remote()
    job = runner.take("job.assigned")

    desk.cancel(work.id)

    assert work.types[-3:] == ["step.cancelled", "step.cancelled", "execution.cancelled"]
    assert desk.events(work.id)[-1]["payload"] == {"reason": "cancelled by request"}
    assert desk.events(work.id)[-2]["payload"] == {"reason": "execution cancelled"}
    [told] = work.heard("execution.cancelled")
    assert told == {"execution_id": work.id, "session_id": work.session_id, "reason": "cancelled by request"}
    other = desk.work()
    waiting = other.remote()
    assert work.result(job).status_code == 409
    desk.stage.pass_time(1)
    assert runner.of("job.assigned")[-1]["step_id"] == waiting
