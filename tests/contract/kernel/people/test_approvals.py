"""Approvals as people see them, over the stores in memory and over DynamoDB: what is asked, what was answered."""

from typing import Any

import pytest

from piecework.aws.table import Table
from piecework.edge.roles import parse_roles
from piecework.kernel.errors import Invalid, NotFound
from piecework.kernel.model.questions import HIDDEN, LISTED
from piecework.kernel.store import keys
from piecework.kernel.wire.cursors import key_cursor
from piecework.kernel.wire.frames import event_body
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.stored import WRITTEN_MS, put
from tests.support.kernel.tables import new_tables

GATES = """
    rules:
      - id: refund
        when: {tool_id: pay.refund}
        then: {decision: require_approval, reason: money, timeout: 2h, on_timeout: fail}
      - id: letters
        priority: 1
        when: {tool_id: mail.send}
        then: {decision: require_approval, private: true}
    default: {decision: allow}
"""
MIA = parse_roles("").caller("mia")
ON_DYNAMODB = pytest.mark.parametrize("stage", ["dynamodb"], indirect=True)


@pytest.fixture(params=["fake", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    if request.param == "fake":
        return KernelStage(clock=clock, store=new_store(clock), policy=a_policy(GATES))
    aws = request.getfixturevalue("embedded_aws")
    client = Counted(aws.client("dynamodb"))
    stage = KernelStage(clock=clock, store=new_tables(aws, clock, client=client), policy=a_policy(GATES))
    stage.sent = client.sent
    return stage


def asking(stage: KernelStage, tool_id: str = "pay.refund", arguments: Any = None) -> tuple[str, str]:
    """A call that waits for a person: its execution and its step."""
    execution = stage.create(agent_id="desk")
    session = next(told for told in stage.agent_line.all() if told["execution_id"] == execution)
    answer = stage.kernel.intent(execution, session["session_id"], an_intent(tool_id, arguments), by="desk-token")
    return execution, answer["step_id"]


def an_intent(tool_id: str, arguments: Any) -> Any:
    from piecework.kernel.model.commands import Intent

    return Intent("invoke_tool", tool_id, {"cents": 9_900} if arguments is None else arguments, True, remote=True)


class Assigned:
    """The assignments that an agent has heard of."""

    def __init__(self, stage: KernelStage) -> None:
        self.line = stage.agent("desk", "one")

    def all(self) -> list[Any]:
        self.line.look()
        return self.line.of("execution.assigned")


@pytest.fixture(autouse=True)
def agent(stage):
    stage.agent_line = Assigned(stage)


def answer(stage: KernelStage, asked: tuple[str, str], approved: bool, **more: Any) -> None:
    stage.kernel.signal(asked[0], "step.approve", {"step_id": asked[1], "approved": approved, **more}, MIA)


def test_a_person_is_told_what_is_asked_and_why(stage):
    execution, step = asking(stage)

    [found], cursor = stage.kernel.approvals_page("", 10)

    assert (found.execution_id, found.step_id, found.agent_id, cursor) == (execution, step, "desk", "")
    asked = found.question
    assert (asked.rule_id, asked.reason, asked.by) == ("refund", "money", "desk-token")
    assert (asked.arguments, asked.length) == ('{"cents":9900}', 14)
    assert (asked.until_ms, asked.on_timeout) == (stage.clock() + 7_200_000, "fail")
    assert found.waits and found.decided is None
    assert stage.kernel.approval(execution, step)[0].question == asked


def test_lists_show_the_beginning_of_long_arguments_and_none_of_private_ones(stage):
    long = asking(stage, arguments={"text": "ü" * 5_000})
    private = asking(stage, "mail.send", {"to": "mia"})

    found = {one.step_id: one.question for one in stage.kernel.approvals_page("", 10)[0]}

    assert len(found[long[1]].arguments) == LISTED and found[long[1]].length == 5_011
    assert found[private[1]].arguments == "" and found[private[1]].is_private
    assert stage.kernel.approval(*long)[1].arguments == {"text": "ü" * 5_000}
    assert stage.kernel.approval(*private)[1].arguments == {"to": "mia"}


@pytest.mark.parametrize("size", [10, 120_000])  # the latter do not lie in the table
def test_the_log_keeps_that_arguments_are_private_wherever_they_lie(stage, size):
    execution, _ = asking(stage, "mail.send", {"text": "ü" * size})

    log = stage.kernel.events(execution, 0, 100)

    told = [event for event in log if "arguments" in event.payload]
    assert [event.type for event in told] == ["step.created", "step.approval_required", "execution.blocked"]
    assert {str(event_body(event)["payload"]["arguments"]) for event in told} == {str(HIDDEN)}
    whole = [event_body(event, to_approver=True)["payload"]["arguments"] for event in told]
    assert whole == [{"text": "ü" * size}] * 3


def test_waiting_approvals_come_in_pages_the_oldest_first(stage):
    asked = []
    for _ in range(5):
        asked.append(asking(stage))
        stage.clock.move(1)

    first, cursor = stage.kernel.approvals_page("", 2)
    second, cursor = stage.kernel.approvals_page(cursor, 2)
    answer(stage, asked[4], approved=False)
    third, end = stage.kernel.approvals_page(cursor, 2)

    assert [one.step_id for one in first + second + third] == [step for _, step in asked[:4]]
    assert end == ""


def test_answered_approvals_come_in_pages_the_newest_first(stage):
    asked = []
    for number in range(5):
        asked.append(asking(stage))
        stage.clock.move(1)
        answer(stage, asked[-1], approved=number % 2 == 0, reason=f"look {number}")

    pages, cursor = [], ""
    for _ in range(3):
        page, cursor = stage.kernel.approvals_page(cursor, 2, answered=True)
        pages += page

    assert [one.step_id for one in pages] == [step for _, step in reversed(asked)] and cursor == ""
    newest = pages[0].decided
    assert (newest.approved, newest.by, newest.reason, newest.at_ms) == (True, "mia", "look 4", stage.clock())
    assert pages[1].decided.approved is False and not pages[1].waits
    assert pages[0].question.rule_id == "refund"
    assert stage.kernel.approvals_page("", 10) == ([], "")


def test_what_time_has_answered_is_listed_as_such(stage):
    execution, step = asking(stage)
    stage.clock.move(7_200)
    stage.kernel.run_due_timers(execution)

    [found], _ = stage.kernel.approvals_page("", 10, answered=True)

    assert (found.step_id, found.decided.timed_out, found.decided.by) == (step, True, "")
    assert found.decided.reason.startswith("nobody answered about pay.refund until ")
    assert stage.kernel.get(execution).execution.status == "failed"


def two_answers_behind_forgotten_ones(stage, forgotten):
    """The steps of two answers, the newer first; so many later ones went with their executions."""
    asked = []
    for _ in range(2 + forgotten):
        asked.append(asking(stage))
        stage.clock.move(1)
        answer(stage, asked[-1], approved=False)
    for execution, _ in asked[2:]:
        stage.kernel.cancel(execution)
        stage.store.executions.forget(execution)
    return [step for _, step in reversed(asked[:2])]


def test_answers_of_forgotten_executions_are_in_no_list_and_hide_none_behind_them(stage):
    left = two_answers_behind_forgotten_ones(stage, 4)

    first, cursor = stage.kernel.approvals_page("", 1, answered=True)
    second, end = stage.kernel.approvals_page(cursor, 1, answered=True)

    assert [one.step_id for one in first + second] == left and end == ""


def test_however_many_answers_are_gone_those_behind_them_are_reached(stage):
    left = two_answers_behind_forgotten_ones(stage, 12)

    found, cursor = stage.kernel.approvals_page("", 1, answered=True)
    for _ in range(4):
        page, cursor = stage.kernel.approvals_page(cursor, 1, answered=True) if cursor else ([], "")
        found += page

    assert [one.step_id for one in found] == left and cursor == ""


@ON_DYNAMODB  # which removes the rows of an execution one by one
def test_private_arguments_stay_private_while_their_execution_is_being_forgotten(stage):
    private, plain = asking(stage, "mail.send"), asking(stage)
    for asked in (private, plain):
        row = dict(zip(("pk", "sk"), ({"S": part} for part in keys.asked(*asked)), strict=True))
        stage.store.client.delete_item(TableName=stage.store.table, Key=row)

    shown = [stage.kernel.approval(*asked) for asked in (private, plain)]

    assert [found.question for found, _ in shown] == [None, None]
    assert [step.is_private for _, step in shown] == [True, False]


@ON_DYNAMODB  # which reads the rows of an approval one by one
def test_an_answer_that_comes_while_one_is_shown_is_not_taken_for_none(stage, monkeypatch):
    asked = asking(stage)
    answer(stage, asked, approved=True)
    find, torn = Table.find, []

    def half(table, places, **how):
        rows, said = find(table, places, **how), keys.decided(*asked)
        if said in rows and not torn:  # it was read before the answer, and the rest after it
            torn.append(rows.pop(said))
        return rows

    monkeypatch.setattr(Table, "find", half)

    found, _ = stage.kernel.approval(*asked)

    assert torn and found.decided.approved and not found.waits


def test_a_cancelled_approval_is_in_no_list_and_can_be_shown(stage):
    execution, step = asking(stage)
    stage.kernel.cancel(execution)

    assert stage.kernel.approvals_page("", 10) == stage.kernel.approvals_page("", 10, answered=True) == ([], "")
    found, _ = stage.kernel.approval(execution, step)
    assert not found.waits and found.decided is None


TOO_LARGE = key_cursor(f"{keys.time(1)}#{'é' * 580}")  # for a key of DynamoDB, which counts bytes


@pytest.mark.parametrize("cursor", ["x", "!", "é", "YWJj", "MDAw" * 400, "MDAwMDAwMDAwMDAwMDAwIw", TOO_LARGE])
def test_a_cursor_that_was_not_given_is_refused(stage, cursor):
    for answered in (True, False):
        with pytest.raises(Invalid):
            stage.kernel.approvals_page(cursor, 10, answered=answered)


def test_steps_that_nobody_was_asked_about_are_no_approvals(stage):
    execution = stage.create(agent_id="desk")
    session = stage.agent_line.all()[-1]["session_id"]
    step = stage.kernel.intent(execution, session, an_intent("notes.find", None))["step_id"]

    for asked in ((execution, step), (execution, "none"), ("none", step)):
        with pytest.raises(NotFound):
            stage.kernel.approval(*asked)


@ON_DYNAMODB
def test_a_page_costs_two_requests_however_much_is_stored(stage):
    for number in range(30):
        asked = asking(stage, arguments={"text": "x" * 5_000})
        if number % 2:
            answer(stage, asked, approved=True)
    costs = []
    for answered in (False, True):
        stage.sent.clear()
        assert len(stage.kernel.approvals_page("", 10, answered=answered)[0]) == 10
        costs.append(dict(stage.sent))
    stage.sent.clear()
    stage.kernel.approval(*asked)

    assert costs == [{"query": 1, "batch_get_item": 1}] * 2
    assert dict(stage.sent) == {"batch_get_item": 2}


def test_an_approval_that_earlier_code_has_asked_for_is_listed_shown_and_answered(embedded_aws):
    clock = FakeClock(WRITTEN_MS + 1_000)
    tables = new_tables(embedded_aws, clock)
    stage = KernelStage(clock=clock, store=tables)
    old = put(stage, tables, "asked")
    step = old.steps["asked"]

    [found], _ = stage.kernel.approvals_page("", 10)
    assert (found.step_id, found.question) == (step, None)
    assert stage.kernel.approval(old.id, step)[0].waits
    answer(stage, (old.id, step), approved=False)
    [found], _ = stage.kernel.approvals_page("", 10, answered=True)
    assert (found.step_id, found.question, found.decided.by) == (step, None, "mia")
