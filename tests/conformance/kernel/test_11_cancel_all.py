"""Many executions cancelled at once: an addition to the specification's operations on executions."""

import pytest

pytestmark = pytest.mark.usefixtures("stored")

PATH = "/v0/executions/cancel"


def ask(desk, **body):
    return desk.post(PATH, body)


@pytest.fixture
def batch(desk):
    """A label that three executions of this test have: pending, running and blocked."""
    label = {"batch": desk.named("b1")}
    pending = desk.create("nobody-there", labels=label)
    running = desk.work(labels=label)
    blocked = desk.work("other", labels=label)
    blocked.intend("wait", signal_type="go")
    return label, [pending, running.id, blocked.id]


def test_cancel_all_needs_a_filter(desk):
    for body in ({}, {"confirm": 0}, {"labels": {}}, {"status": "", "agent_id": ""}, {"labels": None, "confirm": 1}):
        answer = desk.post(PATH, body)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), body
    assert desk.post(PATH).status_code == 400


def test_cancel_all_reads_its_members_as_others_are_read(desk):
    wrong = (
        {"status": "completed"},
        {"status": 1},
        {"agent_id": "a" * 257},
        {"labels": {"a": 1}},
        {"labels": ["a:b"]},
        {"agent_id": "a", "confirm": True},
        {"agent_id": "a", "confirm": 1.0},
        {"agent_id": "a", "confirm": "1"},
        {"agent_id": "a", "cursor": "not one of ours"},
    )
    for body in wrong:
        assert desk.post(PATH, body).status_code == 400, body


def test_cancel_all_counts_and_cancels_nothing_without_the_count(desk, batch):
    label, executions = batch

    answer = ask(desk, labels=label)

    assert answer.status_code == 200
    told = answer.json()
    assert (told["count"], told["more"], told["next_cursor"]) == (3, False, "")
    assert [desk.status(execution) for execution in executions] == ["pending", "running", "blocked"]


def test_cancel_all_with_another_count_is_refused_with_the_right_one(desk, batch):
    label, executions = batch

    for confirm in (0, 2, 4, -3, 10**30):
        answer = ask(desk, labels=label, confirm=confirm)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        assert answer.json()["details"]["count"] == 3
    assert [desk.status(execution) for execution in executions] == ["pending", "running", "blocked"]


def test_cancel_all_ends_what_was_counted_and_nothing_that_came_later(desk, batch):
    label, executions = batch
    ended = desk.create("nobody-there", labels=label)
    desk.cancel(ended)
    before = desk.events(ended)
    other = desk.create("nobody-there", labels={"batch": "another"})
    counted = ask(desk, labels=label).json()
    assert counted["count"] == 3
    if hasattr(desk.stage, "clock"):
        desk.stage.clock.move(1)
    late = desk.create("nobody-there", labels=label)

    answer = ask(desk, labels=label, cursor=counted["cursor"], confirm=3)

    assert answer.status_code == 200
    assert answer.json() == {
        "cancelled": 3,
        "remaining": 0,
        "more": False,
        "cursor": counted["cursor"],
        "next_cursor": "",
    }
    assert {desk.status(execution) for execution in executions} == {"cancelled"}
    assert [desk.status(execution) for execution in (other, late)] == ["pending", "pending"]
    assert desk.events(ended) == before


@pytest.mark.parametrize(
    ("which", "hit"),
    [({"status": "blocked"}, [2]), ({"status": "pending"}, [0]), ({"agent_id": "triage"}, [1]), ({}, [0, 1, 2])],
)
def test_cancel_all_takes_every_condition_that_is_given(desk, batch, which, hit):
    label, executions = batch
    which = {name: desk.named(value) if name == "agent_id" else value for name, value in which.items()}

    assert ask(desk, labels=label, confirm=len(hit), **which).json()["cancelled"] == len(hit)

    assert [place for place, execution in enumerate(executions) if desk.status(execution) == "cancelled"] == hit


def test_cancel_all_allows_post_alone(desk):
    """An execution's id is not spelled so, and the document has no other method."""
    assert desk.client.put("/v0/executions/cancel").headers["allow"] == "POST"
