"""The kernel door of this release lists, shows and acts on what release 7a1e751 has stored, and invents nothing."""

import json

import pytest

from tests.support.fakes import FakeClock
from tests.support.kernel.stored import WRITTEN_MS
from tests.support.stored.doors import kernel_door
from tests.support.stored.stack import new_stack, stored

OLD = stored("kernel")
IDS = {name: one["execution_id"] for name, one in OLD.items()}
NEWEST_FIRST = [
    "ended",
    "many",
    "granted",
    "asked_twice",
    "asked",
    "failed",
    "signal",
    "pending",
]  # all of one millisecond: by their ids
OPEN = ["many", "granted", "asked_twice", "asked", "signal", "pending"]
AT, LATER = "2025-06-15T15:06:40.000Z", "2025-06-15T15:06:41.000Z"
PRIVATE_WORDS = (
    "vpn",
    "ticket",
    "boom",
    "paid",
    "too much",
    "mia",
    "the card",
)  # of inputs, arguments, results and signals


@pytest.fixture(scope="module")
def unchanged(embedded_aws):
    return new_stack(embedded_aws)


@pytest.fixture
def door(unchanged):
    """A door that is only read from."""
    with kernel_door(unchanged, FakeClock(WRITTEN_MS + 1_000)) as asking:
        yield asking


@pytest.fixture
def stack(embedded_aws):
    return new_stack(embedded_aws)


@pytest.fixture
def acting(stack):
    """A door over rows of the test's own."""
    with kernel_door(stack, FakeClock(WRITTEN_MS + 1_000)) as asking:
        yield asking


def names(answer):
    assert answer.status == 200, answer
    known = {one: name for name, one in IDS.items()}
    return [known[row["id"]] for row in answer.body["executions"]]


def path(name, *more):
    return "/".join(("/v0/executions", IDS[name], *more))


def old_events(name):
    rows = [row for row in OLD[name]["kernel"] if row["sk"]["S"].startswith("EV#")]
    return [event for row in rows for event in json.loads(row["body"]["S"])]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, NEWEST_FIRST),
        ({"status": "blocked"}, ["asked_twice", "asked", "signal"]),
        ({"status": "running"}, ["many", "granted"]),
        ({"status": "completed"}, ["ended"]),
        ({"status": "pending"}, ["pending"]),
        ({"status": "failed"}, ["failed"]),
        ({"status": "cancelled"}, []),
        ({"agent_id": "triage"}, NEWEST_FIRST[:-1]),
        ({"agent_id": "refund-desk"}, ["pending"]),
        ({"agent_id": "nobody"}, []),
        ({"label": "env:qa"}, NEWEST_FIRST),
        ({"label": "env:prod"}, []),
        ({"created_after": AT}, NEWEST_FIRST),
        ({"created_after": "2025-06-15T15:06:40.001Z"}, []),
        ({"created_before": AT}, []),
        ({"created_before": "2025-06-15T15:06:40.001Z"}, NEWEST_FIRST),
        (
            {"status": "blocked", "agent_id": "triage", "label": "env:qa", "created_after": AT},
            ["asked_twice", "asked", "signal"],
        ),
    ],
)
def test_executions_are_listed_by_each_filter(door, query, found):
    assert names(door.get("/v0/executions", **query)) == found


def test_pages_of_the_list_show_each_once_as_it_is(door):
    rows, cursor = [], ""
    while not rows or cursor:
        page = door.get("/v0/executions", limit="2", cursor=cursor).body
        rows, cursor = rows + page["executions"], page["next_cursor"]

    assert [row["id"] for row in rows] == [IDS[name] for name in NEWEST_FIRST]
    same = {"agent_id": "triage", "labels": {"env": "qa"}, "created_at": AT, "updated_at": AT}
    assert rows[0] == {"id": IDS["ended"], "status": "completed", **same}


