"""`piecework ops` against a scripted operator's door: what it asks, prints, and refuses."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from piecework_cli.main import main
from piecework_cli.operations.commands import CALLS


class Door:
    def __init__(self):
        self.asked, self.answer = [], (200, {"ok": True})


@pytest.fixture
def door(monkeypatch):
    scripted = Door()

    class Handler(BaseHTTPRequestHandler):
        def answer_one(self):
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            scripted.asked.append((self.command, self.path, body, self.headers.get("authorization")))
            if (answer := scripted.answer) is None:  # done, and the answer is lost
                return
            status, document = answer
            raw = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = answer_one

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIECEWORK_OPS_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("PIECEWORK_OPS_TOKEN", "s3cret")
    yield scripted
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["status"], ("GET", "/ops/status", None)),
        (["records"], ("GET", "/ops/records", None)),
        (["verdicts"], ("GET", "/ops/verdicts", None)),
        (
            ["verdicts", "--status", "failed", "--reason", "101", "--policy", "vp & x", "--cursor", "1.2"],
            ("GET", "/ops/verdicts?status=failed&reason=101&policy_id=vp+%26+x&cursor=1.2", None),
        ),
        (["verdicts", "--piece", "ab/c", "--limit", "5"], ("GET", "/ops/pieces/ab%2Fc/verdicts?limit=5", None)),
        (["task", "ctr_1"], ("GET", "/ops/tasks/ctr_1", None)),
        (
            ["resend", "ctr_1", "evt/1", "--reason", "down"],
            ("POST", "/ops/tasks/ctr_1/webhooks/evt%2F1/resend", {"reason": "down"}),
        ),
        (["pauses"], ("GET", "/ops/pauses", None)),
        (
            ["pause", "door:worker", "--reason", "500s"],
            ("POST", "/ops/pause", {"scope": "door:worker", "reason": "500s"}),
        ),
        (
            ["resume", "executor:echo", "--reason", "mended"],
            ("POST", "/ops/resume", {"scope": "executor:echo", "reason": "mended"}),
        ),
        (["evidence", "ctr_1"], ("POST", "/ops/tasks/ctr_1/payment/evidence", {})),
        (
            ["resolve", "ctr_1", "--paid", "0xab", "--evidence", "d1", "--reason", "seen"],
            (
                "POST",
                "/ops/tasks/ctr_1/payment/resolve",
                {"decision": "paid", "transaction": "0xab", "evidence": "d1", "reason": "seen"},
            ),
        ),
        (
            ["resolve", "ctr_1", "--not-paid", "--evidence", "d1", "--override", "ctr_1", "--reason", "known"],
            (
                "POST",
                "/ops/tasks/ctr_1/payment/resolve",
                {"decision": "not_paid", "evidence": "d1", "override": "ctr_1", "reason": "known"},
            ),
        ),
        (
            ["refund-evidence", "ctr_1", "--debt", "5-1-ab", "--transaction", "0xcd"],
            ("POST", "/ops/tasks/ctr_1/payment/refunded/evidence", {"debt": "5-1-ab", "transaction": "0xcd"}),
        ),
        (
            ["refunded", "ctr_1", "--debt", "5-1-ab", "--transaction", "0xcd", "--evidence", "d1", "--reason", "sent"],
            (
                "POST",
                "/ops/tasks/ctr_1/payment/refunded",
                {"debt": "5-1-ab", "transaction": "0xcd", "evidence": "d1", "reason": "sent"},
            ),
        ),
        (
            ["webhooks", "--state", "given_up", "--execution", "ex/1"],
            ("GET", "/ops/kernel/webhooks?execution_id=ex%2F1&state=given_up", None),
        ),
        (
            ["resend-notice", "ex/1", "e1", "--reason", "down"],
            ("POST", "/ops/approvals/ex%2F1/webhooks/e1/resend", {"reason": "down"}),
        ),
        (["letters", "task"], ("POST", "/ops/dead-letters/task/look", {})),
        (
            ["redrive", "due", "--count", "3", "--reason", "mended"],
            ("POST", "/ops/dead-letters/due/redrive", {"reason": "mended", "count": 3}),
        ),
    ],
)
def test_each_action_asks_its_route_with_the_token_and_prints_the_answer(door, capsys, words, asked):
    assert main(["ops", *words]) == 0

    assert door.asked == [(*asked, "Bearer s3cret")]
    assert json.loads(capsys.readouterr().out) == {"ok": True}


def test_a_refusal_is_a_sentence_without_the_token(door, capsys):
    door.answer = (403, {"error": "this needs the role operator", "code": "forbidden"})

    assert main(["ops", "redrive", "task", "--reason", "x"]) == 1
    assert capsys.readouterr().err == "piecework: 403: this needs the role operator\n"


def test_what_is_to_be_forgotten_is_asked_for_until_all_of_it_is_gone(door, capsys):
    answers = iter([(200, {"complete": False}), (200, {"complete": True})])
    type(door).answer = property(lambda _: next(answers))
    try:
        assert main(["ops", "forget", "piece", "a" * 64, "--reason", "asked for"]) == 0
    finally:
        del type(door).answer

    asked = ("POST", f"/ops/pieces/{'a' * 64}/forget", {"reason": "asked for"}, "Bearer s3cret")
    assert door.asked == [asked, asked]
    assert json.loads(capsys.readouterr().out) == {"complete": True}


def test_what_is_never_gone_is_said_to_be_left(door, capsys):
    door.answer = (200, {"complete": False})

    assert main(["ops", "forget", "contract", "ctr_1", "--reason", "asked for"]) == 1
    assert [one[1] for one in door.asked] == ["/ops/tasks/ctr_1/forget"] * CALLS
    assert "not all is erased" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        *(["resend", "ctr_1", "evt_1"], ["redrive", "task"], ["pause", "door:worker"], ["resume", "door:worker"]),
        ["forget", "piece", "a"],
        ["resolve", "ctr_1", "--not-paid", "--evidence", "d1"],
        ["resolve", "ctr_1", "--not-paid", "--reason", "blind"],
        ["resolve", "ctr_1", "--evidence", "d1", "--reason", "undecided"],
    ],
)
def test_what_changes_something_needs_a_reason_and_a_decision_its_evidence(door, words):
    with pytest.raises(SystemExit):
        main(["ops", *words])
    assert door.asked == []


@pytest.mark.parametrize(
    "words",
    [["resolve", "ctr_1", "--not-paid", "--evidence", "d1"], ["redrive", "task"], ["forget", "piece", "a"]],
)
def test_a_lost_answer_is_told_as_what_may_have_been_done_and_not_as_a_door_that_is_away(
    door, words, capsys, monkeypatch
):
    door.answer = None

    assert main(["ops", *words, "--reason", "seen"]) == 1
    assert main(["ops", "status"]) == 1
    lost, looked = capsys.readouterr().err.splitlines()
    monkeypatch.setenv("PIECEWORK_OPS_URL", "http://127.0.0.1:9")
    assert main(["ops", *words, "--reason", "seen"]) == 1

    assert len(door.asked) == 2 and "may have been done" in lost and "piecework ops records" in lost
    assert all("does not answer; start `make run`" in told for told in (looked, capsys.readouterr().err))


def test_another_door_is_told_as_such(door, capsys):
    door.answer = (404, {"message": "x"})

    assert main(["ops", "status"]) == 1
    assert "is not an operator's door" in capsys.readouterr().err
