"""Doubts, approvals and paused agents as the status finds them, written by the doors' own stores."""

from contextlib import suppress
from uuid import uuid4

import pytest

from piecework.aws.due_table import DueTable, key_of
from piecework.aws.table import Table
from piecework.aws.writes import at
from piecework.durable.due import SHARDS, Due
from piecework.durable.pauses import Pause
from piecework.kernel.model.state import Pause as AgentPause
from piecework.kernel.store import keys
from piecework.ops.standing import Oldest, Unknowable
from piecework.ops.store.standing_rows import APPROVALS, DOUBTS_READ, PAUSED, DoubtRows, KernelRows
from piecework.worker.record.execution import DOUBT_DUE
from piecework.worker.record.states import State
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import GATED, KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.lost_answers import LostAnswers
from tests.support.ops.tasks import a_task
from tests.support.worker.door_fakes import FakeDueTimes, FakeExecutions
from tests.support.worker.records import changed, moved


class Worker:
    """The worker's tables, and who looks at them."""

    def __init__(self, aws, client):
        self.work, self.due_table = aws.new_table("WorkTable"), aws.new_table("DueTable")
        self.executions = ExecutionsTable(client, self.work, self.due_table)
        self.due, self.counted = DueTable(client, self.due_table), Counted(client)
        self.rows = Table(client, self.due_table, "the due-time table")

    def oldest(self):
        return DoubtRows(self.counted, self.work, self.due_table).oldest()


@pytest.fixture(params=["plain", "lost answers"])
def worker(request, embedded_aws):
    client = embedded_aws.client("dynamodb")
    return Worker(embedded_aws, LostAnswers(client) if request.param == "lost answers" else client)


def in_doubt(executions, since_ms=START_MS, contract_id=""):
    """A task whose payment is uncertain since then."""
    task = a_task(contract_id or f"ctr_{uuid4().hex[:12]}", due_ms=0)
    task = changed(task, claim_key=f"8453/0xasset/0xfrom/{task.contract_id}")
    executions.claim(None, task)
    for target, members in (
        (State.RESULT_READY, {}),
        (State.SETTLING, {"payment_status": "settling"}),
        (State.UNKNOWN, {"sent_ms": since_ms}),
    ):
        before, task = task, moved(task, target, **members)
        executions.move(before, task)
    return task


def test_the_oldest_doubt_is_found_until_its_end_is_known(worker):
    assert worker.oldest() is None
    first, second = in_doubt(worker.executions), in_doubt(worker.executions, START_MS - 9)
    assert worker.oldest() == Oldest(START_MS - 9, second.contract_id)

    looked_at = moved(second, State.UNKNOWN, looks=1)
    worker.executions.move(second, looked_at)
    assert worker.oldest() == Oldest(START_MS - 9, second.contract_id)
    worker.executions.move(looked_at, moved(looked_at, State.COMPLETED, claim_status="spent", payment=""))

    assert worker.oldest() == Oldest(START_MS, first.contract_id)


def test_the_row_of_a_doubt_goes_with_it_and_no_sweep_takes_it_for_a_due_time(worker):
    task = in_doubt(worker.executions)
    [row] = worker.due.ripe(DOUBT_DUE, START_MS)
    assert row == task.doubt

    worker.executions.move(task, moved(task, State.COMPLETED, claim_status="spent", payment=""))
    assert list(worker.due.ripe(DOUBT_DUE, START_MS * 2)) == []


def test_the_fake_keeps_the_same_rows():
    due = FakeDueTimes()
    executions = FakeExecutions(due)
    task = in_doubt(executions)
    assert list(due.ripe(DOUBT_DUE, START_MS)) == [task.doubt]

    executions.move(task, moved(task, State.COMPLETED, claim_status="spent", payment=""))
    assert list(due.ripe(DOUBT_DUE, START_MS * 2)) == []


