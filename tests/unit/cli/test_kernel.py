"""`piecework exec` and `approvals` against a scripted kernel door: what they ask, print, and return."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from piecework_cli import kernel, kernel_executions
from piecework_cli.main import main

ROW = {
    "id": "e1",
    "status": "blocked",
    "agent_id": "triage",
    "labels": {"env": "qa"},
    "created_at": "2026-03-02T08:11:05Z",
}


def event(sequence, kind="step.created", **payload):
    return {"sequence": sequence, "type": kind, "timestamp": "2026-03-02T08:11:05Z", "payload": payload}


def frames(*events):
    """A stream's bytes, with a heartbeat between the events."""
    told = [f"id: {one['sequence']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
    return ("retry: 5000\n\n" + ":heartbeat\n\n".join(told)).encode()


class Door:
    """Answers by method and path, in turn where there are several; keeps what it was asked."""

    def __init__(self):
        self.answers, self.asked = {}, []

    def say(self, route, *answers):
        self.answers[route] = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]

    def take(self, method, target, body, headers):
        parts = urlsplit(target)
        self.asked.append((method, parts.path, parse_qs(parts.query), body, headers.get("authorization")))
        queued = self.answers.get(f"{method} {parts.path}")
        if queued is None:
            return 404, {"error": "not found: no such execution", "code": "NOT_FOUND", "details": None}
        return queued.pop(0) if len(queued) > 1 else queued[0]


@pytest.fixture
def door(monkeypatch):
    """A scripted door that the environment names."""
    scripted = Door()

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self):
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = scripted.take(self.command, self.path, body, self.headers)
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = handle_one

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("PIECEWORK_KERNEL_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PIECEWORK_KERNEL_TOKEN", "secret")
    monkeypatch.setattr(kernel, "PAUSE_SECONDS", 0)
    with server:
        yield scripted
        server.shutdown()
        thread.join()


def test_a_list_follows_its_pages_up_to_the_limit(door, capsys):
    pages = [{"executions": [ROW] * 200, "next_cursor": "more"}, {"executions": [ROW] * 30, "next_cursor": "more"}]
    door.say("GET /v0/executions", *pages)

    asked = [
        "exec",
        "ls",
        "--status",
        "blocked",
        "--agent",
        "triage",
        "--label",
        "env:qa",
        "--label",
        "a:b",
        "--limit",
        "230",
    ]
    assert main(asked) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 230 and set(lines) == {"e1  blocked    2026-03-02T08:11:05Z  triage  env:qa"}
    first, second = (query for _, _, query, _, _ in door.asked)
    assert first == {"status": ["blocked"], "agent_id": ["triage"], "limit": ["200"], "label": ["env:qa", "a:b"]}
    assert (second["cursor"], second["limit"]) == (["more"], ["30"])
    assert {credential for *_, credential in door.asked} == {"Bearer secret"}