@pytest.mark.parametrize(
    ("name", "status", "waiting_for"),
    [
        ("asked", "blocked", "a person: pay.refund"),
        ("asked_twice", "blocked", "a person: pay.refund"),
        ("granted", "running", 'agent "triage": pay.refund'),
        ("many", "running", "a runner for geo.lookup, and 7 more steps"),
        ("ended", "completed", None),
        ("failed", "failed", None),
        ("signal", "blocked", 'signal "go"'),
        ("pending", "pending", 'no agent "refund-desk" is connected'),
    ],
)
def test_an_execution_says_what_it_waits_for_or_why_it_failed(door, name, status, waiting_for):
    shown = door.get(path(name))

    assert shown == (
        200,
        {
            "id": IDS[name],
            "status": status,
            "agent_id": "refund-desk" if name == "pending" else "triage",
            "labels": {"env": "qa"},
            "input": {"ticket": 91},
            "output": {"done": True} if name == "ended" else None,
            "error": "the card was refused" if name == "failed" else None,
            "waiting_for": waiting_for,
            "again_of": None,
            "forgotten": None,
            "created_at": AT,
            "updated_at": AT,
        },
    )


@pytest.mark.parametrize("name", IDS)
def test_a_log_is_told_whole_and_names_nobody(door, name):
    told = door.get(path(name, "events"), limit="1000").body["events"]

    old = old_events(name)
    assert [event["sequence"] for event in told] == list(range(1, len(old) + 1))
    for event, was in zip(told, old, strict=True):
        hidden = {"session_id": event["payload"].get("session_id")} if event["type"] == "execution.started" else {}
        assert event["payload"] == was["payload"] | hidden
        assert {member: event[member] for member in ("id", "type", "step_id")} == {
            member: was[member] for member in ("id", "type", "step_id")
        }
        assert (event["timestamp"], "by" in event) == (AT, False)
    assert (OLD[name]["session_id"] or "none yet") not in json.dumps(told)


def an_old_approval(name, arguments, **members):
    asked = {"execution_id": IDS[name], "agent_id": "triage", "step_id": OLD[name]["steps"]["asked"]}
    unknown = dict.fromkeys(("rule_id", "reason", "asked_by", "expires_at", "on_timeout", "answer"))
    return asked | {"tool_id": "pay.refund", "since": AT, "state": "waiting"} | unknown | arguments | members


UNREAD = {"arguments": {"shown": "unknown"}}
WHOLE = {"arguments": {"shown": "whole", "value": {"q": "vpn"}}}


def test_calls_that_wait_for_a_person_are_listed_with_what_is_known_of_them(door):
    found = door.get("/v0/approvals").body

    assert found == {
        "approvals": [an_old_approval(name, UNREAD) for name in ("asked", "asked_twice")],
        "next_cursor": "",
    }
    for name in ("asked", "asked_twice"):
        shown = door.get(path(name, "approvals", OLD[name]["steps"]["asked"]))
        assert shown == (200, an_old_approval(name, WHOLE))


def test_answers_from_before_are_in_the_log_alone(door):
    assert door.get("/v0/approvals", state="answered").body == {"approvals": [], "next_cursor": ""}
    for step in ("granted", "denied"):
        assert door.get(path("asked_twice", "approvals", OLD["asked_twice"]["steps"][step])).status == 404


def test_an_answer_of_today_to_a_question_from_before_is_listed(acting):
    answer = {"step_id": OLD["asked_twice"]["steps"]["asked"], "approved": False, "reason": "enough"}
    assert acting.post(path("asked_twice", "signal"), {"signal_type": "step.approve", "payload": answer}).status == 200

    said = {"approved": False, "by": None, "at": LATER, "reason": "enough", "timed_out": False}
    [listed] = acting.get("/v0/approvals", state="answered").body["approvals"]
    assert listed == an_old_approval("asked_twice", UNREAD, state="answered", answer=said)
    assert [one["execution_id"] for one in acting.get("/v0/approvals").body["approvals"]] == [IDS["asked"]]


