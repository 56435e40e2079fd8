"""Forgetting an execution at the kernel door: who may, what must be said, what is answered."""

import json

import pytest

from tests.support.kernel.desk import NamedDesk

SECRET = "what-nobody-may-know"


@pytest.fixture
def lines():
    return []


@pytest.fixture
def desk(lines):
    def outcome(_name, facts, _counts):
        lines.append(facts)

    roles = "ophelia=operator,cleo=client+agent+approver+viewer+runner"
    return NamedDesk(["cleo", "ophelia"], roles, outcome=outcome)


@pytest.fixture
def ended(desk):
    work = desk.work(input={"text": SECRET})
    work.report(work.step(), data=SECRET)
    work.intend("complete", output=SECRET)
    return work.id


def forget(desk, execution_id, body, name="ophelia"):
    with desk.turned(name):
        return desk.post(f"/v0/executions/{execution_id}/forget", body)


def test_an_operator_forgets_and_everybody_reads_who_when_and_why(desk, ended, lines):
    assert SECRET in json.dumps(desk.show(ended)) and desk.show(ended)["forgotten"] is None

    answer = forget(desk, ended, {"reason": "asked by the customer"})

    assert answer.status_code == 200
    shown = desk.show(ended)
    assert answer.json() == shown
    assert shown["forgotten"] == {
        "at": "2027-01-15T08:00:00.000Z",
        "by": "ophelia",
        "reason": "asked by the customer",
        "complete": True,
    }
    assert (shown["status"], shown["input"], shown["output"], shown["labels"]) == ("completed", None, None, {})
    assert SECRET not in json.dumps(desk.events(ended))
    told = next(line for line in lines if line.get("route") == "POST /v0/executions/{execution_id}/forget")
    assert (told["caller"], told["execution_id"]) == ("ophelia", ended)


def test_nobody_else_may(desk, ended):
    answer = forget(desk, ended, {"reason": "please"}, "cleo")

    assert (answer.status_code, answer.json()["error"]) == (403, "this needs the role operator")
    assert desk.show(ended)["forgotten"] is None


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 501}, {"reason": 5}, None, []])
def test_a_reason_must_be_given_and_short(desk, ended, body):
    assert forget(desk, ended, body).status_code == 400
    assert desk.show(ended)["forgotten"] is None


def test_what_goes_on_is_refused(desk):
    answer = forget(desk, desk.create(), {"reason": "x" * 500})

    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


def test_a_reason_of_any_text_comes_back(desk, ended):
    text = "\u202e \u2028 é"
    with desk.turned("ophelia"):
        answer = desk.post(f"/v0/executions/{ended}/forget", content=json.dumps({"reason": text}).encode())

    assert answer.status_code == 200, answer.text
    assert answer.json()["forgotten"]["reason"] == text
