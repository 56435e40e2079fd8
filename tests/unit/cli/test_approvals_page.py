"""docs/kernel/approvals.md shows what `piecework approvals` prints; `WRITE_PAGES=1 pytest` of this file writes it."""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.http.api import create_app
from kernel.http.doors import Door
from piecework.edge.roles import parse_roles
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.ports.executions import ApprovalPage
from piecework_cli.main import main
from tests.support.kernel.desk import served
from tests.support.kernel.fakes import FakeExecutions
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage

PAGE = Path(__file__).parents[3] / "docs" / "kernel" / "approvals.md"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MARK = "<!-- `WRITE_PAGES=1 pytest tests/unit/cli/test_approvals_page.py` writes what follows -->\n"
GATES = """
    rules:
      - id: large-refund
        when: {tool_id: pay.refund}
        then: {decision: require_approval, reason: refunds above 20 need a person, timeout: 144h}
      - {id: letters, priority: 1, then: {decision: require_approval, private: true, timeout: 1h, on_timeout: fail}}
"""


@pytest.fixture
def stage():
    return KernelStage(policy=a_policy(GATES))


def asking(stage: KernelStage, tool_id: str, arguments) -> tuple[str, str]:
    line = stage.agent("refund-desk", "one")
    execution = stage.create(agent_id="refund-desk")
    line.look()
    session, given = line.of("execution.assigned")[-1]["session_id"], Intent("invoke_tool", tool_id, arguments, True)
    return execution, stage.kernel.intent(execution, session, given, by="desk")["step_id"]


def test_the_page_of_approvals_shows_what_the_command_prints(stage):
    refund = asking(stage, "pay.refund", {"order": "A-7", "cents": 9_900})
    listed = _printed(stage, "ls")
    waiting = _printed(stage, "show", refund[0])
    payload = {"step_id": refund[1], "approved": True, "reason": "seen the photos"}
    stage.kernel.signal(refund[0], "step.approve", payload, parse_roles("").caller("mia"))
    granted = _printed(stage, "show", refund[0], "--step", refund[1])
    letter = asking(stage, "mail.send", {"to": "mia@example.com"})
    private = _printed(stage, "show", letter[0])
    stage.clock.move(3_600)
    late = _printed(stage, "show", letter[0], "--step", letter[1])
    answered = _printed(stage, "ls", "--answered")

    head, mark, _ = PAGE.read_text("utf-8").partition(MARK)
    parts = {
        "A call that waits": waiting,
        "After the answer": granted,
        "Private arguments": private,
        "When nobody answers in time": late,
        "What waits: `approvals ls`": listed,
        "What was answered: `approvals ls --answered`": answered,
    }
    page = "\n".join([f"{head}{mark}", *(f"## {title}\n```\n{text}```\n" for title, text in parts.items())])
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(page, "utf-8")

    assert mark
    assert PAGE.read_text("utf-8") == page


def test_what_an_agent_writes_cannot_act_on_a_terminal(stage):
    asked = asking(stage, "pay.refund", {"note": "\x9b31m\u202egrant\r\n"})
    asking(stage, "mail.send\x1b[2J", None)
    printed = _printed(stage, "show", asked[0]) + _printed(stage, "ls")

    assert all(letter.isprintable() or letter == "\n" for letter in printed)
    assert "\\u202e" in printed and "\\u001b" in printed


def test_a_list_goes_through_pages_up_to_its_limit(stage, monkeypatch):
    monkeypatch.setattr("piecework_cli.approvals.PAGE", 2)
    for number in range(5):
        asking(stage, "pay.refund", {"number": number})

    assert len(_printed(stage, "ls").splitlines()) == 5
    assert len(_printed(stage, "ls", "--limit", "3").splitlines()) == 3


def test_a_page_without_answers_is_not_the_end_of_the_list(stage, monkeypatch):
    asked = asking(stage, "pay.refund", {"number": 1})
    stage.signal(asked[0], "step.deny", {"step_id": asked[1]})
    [found] = stage.store.executions.answered(1).page
    pages = iter([ApprovalPage([], found.key), ApprovalPage([], found.key), ApprovalPage([found], "")])
    monkeypatch.setattr(FakeExecutions, "answered", lambda *_: next(pages))

    assert len(_printed(stage, "ls", "--answered", "--limit", "1").splitlines()) == 1


def _printed(stage: KernelStage, *words: str) -> str:
    printed = io.StringIO()
    with _served(stage) as url, contextlib.redirect_stdout(printed):
        assert main(["approvals", "--kernel", url, *words]) == 0
    return UUID.sub("…", printed.getvalue())


@contextlib.contextmanager
def _served(stage: KernelStage) -> Iterator[str]:
    """The door of a kernel, over HTTP; its callers are viewers."""
    tokens, viewers = (("vic", "v" * 32),), parse_roles("vic=viewer")
    parts = (stage.kernel, stage.store.runners, stage.store.counters, stage.dispatcher)
    app = create_app(
        Door(*parts, lambda: stage.door.connected, ready=lambda: None, tokens=lambda: tokens, roles=lambda: viewers)
    )
    with served(app, authorization=f"Bearer {'v' * 32}") as url:
        yield url