def test_who_connected_before_is_not_listed_and_still_gets_work(acting):
    agents = acting.get("/v0/agents", limit="50").body["agents"]
    assert [agent["agent_id"] for agent in agents if agent["hosted"] is None] == []
    assert acting.get("/v0/runners").body == {"runners": [], "next_cursor": ""}
    assert [tool["id"] for tool in acting.get("/v0/tools").body] == ["geo.lookup"]

    made = acting.post("/v0/executions", {"agent_id": "triage"}).body
    assert (made["status"], made["waiting_for"]) == ("running", 'agent "triage" to go on')


def test_an_execution_that_ended_before_is_run_again(acting):
    key = {"idempotency_key": "k"}
    made = acting.post(path("ended", "again"), key)

    assert made.status == 201
    kept = ("again_of", "agent_id", "input", "labels", "output", "error")
    assert [made.body[name] for name in kept] == [IDS["ended"], "triage", {"ticket": 91}, {"env": "qa"}, None, None]
    assert acting.post(path("ended", "again"), key).body["id"] == made.body["id"]
    assert acting.get(path("ended")).body["again_of"] is None
    assert {acting.post(path(name, "again"), {}).status for name in OPEN} == {409}


def test_open_ones_are_counted_and_cancelled_together(acting):
    which = {"labels": {"env": "qa"}}
    counted = acting.post("/v0/executions/cancel", which).body
    assert (counted["count"], counted["more"]) == (6, False)
    confirmed = {**which, "cursor": counted["cursor"]}
    assert acting.post("/v0/executions/cancel", {**confirmed, "confirm": 5}).status == 409
    assert names(acting.get("/v0/executions", status="cancelled")) == []

    done = acting.post("/v0/executions/cancel", {**confirmed, "confirm": 6}).body

    assert (done["cancelled"], done["remaining"]) == (6, 0)
    assert names(acting.get("/v0/executions", status="cancelled")) == OPEN
    assert names(acting.get("/v0/executions", status="completed")) == ["ended"]
    assert acting.get("/v0/approvals").body["approvals"] == []
    for name in OPEN:
        assert acting.get(path(name)).body["waiting_for"] is None
        assert acting.get(path(name, "events"), limit="1000").body["events"][-1]["type"] == "execution.cancelled"


def test_what_ended_before_is_forgotten_and_what_is_open_is_not(acting, stack):
    why = {"reason": "they asked for it"}
    assert {acting.post(path(name, "forget"), why).status for name in OPEN} == {409}
    counted = acting.post("/v0/executions/cancel", {"labels": {"env": "qa"}}).body
    acting.post("/v0/executions/cancel", {"labels": {"env": "qa"}, "cursor": counted["cursor"], "confirm": 6})

    for name in IDS:
        before = acting.get(path(name, "events"), limit="1000").body["events"]
        assert "ticket" in json.dumps(before) and "ticket" in rows(stack, name)
        forgotten = acting.post(path(name, "forget"), why)
        while not forgotten.body["forgotten"]["complete"]:
            forgotten = acting.post(path(name, "forget"), why)
        told = acting.get(path(name, "events"), limit="1000").body["events"]
        kept = json.dumps([acting.get(path(name)).body, told, rows(stack, name)])

        assert forgotten.status == 200
        assert [event["type"] for event in told] == [event["type"] for event in before]
        assert [word for word in PRIVATE_WORDS if word in kept] == []
    assert acting.post(path("ended", "again"), {}).status == 409
    assert names(acting.get("/v0/executions")) == NEWEST_FIRST


def rows(stack, name):
    """What the table holds of an execution, as text."""
    found = stack.aws.client("dynamodb").query(
        TableName=stack.kernel,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"EXEC#{IDS[name]}"}},
        ConsistentRead=True,
    )["Items"]
    assert found
    return repr(found)