def test_a_doubt_that_earlier_code_left_without_a_row_gets_one_with_its_next_look(worker):
    task = in_doubt(worker.executions)
    worker.due.remove(task.doubt)
    assert worker.oldest() is None

    worker.executions.move(task, moved(task, State.UNKNOWN, looks=1))
    assert worker.oldest() == Oldest(START_MS, task.contract_id)


def test_a_row_that_earlier_code_left_behind_is_no_doubt_and_too_many_of_them_are_said(worker):
    task = in_doubt(worker.executions)
    worker.executions.move(task, moved(task, State.COMPLETED, claim_status="spent", payment=""))
    worker.due.put(task.doubt)
    assert worker.oldest() is None

    left = [task.doubt._replace(id=f"ctr_gone{number}") for number in range(DOUBTS_READ * SHARDS * 2)]
    worker.rows.put_all([at(key_of(due)) for due in left])  # so some partition has as many as are read
    with pytest.raises(Unknowable):
        worker.oldest()


def test_a_look_for_the_oldest_doubt_costs_nine_requests_however_many_there_are(worker):
    costs = []
    for number in range(2):
        in_doubt(worker.executions, START_MS + number)
        with suppress(Unknowable):
            worker.oldest()
        costs.append(worker.counted.take())
        worker.rows.put_all([at(key_of(Due(START_MS * 2, DOUBT_DUE, f"ctr_{one}"))) for one in range(200)])

    assert costs == [SHARDS + 1] * 2


@pytest.fixture
def kernel(embedded_aws):
    clock = FakeClock()
    tables = new_tables(embedded_aws, clock)
    return KernelStage(store=tables, clock=clock), KernelRows(embedded_aws.client("dynamodb"), tables.table)


def test_the_oldest_approval_is_the_one_that_waits_longest(kernel):
    stage, rows = kernel
    assert rows.oldest_approval() is None
    agent = stage.agent("triage")
    sessions = []
    for _ in range(2):
        execution = stage.create(agent_id="triage")
        agent.look()
        sessions.append(agent.of("execution.assigned")[-1])
        stage.invoke(sessions[-1], GATED)
        stage.pass_time(2)
        assert sessions[-1]["execution_id"] == execution

    first, second = (session["execution_id"] for session in sessions)
    assert rows.oldest_approval() == Oldest(START_MS, first)
    stage.kernel.cancel(first)
    assert rows.oldest_approval().of == second


def test_paused_agents_are_listed_with_who_and_why_until_they_are_resumed(kernel):
    stage, rows = kernel
    stage.kernel.pause("triage", "it refunds twice", "mia")
    stage.kernel.pause("triage", "me too", "ada")
    stage.kernel.pause("any text: ü", "x")

    assert sorted(rows.paused_agents()) == [
        Pause("agent:any text: ü", START_MS, "", "x"),
        Pause("agent:triage", START_MS, "mia", "it refunds twice"),
    ]
    stage.kernel.resume("triage", "mended", "ada")
    stage.kernel.resume("triage", "again", "ada")
    stage.kernel.resume("nobody", "x", "ada")

    assert [pause.scope for pause in rows.paused_agents()] == ["agent:any text: ü"]


def test_a_pause_whose_answer_was_lost_is_listed_once_and_ends_once(embedded_aws):
    clock = FakeClock()
    tables = new_tables(embedded_aws, clock, client=LostAnswers(embedded_aws.client("dynamodb")))
    rows, first = KernelRows(embedded_aws.client("dynamodb"), tables.table), AgentPause(START_MS, "mia", "x")

    assert tables.agents.pause("triage", first) == first
    assert len(rows.paused_agents()) == 1
    assert tables.agents.resume("triage", START_MS + 5, "ada", "y").resumed_by == "ada"
    assert rows.paused_agents() == []


def test_the_rows_are_the_kernels_own():
    assert (
        (APPROVALS, PAUSED) == (keys.APPROVALS, keys.PAUSED) == (keys.waiting_approval(0, "e")[0], keys.paused("a")[0])
    )
