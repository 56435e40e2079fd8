"""Private arguments: approvers see them, and whoever works on the call; no other reader does, in any answer."""

import json
from typing import Any, get_type_hints

import pytest

from kernel.http.api import ROUTES
from piecework.edge.roles import parse_roles
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.events import TELL_CALLS, Event
from piecework.kernel.model.payloads import PAYLOADS
from piecework.kernel.needs import READERS, STREAMS
from piecework.kernel.wire.frames import event_body
from tests.support.kernel.desk import Caller, NamedDesk
from tests.support.kernel.functions import streams_function
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import Line

GATES = """
    rules:
      - id: letters
        when: {tool_id: mail.send}
        then: {decision: require_approval, private: true, timeout: 2h}
      - {id: refund, priority: 1, when: {tool_id: pay.refund}, then: {decision: require_approval}}
    default: {decision: allow}
"""
SECRET = "the-letter"
LETTER = {"text": SECRET}
MARK = {"shown": "private"}
NAMES = ("ada", "vic", "cleo", "ophelia", "desk")
ROLES = "ada=approver,vic=viewer,cleo=client,ophelia=operator,desk=agent+runner+client"
OTHERS = ("vic", "cleo", "ophelia", "desk")  # may read, but are not approvers


@pytest.fixture
def lines():
    return []


@pytest.fixture
def desk(lines, monkeypatch):
    return a_desk(lines, monkeypatch, ROLES)


def a_desk(lines: list[Any], monkeypatch: Any, roles: str) -> NamedDesk:
    monkeypatch.setattr("tests.support.kernel.desk.a_policy", lambda _: a_policy(GATES))
    return NamedDesk(NAMES, roles, outcome=lambda _name, facts, _counts: lines.append(facts))


def ask(desk: NamedDesk, tool_id: str = "mail.send", arguments: Any = LETTER) -> tuple[dict[str, Any], str]:
    """A remote call that waits for a person: its session and its step."""
    agent, execution = desk.stage.agent("desk", "one", "desk"), desk.stage.create(agent_id="desk")
    session = next(told for told in agent.of("execution.assigned") or [agent.take("execution.assigned")])
    assert session["execution_id"] == execution
    return session, call(desk, session, tool_id, arguments)["step_id"]


def call(desk: NamedDesk, session: Any, tool_id: str = "mail.send", arguments: Any = LETTER) -> Any:
    wish = Intent("invoke_tool", tool_id, arguments, True, remote=True)
    return desk.stage.kernel.intent(session["execution_id"], session["session_id"], wish, "desk")


def follower(desk: NamedDesk) -> Line:
    """Another process of the agent, once its predecessor counts as gone."""
    desk.stage.pass_time(60)
    return desk.stage.agent("desk", "two", "desk")


def read(desk: NamedDesk, path: str, name: str) -> str:
    with desk.turned(name):
        answer = desk.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return answer.text


def log_of(desk: NamedDesk, session: Any, name: str) -> list[Any]:
    return json.loads(read(desk, f"/v0/executions/{session['execution_id']}/events", name))["events"]


def told_by(events: list[Any]) -> dict[str, Any]:
    """The arguments, by the type of the event that has them."""
    calls = {event["type"]: event["payload"].get("details", event["payload"]) for event in events}
    return {kind: payload["arguments"] for kind, payload in calls.items() if "arguments" in payload}


@pytest.mark.parametrize("name", OTHERS)
def test_the_log_has_a_mark_instead_for_readers_who_are_no_approvers(desk, lines, name):
    session, _ = ask(desk)

    log = log_of(desk, session, name)

    assert told_by(log) == {"step.created": MARK, "step.approval_required": MARK, "execution.blocked": MARK}
    assert all(event["payload"]["private"] is True for event in log if event["type"] in TELL_CALLS)
    assert SECRET not in json.dumps(log) and not any("shows" in line for line in lines)


def test_approvers_see_them_in_the_log_and_each_look_is_logged(desk, lines):
    session, _ = ask(desk)

    log = log_of(desk, session, "ada")

    assert told_by(log) == {"step.created": LETTER, "step.approval_required": LETTER, "execution.blocked": LETTER}
    told = {name: lines[-1][name] for name in ("shows", "caller", "execution_id")}
    assert told == {"shows": "private arguments", "caller": "ada", "execution_id": session["execution_id"]}
    assert SECRET not in json.dumps(lines)


def test_arguments_of_other_rules_are_shown_as_they_were_and_nothing_is_logged(desk, lines):
    session, _ = ask(desk, "pay.refund", {"private": True, "arguments": 1})

    log = log_of(desk, session, "vic")

    assert set(map(str, told_by(log).values())) == {"{'private': True, 'arguments': 1}"}
    assert not any("private" in event["payload"] for event in log)
    log_of(desk, session, "ada")
    assert not any("shows" in line for line in lines)