def test_an_execution_is_shown_with_its_whole_log(door, capsys):
    door.say("GET /v0/executions/e1", {"id": "e1", "output": None})
    pages = [[event(1), event(2)], [event(3)], []]
    door.say("GET /v0/executions/e1/events", *({"events": page} for page in pages))

    assert main(["exec", "get", "e1", "--events"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert [one["sequence"] for one in shown["events"]] == [1, 2, 3]
    assert [query["after_sequence"] for _, path, query, *_ in door.asked if path.endswith("events")] == [
        ["0"],
        ["2"],
        ["3"],
    ]


@pytest.mark.parametrize(("last", "status"), [("completed", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_takes_up_a_broken_stream_without_gap_or_repeat(door, capsys, last, status):
    streams = [
        frames(event(1), event(2)),
        frames(),
        frames(event(2), event(3), event(4, f"execution.{last}", error="x")),
    ]
    door.say("GET /v0/executions/e1/stream", *streams)

    assert main(["exec", "watch", "e1", "--json"]) == status

    told = [json.loads(line)["sequence"] for line in capsys.readouterr().out.splitlines()]
    assert told == [1, 2, 3, 4]
    assert [query["after_sequence"] for _, _, query, *_ in door.asked] == [["0"], ["2"], ["2"]]


def test_watching_prints_a_short_line_for_each_event(door, capsys):
    long = event(7, "execution.completed", output="x" * 500)
    door.say("GET /v0/executions/e1/stream", frames(long))

    assert main(["exec", "watch", "e1", "--after", "6"]) == 0

    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("   7  2026-03-02T08:11:05Z  execution.completed") and line.endswith("…") and len(line) < 200


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_what_has_ended_with_nothing_newer_tells_by_the_exit_status(door, capsys, status, code):
    door.say("GET /v0/executions/e1/stream", (204, b""))
    door.say("GET /v0/executions/e1", {**ROW, "status": status})

    assert main(["exec", "watch", "e1", "--after", "9"]) == code
    assert capsys.readouterr().out == ""
    assert len(door.asked) == 2


def test_watching_gives_up_on_a_stream_that_never_tells_anything(door, capsys):
    door.say("GET /v0/executions/e1/stream", frames())

    assert main(["exec", "watch", "e1"]) == 1
    assert "broke 10 times" in capsys.readouterr().err
    assert len(door.asked) == 10


def test_a_refusal_is_told_in_the_kernels_words(door, capsys):
    for command in (["get", "e2"], ["watch", "e2"], ["cancel", "e2"], ["signal", "e2", "go"]):
        assert main(["exec", *command]) == 1
        assert "404: not found: no such execution" in capsys.readouterr().err


def test_a_door_that_is_no_kernel_is_told_so(door, capsys):
    door.say("GET /v0/executions", b"<html>")

    assert main(["exec", "ls"]) == 1
    assert "is not a kernel door" in capsys.readouterr().err


def test_a_signal_carries_its_payload(door, capsys):
    door.say("POST /v0/executions/e%201/signal", {"status": "ok"})

    assert main(["exec", "signal", "e 1", "go", "--payload", '{"by": "mia"}']) == 0
    assert door.asked[0][3] == {"signal_type": "go", "payload": {"by": "mia"}}


def test_a_cancelled_execution_is_shown(door, capsys):
    door.say("POST /v0/executions/e1/cancel", {"id": "e1", "status": "cancelled"})

    assert main(["exec", "cancel", "e1"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "cancelled"


def blocked_for(door, *blocks):
    log = [event(number, "execution.blocked", **block) for number, block in enumerate(blocks, 1)]
    door.say("GET /v0/executions/e1", {"status": "blocked"})
    door.say("GET /v0/executions/e1/events", {"events": log}, {"events": []})
    door.say("POST /v0/executions/e1/signal", {"status": "ok"})


@pytest.mark.parametrize(("action", "approved"), [("grant", True), ("deny", False)])
def test_an_approval_is_answered_for_the_step_that_waits(door, capsys, action, approved):
    blocked_for(door, {"reason": "approval", "ref": "s0"}, {"reason": "approval", "ref": "s1"})

    assert main(["approvals", action, "e1", "--reason", "seen"]) == 0

    payload = {"step_id": "s1", "approved": approved, "reason": "seen"}
    assert door.asked[-1][3] == {"signal_type": "step.approve", "payload": payload}


def test_an_answer_that_was_given_before_says_so_and_one_that_differs_is_told_what_stands(door, capsys):
    door.say("POST /v0/executions/e1/signal", {"status": "ok", "already": True})
    assert main(["approvals", "grant", "e1", "--step", "s1"]) == 0
    assert capsys.readouterr().out == "step s1 granted already\n"

    said = "conflict: the step was granted already by mia; that stands"
    door.say("POST /v0/executions/e1/signal", (409, {"error": said, "code": "CONFLICT", "details": {"by": "mia"}}))
    assert main(["approvals", "deny", "e1", "--step", "s1"]) == 1
    assert said in capsys.readouterr().err


def test_a_named_step_is_not_looked_up(door):
    blocked_for(door)

    assert main(["approvals", "grant", "e1", "--step", "s9"]) == 0
    assert [(method, body["payload"]["step_id"]) for method, _, _, body, _ in door.asked] == [("POST", "s9")]


def test_nothing_is_answered_where_nobody_waits(door, capsys):
    blocked_for(door, {"reason": "signal", "ref": "go"})
    assert main(["approvals", "grant", "e1"]) == 1
    assert "waits for a signal" in capsys.readouterr().err

    door.say("GET /v0/executions/e1", {"status": "running"})
    assert main(["approvals", "grant", "e1"]) == 1
    assert "does not wait for a person" in capsys.readouterr().err
    assert not [method for method, *_ in door.asked if method == "POST"]


def test_nobody_at_the_address_is_told_with_the_address(monkeypatch, capsys):
    monkeypatch.setenv("PIECEWORK_KERNEL_URL", "http://127.0.0.1:9")

    assert main(["exec", "ls"]) == 1
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err


def test_a_workers_address_is_not_taken_for_a_kernels(door, capsys):
    assert main(["--url", "http://127.0.0.1:8788", "exec", "ls"]) == 1
    assert "write `--kernel URL`" in capsys.readouterr().err
    assert door.asked == []


def test_an_address_that_is_none_is_refused(capsys):
    assert main(["exec", "--kernel", "localhost:8789", "ls"]) == 1
    assert "not the URL of a kernel door" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "body"), [([], {}), (["--key", "monday"], {"idempotency_key": "monday"})])
def test_an_execution_is_run_again_and_the_new_one_is_shown(door, capsys, options, body):
    door.say("POST /v0/executions/e1/again", (201, {"id": "e2", "again_of": "e1"}))

    assert main(["exec", "again", "e1", *options]) == 0

    assert json.loads(capsys.readouterr().out) == {"id": "e2", "again_of": "e1"}
    assert [sent for *_, sent, _ in door.asked] == [body]


def test_an_execution_is_forgotten_in_as_many_parts_as_it_takes(door, capsys):
    notes = [{"id": "e1", "forgotten": {"complete": complete}} for complete in (False, False, True)]
    door.say("POST /v0/executions/e1/forget", *notes)

    assert main(["exec", "forget", "e1", "--reason", "asked for"]) == 0

    assert json.loads(capsys.readouterr().out) == notes[-1]
    assert [sent for *_, sent, _ in door.asked] == [{"reason": "asked for"}] * 3


def test_an_execution_is_not_forgotten_without_a_reason(door, capsys):
    with pytest.raises(SystemExit):
        main(["exec", "forget", "e1"])
    assert "--reason" in capsys.readouterr().err and door.asked == []


def test_executions_of_a_filter_are_counted_and_nothing_is_confirmed(door, capsys):
    door.say("POST /v0/executions/cancel", {"count": 7, "more": False, "cursor": "c"})

    assert main(["exec", "cancel-all", "--agent", "triage", "--label", "env:a:b", "--status", "blocked"]) == 0

    assert capsys.readouterr().out == "7 would be cancelled; add --confirm 7\n"
    assert [sent for *_, sent, _ in door.asked] == [
        {"agent_id": "triage", "labels": {"env": "a:b"}, "status": "blocked"}
    ]


def test_confirmed_executions_are_cancelled_part_by_part_though_the_list_lags(door, capsys, monkeypatch):
    monkeypatch.setattr(kernel_executions, "PAUSE_SECONDS", 0)
    count = [{"count": n, "more": False, "cursor": "c"} for n in (150, 150, 50)]
    done = [{"cancelled": 100, "remaining": 50}, {"cancelled": 50, "remaining": 0}]
    door.say("POST /v0/executions/cancel", count[0], done[0], count[1], count[2], done[1])

    assert main(["exec", "cancel-all", "--agent", "triage", "--confirm", "150"]) == 0

    assert capsys.readouterr().out == "100 cancelled, 50 left\n50 cancelled, 0 left\n"
    assert [(sent.get("cursor"), sent.get("confirm")) for *_, sent, _ in door.asked] == [
        (None, None),
        ("c", 150),
        ("c", None),
        ("c", None),
        ("c", 50),
    ]


def test_more_executions_than_were_left_are_not_cancelled(door, capsys, monkeypatch):
    monkeypatch.setattr(kernel_executions, "PAUSE_SECONDS", 0)
    count = {"count": 150, "more": False, "cursor": "c"}
    door.say("POST /v0/executions/cancel", count, {"cancelled": 100, "remaining": 50}, count)

    assert main(["exec", "cancel-all", "--agent", "triage", "--confirm", "150"]) == 1

    assert "150 fit now" in capsys.readouterr().err
    assert [sent.get("confirm") for *_, sent, _ in door.asked][2:] == [None] * 5


def test_a_label_without_a_value_is_named(door, capsys):
    assert main(["exec", "cancel-all", "--label", "env"]) == 1

    assert "KEY:VALUE" in capsys.readouterr().err and not door.asked


CONNECTED = {"connected": True, "since": "2026-03-02T08:11:05.000Z", "lease_until": "2026-03-02T08:11:17.000Z"}
NO_WORK = {"executions": [], "more_executions": False}
AGENT = {
    "agent_id": "triage",
    "consumers": [
        {"consumer_id": "one", **CONNECTED, "executions": ["e1", "e2"], "more_executions": True},
        {"consumer_id": "two", **CONNECTED, "connected": False, "since": None, **NO_WORK},
    ],
    "more_consumers": True,
    "waiting": 100,
    "more_waiting": True,
    "hosted": None,
}
DESK = {**AGENT, "agent_id": "desk", "consumers": [], "more_consumers": False, "waiting": 0, "more_waiting": False}


def test_agents_are_listed_with_their_consumers_and_their_work_over_all_pages(door, capsys):
    hosted = {**DESK, "hosted": {"executions": ["e3"], "more_executions": False}}
    door.say(
        "GET /v0/agents", {"agents": [AGENT], "next_cursor": "more"}, {"agents": [hosted, DESK], "next_cursor": ""}
    )

    assert main(["agents", "ls"]) == 0

    lease = "until 2026-03-02T08:11:17.000Z"
    assert capsys.readouterr().out.splitlines() == [
        "triage  100+ waiting",
        f"  one  connected  since 2026-03-02T08:11:05.000Z  {lease}  e1 e2 …",
        f"  two  away  since unknown  {lease}",
        "  …",
        "desk  0 waiting  hosted  e3",
        "desk  0 waiting",
    ]
    assert [asked.get("cursor") for _, _, asked, *_ in door.asked] == [None, ["more"]]


def test_runners_are_listed_with_the_job_in_the_hand_of_each_connection(door, capsys):
    job = {"id": "j1", "execution_id": "e1", "step_id": "s1", "tool_id": "geo.lookup"}
    idle = {"consumer_id": "one", **CONNECTED, "job": None, "tools": [], "more_tools": False}
    busy = {**idle, "consumer_id": "two", "job": job, "tools": ["geo.lookup", "web.search"], "more_tools": True}
    gone = {**idle, "consumer_id": "three", "job": {**job, "step_id": None, "tool_id": None}}
    geo = {"runner_id": "geo-1", "connections": [idle, busy, gone], "more_connections": False}
    door.say("GET /v0/runners", {"runners": [geo], "next_cursor": ""})

    assert main(["runners", "ls"]) == 0

    times = "connected  since 2026-03-02T08:11:05.000Z  until 2026-03-02T08:11:17.000Z"
    assert capsys.readouterr().out.splitlines() == [
        "geo-1",
        f"  one  {times}  idle  offers nothing",
        f"  two  {times}  geo.lookup of e1  offers geo.lookup,web.search,…",
        f"  three  {times}  a step that is gone of e1  offers nothing",
    ]
    assert main(["runners", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == geo


def test_a_list_can_begin_some_time_ago_and_goes_on_over_empty_pages(door, capsys, monkeypatch):
    monkeypatch.setattr(kernel_executions.time, "time", lambda: 1_750_000_000.9)
    door.say("GET /v0/executions", {"executions": [], "next_cursor": "more"}, {"executions": [ROW], "next_cursor": ""})

    assert main(["exec", "ls", "--since", "2h", "--until", "2026-03-02T08:11:05Z", "--agent", "triage"]) == 0

    assert capsys.readouterr().out.startswith("e1  ")
    bounds = {"created_after": ["2025-06-15T13:06:40Z"], "created_before": ["2026-03-02T08:11:05Z"]}
    assert [{name: asked[name] for name in bounds} for _, _, asked, *_ in door.asked] == [bounds, bounds]


@pytest.mark.parametrize(("ago", "begin"), [("90m", "2025-06-15T13:36:40Z"), ("7d", "2025-06-08T15:06:40Z")])
def test_minutes_and_days_count_back_from_now(door, monkeypatch, ago, begin):
    monkeypatch.setattr(kernel_executions.time, "time", lambda: 1_750_000_000)
    door.say("GET /v0/executions", {"executions": [], "next_cursor": ""})

    assert main(["exec", "ls", "--since", ago]) == 0
    assert [asked["created_after"] for _, _, asked, *_ in door.asked] == [[begin]]


@pytest.mark.parametrize(("flags", "asked"), [([], None), (["--reasons"], ["reasons"])])
def test_a_list_says_why_when_it_is_asked(door, capsys, flags, asked):
    why = {"error": None, "waiting_for": "a runner for web.search\nnow"} if flags else {}
    door.say("GET /v0/executions", {"executions": [{**ROW, **why}], "next_cursor": ""})

    assert main(["exec", "ls", *flags]) == 0

    assert capsys.readouterr().out.rstrip().endswith("  a runner for web.search now") == bool(flags)
    assert door.asked[0][2].get("include") == asked


def test_a_time_before_all_times_is_the_beginning(door):
    door.say("GET /v0/executions", {"executions": [], "next_cursor": ""})

    assert main(["exec", "ls", "--since", "999999999d"]) == 0
    assert [asked["created_after"] for _, _, asked, *_ in door.asked] == [["1970-01-01T00:00:00Z"]]


def test_an_id_cannot_act_on_a_terminal(door, capsys):
    odd = "a\x1b[2J\nb"
    idle = {"consumer_id": odd, **CONNECTED, "job": None, "tools": [odd], "more_tools": False}
    geo = {"runner_id": odd, "connections": [idle], "more_connections": False}
    door.say("GET /v0/runners", {"runners": [geo], "next_cursor": ""})
    consumer = {"consumer_id": odd, **CONNECTED, **NO_WORK}
    door.say("GET /v0/agents", {"agents": [{**AGENT, "agent_id": odd, "consumers": [consumer]}], "next_cursor": ""})

    for command in (["runners", "ls"], ["agents", "ls"], ["agents", "ls", "--json"]):
        assert main(command) == 0
        assert "\x1b" not in capsys.readouterr().out


def test_an_agent_is_paused_and_the_list_says_so(door, capsys):
    pause = {"at": "2026-03-02T08:11:05.000Z", "by": "mia", "reason": "it refunds twice", "resumed_at": None}
    door.say("POST /v0/agents/a%20b/pause", {"agent_id": "a b", "pause": pause})
    door.say("POST /v0/agents/a%20b/resume", {"agent_id": "a b", "pause": {**pause, "resumed_at": "later"}})
    door.say("GET /v0/agents", {"agents": [{**DESK, "pause": pause}, {**DESK, "pause": None}], "next_cursor": ""})

    assert main(["agents", "pause", "a b", "--reason", "it refunds twice"]) == 0
    assert json.loads(capsys.readouterr().out)["pause"] == pause
    assert main(["agents", "resume", "a b", "--reason", "mended"]) == 0
    capsys.readouterr()
    assert main(["agents", "ls"]) == 0

    said = "desk  0 waiting  paused since 2026-03-02T08:11:05.000Z by mia: it refunds twice"
    assert capsys.readouterr().out.splitlines() == [said, "desk  0 waiting"]
    assert [body for *_, body, _ in door.asked[:2]] == [{"reason": "it refunds twice"}, {"reason": "mended"}]
