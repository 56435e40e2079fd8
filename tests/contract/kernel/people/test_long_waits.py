"""Approvals that take days: what an execution needs is there when the answer comes, however late."""

from collections import Counter
from typing import Any

import pytest

from piecework.aws.steps_table import hosted_steps
from piecework.edge.roles import parse_roles
from piecework.extend.executors import Outcome, SilentLog
from piecework.kernel.errors import AlreadyDecided
from piecework.kernel.hosted.runs import Hosted
from piecework.kernel.policy.rules import longest_wait_ms
from piecework.kernel.store.hosted import HostedLeases
from tests.support.fakes import START_MS, FakeClock, FakePieceTable, no_renewal
from tests.support.kernel.fakes import new_store
from tests.support.kernel.hosted_stage import FakeLeases, an_executor
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

DAY = 86_400
MINUTES = 900_000
LATE = "nobody answered about pay.refund until 2027-01-21T14:00:00.000Z"
GATES = """
    rules:
      - id: refund
        when: {tool_ids: [pay.refund, mail.send]}
        then: {decision: require_approval, reason: money, timeout: 150h, on_timeout: deny}
    default: {decision: allow}
"""


class Desk:
    """A hosted agent that has two calls let through, and the time of its stores."""

    def __init__(self, kind: str, aws: Any) -> None:
        self.clock, self.ran, self.wakes = FakeClock(START_MS), Counter[str](), list[str]()
        self.tables = new_tables(aws, self.clock) if kind == "dynamodb" else None
        policy = a_policy(GATES)
        parts = {
            "can_wake": True,
            "hosted_names": {"desk"},
            "wake": lambda execution_id, _: self.wakes.append(execution_id),
        }
        self.stage = KernelStage(clock=self.clock, store=self.tables or new_store(self.clock), policy=policy, **parts)
        client = self.tables.client if self.tables else None
        self.hosted = Hosted(
            executions=self.stage.store.executions,
            kernel=self.stage.kernel,
            leases=HostedLeases(client, self.tables.table) if self.tables else FakeLeases(),
            steps=hosted_steps(client, self.tables.table, self.clock) if self.tables else FakePieceTable(self.clock),
            executor_of=lambda _: an_executor("desk", self.run),
            wake=parts["wake"],
            log=SilentLog(),
            clock=self.clock,
            renewal=no_renewal,
            longest_wait_ms=lambda agent_id: longest_wait_ms(policy, agent_id),
        )
        self.line = self.stage.runner("till", "one", "pay.refund,mail.send")

    def run(self, task, run):
        drafted = run.step("draft", lambda: self.did("draft"))
        paid = run.tool("pay.refund", {"cents": 9_900})
        told = run.step("tell", lambda: self.did("tell"))
        sent = run.tool("mail.send", {"to": "mia"})
        return Outcome([drafted, paid, told, sent])

    def did(self, name: str) -> str:
        self.ran[name] += 1
        return name

    def settle(self) -> None:
        while self.wakes:
            self.hosted.run_turn(self.wakes.pop(0), self.clock() + MINUTES)

    def wait(self, days: float) -> None:
        """Days pass; each night the sweep looks, and DynamoDB has deleted what has expired."""
        for _ in range(int(days * 4)):
            self.clock.move(DAY / 4)
            self.expire_rows()
            self.stage.kernel.run_due_timers(self.execution)
        self.settle()

    def expire_rows(self) -> None:
        if self.tables is None:
            return
        given = {"TableName": self.tables.table}
        for row in self.tables.client.scan(**given, ConsistentRead=True)["Items"]:
            if int(row.get("expires_at", {"N": "9" * 12})["N"]) * 1000 <= self.clock():
                self.tables.client.delete_item(**given, Key={name: row[name] for name in ("pk", "sk")})

    def start(self) -> str:
        self.execution = self.stage.create(agent_id="desk")
        self.settle()
        return self.execution

    def waiting(self) -> str:
        blocked = self.stage.kernel.get(self.execution).execution.blocked
        assert blocked is not None and blocked.reason == "approval"
        return blocked.ref

    def answer(self, step_id: str, approved: bool = True) -> None:
        payload = {"step_id": step_id, "approved": approved}
        self.stage.kernel.signal(self.execution, "step.approve", payload, parse_roles("").caller("mia"))

    def work(self) -> None:
        """The runner does what it was given."""
        self.line.look()
        job = self.line.of("job.assigned")[-1]
        self.ran[job["tool_id"]] += 1
        report = {"success": True, "data": job["tool_id"], "error": "", "retryable": False}
        self.stage.kernel.job_result("till", job["id"], job["execution_id"], job["step_id"], **report)
        self.settle()


@pytest.fixture(params=["fake", "dynamodb"])
def desk(request):
    return Desk(request.param, request.getfixturevalue("embedded_aws") if request.param == "dynamodb" else None)


def test_two_gates_of_six_days_each_run_every_step_once(desk):
    execution = desk.start()
    for _ in range(2):
        desk.wait(days=6)
        desk.line = desk.stage.runner("till", "two", "pay.refund,mail.send")
        desk.answer(desk.waiting())
        desk.work()

    view = desk.stage.kernel.get(execution)
    assert view.execution.status == "completed"
    assert view.output == ["draft", "pay.refund", "tell", "mail.send"]
    assert desk.ran == {"draft": 1, "pay.refund": 1, "tell": 1, "mail.send": 1}
    assert view.execution.paused_ms == 12 * DAY * 1000


def test_what_nobody_answers_is_denied_by_nobody_and_stands(desk):
    execution = desk.start()
    step = desk.waiting()
    desk.wait(days=6.5)

    for approved in (True, False):
        with pytest.raises(AlreadyDecided) as late:
            desk.answer(step, approved)
        assert (late.value.details["approved"], late.value.details["by"]) == (False, None)
    failed = desk.stage.kernel.get(execution)
    assert failed.execution.status == "failed" and desk.ran["pay.refund"] == 0
    [denied] = [event for event in desk.stage.kernel.events(execution, 0, 100) if event.type == "step.failed"]
    assert denied.payload["error"] == f"approval timed out: {LATE}"


@pytest.mark.parametrize("kind", ["fake", "dynamodb"])
def test_many_steps_end_together_with_the_one_that_waits_for_a_person(kind, request):
    clock = FakeClock(START_MS)
    store = new_store(clock) if kind == "fake" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    stage = KernelStage(clock=clock, store=store)
    agent = stage.agent("triage", "one")
    execution = stage.create(agent_id="triage")
    session = agent.take("execution.assigned")
    for _ in range(45):
        stage.invoke(session, "notes.find")
    stage.invoke(session, "pay.refund")
    assert len(stage.kernel.approvals(10)) == 1

    stage.kernel.cancel(execution)

    assert stage.kernel.get(execution).execution.status == "cancelled"
    assert stage.kernel.approvals(10) == []
