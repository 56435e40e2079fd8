"""`include=reasons` at a list of executions: what it adds, and that a list without it stays as it was."""

import pytest

from tests.support.kernel.desk import Desk

ROW = {"id", "status", "agent_id", "labels", "created_at", "updated_at"}


@pytest.fixture
def desk():
    made = Desk()
    made.create("refund-desk")
    return made


def listed(desk, **query):
    return desk.get("/v0/executions", **query).json()["executions"]


@pytest.mark.parametrize("query", [{}, {"include": ""}])
def test_a_list_without_it_has_the_members_that_it_had_and_reads_nothing_more(desk, monkeypatch, query):
    monkeypatch.setattr(desk.stage.kernel, "reasons", lambda rows: pytest.fail("read"), raising=True)

    [row] = listed(desk, **query)

    assert row.keys() == ROW


def test_with_it_each_execution_says_what_it_waits_for_and_why_it_failed(desk):
    [row] = listed(desk, include="reasons")

    assert row.keys() == ROW | {"error", "waiting_for"}
    assert (row["error"], row["waiting_for"]) == (None, 'no agent "refund-desk" is connected')


def test_one_that_is_gone_meanwhile_has_no_reason(desk, monkeypatch):
    monkeypatch.setattr(desk.stage.kernel, "reasons", lambda rows: {})

    [row] = listed(desk, include="reasons")

    assert (row["error"], row["waiting_for"]) == (None, None)


def test_a_page_with_reasons_holds_fifty(desk):
    for _ in range(55):
        desk.create("refund-desk")

    assert len(listed(desk, include="reasons", limit="200")) == 50
    assert len(listed(desk, limit="200")) == 56


@pytest.mark.parametrize("text", ["reason", "reasons,labels", "REASONS", " "])
def test_anything_else_is_refused_by_its_name(desk, text):
    answer = desk.get("/v0/executions", include=text)

    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "include" in answer.json()["error"]
