"""Approvals at the kernel door: what a list and one approval show, and to whom private arguments are shown."""

import pytest

from piecework.edge.roles import parse_roles
from piecework.kernel.model.questions import SHOWN
from piecework.values import replace
from tests.support.kernel.desk import Desk
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage

GATES = """
    rules:
      - id: letters
        when: {tool_id: mail.send}
        then: {decision: require_approval, reason: letters are read first, private: true, timeout: 2h}
      - {id: refund, priority: 1, when: {tool_id: pay.refund}, then: {decision: require_approval}}
    default: {decision: allow}
"""
TOKENS = (("ada", "a" * 32), ("vic", "v" * 32))
ROLES = parse_roles("ada=approver+client+agent,vic=viewer")


@pytest.fixture
def lines():
    return []


@pytest.fixture
def desk(lines, monkeypatch):
    monkeypatch.setattr("tests.support.kernel.desk.a_policy", lambda _: a_policy(GATES))

    def outcome(_name, facts, _counts):
        lines.append(facts)

    return Desk(tokens=TOKENS, roles=lambda: ROLES, outcome=outcome)


def asking(desk: Desk, tool_id: str, arguments) -> tuple[str, str]:
    stage: KernelStage = desk.stage
    line = stage.agent("desk", "one")
    execution = stage.create(agent_id="desk")
    session = line.take("execution.assigned")
    return execution, stage.intend(session, "invoke_tool", tool_id=tool_id, arguments=arguments, has_arguments=True)[
        "step_id"
    ]


def look(desk: Desk, path: str, name: str = "ada"):
    return desk.client.get(path, headers={"authorization": f"Bearer {dict(TOKENS)[name]}"})


def one(asked: tuple[str, str]) -> str:
    return f"/v0/executions/{asked[0]}/approvals/{asked[1]}"


def test_a_list_keeps_the_members_of_before_and_tells_what_is_asked(desk):
    execution, step = asking(desk, "pay.refund", {"cents": 5})

    body = look(desk, "/v0/approvals", "vic").json()

    [found] = body["approvals"]
    assert body["next_cursor"] == ""
    assert found == {
        "execution_id": execution,
        "agent_id": "desk",
        "step_id": step,
        "tool_id": "pay.refund",
        "since": "2027-01-15T08:00:00.000Z",
        "state": "waiting",
        "rule_id": "refund",
        "reason": "",
        "asked_by": None,
        "expires_at": None,
        "on_timeout": None,
        "arguments": {"shown": "whole", "value": {"cents": 5}},
        "answer": None,
    }


def test_private_arguments_are_shown_one_by_one_to_approvers_and_each_look_is_logged(desk, lines):
    asked = asking(desk, "mail.send", {"to": "mia", "text": "secret"})

    assert look(desk, "/v0/approvals").json()["approvals"][0]["arguments"] == {"shown": "private"}
    assert look(desk, one(asked), "vic").json()["arguments"] == {"shown": "private"}
    assert not any("shows" in line for line in lines)
    shown = look(desk, one(asked)).json()

    assert shown["arguments"] == {"shown": "whole", "value": {"to": "mia", "text": "secret"}}
    told = {name: lines[-1][name] for name in ("shows", "caller", "execution_id", "step_id")}
    assert told == {
        "shows": "private arguments",
        "caller": "ada",
        "execution_id": asked[0],
        "step_id": asked[1],
    }


def test_long_arguments_are_cut_and_say_so(desk):
    asked = asking(desk, "pay.refund", {"note": "x" * 100_000})

    listed = look(desk, "/v0/approvals").json()["approvals"][0]["arguments"]
    alone = look(desk, one(asked)).json()["arguments"]

    assert (listed["shown"], len(listed["text"]), listed["length"]) == ("beginning", 2_000, 100_011)
    assert (alone["shown"], len(alone["text"]), alone["length"]) == ("beginning", SHOWN, 100_011)


def test_an_answer_is_shown_with_who_and_why(desk):
    asked = asking(desk, "pay.refund", None)
    body = {"signal_type": "step.approve", "payload": {"step_id": asked[1], "approved": False, "reason": "not ours"}}
    desk.post(f"/v0/executions/{asked[0]}/signal", body, headers={"authorization": f"Bearer {'a' * 32}"})

    [found] = look(desk, "/v0/approvals?state=answered").json()["approvals"]

    assert found["state"] == "answered"
    assert found["answer"] == {
        "approved": False,
        "by": "ada",
        "at": "2027-01-15T08:00:00.000Z",
        "reason": "not ours",
        "timed_out": False,
    }
    assert look(desk, one(asked)).json()["answer"] == found["answer"]


def test_what_a_list_cannot_be_asked_for_is_refused(desk):
    assert look(desk, "/v0/approvals?state=open").json()["error"].endswith("state must be waiting or answered")
    assert look(desk, "/v0/approvals?cursor=abc").status_code == 400
    assert look(desk, "/v0/executions/none/approvals/none").status_code == 404


def test_private_arguments_are_no_viewers_where_the_question_is_gone(desk):
    asked = asking(desk, "mail.send", {"to": "mia"})
    steps = desk.stage.store.kept[asked[0]].steps
    steps[asked[1]] = replace(steps[asked[1]], question=None)

    assert look(desk, one(asked), "vic").json()["arguments"] == {"shown": "private"}
    assert look(desk, one(asked)).json()["arguments"] == {"shown": "whole", "value": {"to": "mia"}}