@pytest.mark.parametrize(("approved", "kind"), [(True, "intent.accepted"), (False, "intent.denied")])
def test_a_call_that_meets_a_kept_answer_is_as_private(desk, approved, kind):
    session, step = ask(desk)
    desk.stage.lines[0].close()
    desk.stage.kernel.agent_lost(session["execution_id"], session["session_id"])
    desk.stage.signal(session["execution_id"], "step.approve", {"step_id": step, "approved": approved})
    again = follower(desk).take("execution.assigned")

    assert call(desk, again)["accepted"] is approved

    assert told_by(log_of(desk, again, "ada"))[kind] == LETTER
    assert told_by(log_of(desk, again, "vic"))[kind] == MARK
    assert SECRET not in json.dumps(log_of(desk, again, "vic"))


def test_no_route_that_readers_may_use_shows_them(desk):
    session, step = ask(desk)
    runner = desk.stage.runner("post", "one", "mail.send")
    paths = {route.path for route in ROUTES if "GET" in route.methods} - {"/v0/health", "/v0/ready"}
    for waits in (True, False):
        for path in sorted(paths):
            place = path.format(execution_id=session["execution_id"], step_id=step)
            for query in ("", "?state=answered") if path == "/v0/approvals" else ("",):
                assert SECRET not in read(desk, place + query, "vic"), place
        if waits:
            desk.stage.signal(session["execution_id"], "step.approve", {"step_id": step, "approved": True})

    assert runner.take("job.assigned")["arguments"] == LETTER  # who works on it has them


def test_an_agent_that_comes_later_has_them_in_its_history(desk):
    session, step = ask(desk)
    runner = desk.stage.runner("post", "one", "mail.send")
    desk.stage.signal(session["execution_id"], "step.approve", {"step_id": step, "approved": True})
    desk.stage.finish(runner.take("job.assigned"), "sent", "post")
    desk.stage.lines[0].close()
    desk.stage.kernel.agent_lost(session["execution_id"], session["session_id"])

    [entry] = follower(desk).take("execution.assigned")["history"]

    assert entry["arguments"] == LETTER


@pytest.mark.parametrize("name", NAMES)
def test_without_roles_everybody_is_an_approver(lines, monkeypatch, name):
    desk = a_desk(lines, monkeypatch, "")
    session, _ = ask(desk)

    assert told_by(log_of(desk, session, name))["step.created"] == LETTER


@pytest.fixture
def streams(desk):
    tokens = [(name, f"secret of {name}") for name in NAMES]
    with streams_function(
        desk.stage, FakeHints(), tokens=lambda: tokens, roles=parse_roles(ROLES), origins=()
    ) as module:
        yield Caller(module.app)


def followed(streams: Caller, session: Any, name: str) -> str:
    headers = {"authorization": f"Bearer secret of {name}"}
    answer = streams.get(f"/v0/executions/{session['execution_id']}/stream", headers=headers)
    assert answer.status_code == 200
    return answer.text


def ended(desk: NamedDesk) -> Any:
    """An execution that has ended after a private question, so that streams of its log end too."""
    session, _ = ask(desk)
    desk.stage.cancel(session["execution_id"])
    return session


@pytest.mark.parametrize("name", OTHERS)
def test_the_stream_of_the_log_has_the_mark_too(desk, streams, capsys, name):
    text = followed(streams, ended(desk), name)

    assert text.count('"arguments":{"shown":"private"},') == 3 and SECRET not in text
    assert "private arguments" not in capsys.readouterr().out


def test_an_approver_follows_them_and_the_look_is_logged_once(desk, streams, capsys):
    session = ended(desk)

    text = followed(streams, session, "ada")

    assert text.count(SECRET) == 3
    out = capsys.readouterr().out
    [line] = [json.loads(line) for line in out.splitlines() if "private arguments" in line]
    assert (line["caller"], line["execution_id"]) == ("ada", session["execution_id"])
    assert line["route"] == "GET /v0/executions/{execution_id}/stream"
    assert SECRET not in out


def test_one_stream_is_one_look_however_many_calls_it_tells(desk):
    session, step = ask(desk)
    looks = []
    stream = desk.stage.streams.monitor(session["execution_id"], 0, lambda: looks.append(step))
    assert SECRET in str(stream.step().frames)
    desk.stage.signal(session["execution_id"], "step.approve", {"step_id": step, "approved": False})
    call(desk, session)

    assert SECRET in str(stream.step().frames)
    assert looks == [step]


def test_a_reader_of_events_that_says_nothing_of_itself_gets_the_mark():
    payload = {"tool_id": "mail.send", "arguments": LETTER, "private": True}

    assert event_body(Event("id", "execution", 3, "step.created", 0, payload, "", ""))["payload"]["arguments"] == MARK


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_payload_with_arguments_can_be_private(kind):
    hints = get_type_hints(PAYLOADS[kind])
    held = {**hints, **get_type_hints(hints["details"])} if kind == "intent.accepted" else hints

    assert ("arguments" in held) is ("private" in held) is (kind in TELL_CALLS)


def test_readers_of_events_are_those_of_this_test():
    routes = {route.path for route in ROUTES if route.path.endswith("/events")}

    assert routes == {"/v0/executions/{execution_id}/events"}
    assert [path for path, needs in STREAMS.items() if needs == READERS] == ["/v0/executions/{execution_id}/stream"]
