"""Crash sweep of the paid flow: every named flow stopped before and after each call it makes, then recovered.

The facilitator's chain is the judge. Safety: money moves at most once, and whatever was delivered was charged.
An executor runs exactly as often as the flow says, and at most once more when a process dies.
Liveness: within five minutes of the flow's own clock (ten beside a node that stands behind), with nobody asking, no
record is left in between; and a seeker that repeats its requests gets the flow's expected end. The calls are those to
the embedded AWS, to the queues, and to the facilitator and its node.
"""

import copy
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from piecework.aws.attributes import typed
from piecework.aws.bucket import OverflowBucket
from piecework.aws.due_table import DueTable, key_of
from piecework.aws.steps_table import work_steps
from piecework.aws.writes import at
from piecework.clock import DAY_MS
from piecework.errors import Unprocessable
from piecework.extend.executors import Artifact, Outcome, Refused, Retryable
from piecework.worker.chain.rpc import RpcChain
from piecework.worker.contract.contracts import ContractRecord, record_of, time_text
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.record.execution import WEBHOOK_DUE
from piecework.worker.record.executions import Moved
from piecework.worker.record.states import State
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.deliverables_bucket import DeliverablesBucket
from piecework.worker.store.executions_table import ExecutionsTable
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.inlined import InlineRun
from piecework.worker.task.start import TookTooLong
from tests.support.crash import Crashed, Tap, Tapped, report
from tests.support.worker.contracts import EXAMPLE, change
from tests.support.worker.handlers import EMULATED_KEY
from tests.support.worker.stage import Stage, Told, stub_facilitator

RECOVERY_SECONDS = 300
IN_BETWEEN = {State.EXECUTING, State.RESULT_READY, State.SETTLING, State.UNKNOWN}
TWO_KEYS = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
ONE_KEY = {
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@dataclass(frozen=True)
class Place:
    """Tables and a bucket of our own on the embedded AWS."""

    dynamodb: Any
    s3: Any
    contracts: str
    work: str
    due: str
    bucket: str


@pytest.fixture(scope="module")
def place(embedded_aws) -> Place:
    dynamodb = embedded_aws.client("dynamodb")
    names = [f"{kind}-{uuid4().hex}" for kind in ("contracts", "work", "due")]
    for name, keys in zip(names, (ONE_KEY, TWO_KEYS, TWO_KEYS), strict=True):
        dynamodb.create_table(TableName=name, **keys)
    return Place(dynamodb, embedded_aws.client("s3"), *names, embedded_aws.new_bucket())


@pytest.fixture(scope="module")
def stub():
    with stub_facilitator() as running:
        yield running


def frozen(work: Callable[[], object], seconds: float) -> None:
    """The request must answer before its run has done anything, and the process stands still from then on."""
    raise TookTooLong


class TappedStage(Stage):
    """The door over the embedded AWS with a tap on every call that leaves the process."""

    def __init__(self, place: Place, stub: Any, flow: "Flow") -> None:
        self.tap, self.place, self.flow = Tap(), place, flow
        self.problems: list[str] = []
        stub.reset()
        stub.ledger.transactions.clear()
        stub.say("settle", *flow.settle)
        stub.say("rpc", *flow.node)
        dynamodb, s3 = Tapped(place.dynamodb, self.tap), Tapped(place.s3, self.tap)
        self.plain_due = DueTable(place.dynamodb, place.due)
        super().__init__(
            stub,
            inline=False,
            ports={
                "contracts": ContractsTable(dynamodb, place.contracts),
                "executions": ExecutionsTable(dynamodb, place.work, place.due),
                "due_times": DueTable(dynamodb, place.due),
                "files": DeliverablesBucket(lambda: s3, place.bucket, key=EMULATED_KEY),
                "texts": OverflowBucket(lambda: s3, place.bucket),
                "steps": work_steps(dynamodb, place.work),
                "facilitator": Tapped(HttpFacilitator(stub.url), self.tap),
                "chain_of": lambda network: Tapped(RpcChain(stub.rpc_url), self.tap),
                "enqueue": self.tap.around("enqueue", lambda execution: self.queue.append(execution.contract_id)),
                "nudge": self.tap.around("nudge", lambda due, delay_ms: self.nudges.append((due, delay_ms))),
                "announce": self.tap.around("announce", self._announce),
                **({"bounded": frozen} if flow.is_frozen else {}),
            },
        )
        self.do = self._perform
        self.hired = self._unsigned_contract(flow)
        self.payments: dict[int, dict[str, list[str]]] = {}
        self.body = {"brief": "b" * flow.bytes}

    def _unsigned_contract(self, flow: "Flow") -> ContractRecord:
        """A contract as registration keeps it; signing and checking it would take longer than all the rest."""
        document = copy.deepcopy(EXAMPLE)
        del document["callbacks"]
        document["contract_id"] = f"ctr_{uuid4().hex}"
        document["terms"]["deadline"] = time_text(self.clock() + 30 * DAY_MS)
        document["task"]["requirements"] = [flow.executor]
        for path, value in flow.changes:
            change(document, path, value)
        record = record_of(document, None, attempts=3, source="import", stored_at_ms=self.clock())
        self.contracts.put(record)
        return record

    @property
    def function_ms(self) -> int:
        return self.flow.function_ms

    def _perform(self, task: Any, run: Any) -> Outcome:
        if self.flow.failure is Unprocessable:
            is_refused = task.inputs["brief"] == "refused"
        else:
            is_refused = len(self.runs) <= self.flow.failures
        if is_refused:
            raise self.flow.failure("not this time")
        self.clock.move(self.flow.seconds_before_its_step)
        for part in range(self.flow.parts):
            run.step(f"part {part}", lambda: self.clock.move(30))
        nonce = run.step("draw", lambda: secrets.token_hex(8))
        self.clock.move(self.flow.seconds_after_its_step)
        plan = Artifact("plan.txt", nonce.encode(), "text/plain")
        run.item(plan) if self.flow.tells else run.artifact(plan.name, plan.data, plan.mime)
        return Outcome({"score": 7, "nonce": nonce, "text": "t" * self.flow.bytes})

    def hire(self, payment: int | None = None, body: Any = None) -> Told:
        """A request, judged by what the chain says at that moment."""
        if payment is not None and payment not in self.payments:
            self.payments[payment] = self.pay(self.hired)
        headers = () if payment is None else (self.payments[payment],)
        answer = self.post(self.hired, body or self.body, *headers)
        if answer.status == 200 and self.charges() != 1:
            self.problems.append(f"delivered with {self.charges()} charges")
        return answer

    def sweep(self) -> int:
        """As the schedule does, for the one contract of this stage; its due row must be there."""
        execution = self.executions.read(self.hired.contract_id)
        fired = 0
        if execution is not None and execution.due is not None:
            row = self.place.dynamodb.get_item(TableName=self.place.due, Key=typed(at(key_of(execution.due))))
            if "Item" not in row:
                self.problems.append(f"{execution.state} waits without a due row")
            elif execution.due_ms <= self.clock():
                self.worker.resume.fire(execution.due, self.clock() + self.function_ms)
                fired += 1
        if self.hired.webhook_url:
            for due in self.plain_due.ripe(WEBHOOK_DUE, self.clock()):
                if due.id == self.hired.contract_id:
                    self.worker.resume.fire(due, self.clock() + self.function_ms)
                    fired += 1
        return fired

    def follow_nudges(self) -> None:
        """Look at what the door asked to have looked at, each when its delay is over."""
        nudges, self.nudges = self.nudges, []
        for due, delay_ms in nudges:
            self.clock.move(delay_ms / 1000)
            self.worker.resume.fire(due, self.clock() + self.function_ms)

    def settle_down(self, seconds: float = 0) -> None:
        """As `Stage.settle_down`, without the minutes in which nothing is left to happen."""
        ends = self.clock() + int(seconds * 1000)
        while True:
            self.work_off()
            fired = self.sweep()
            execution = self.executions.read(self.hired.contract_id)
            is_idle = execution is None or (execution.is_ended and not fired)
            if is_idle or self.clock() >= ends:
                return
            self.clock.now_ms = min(ends, self.clock() + 60_000)

    @property
    def where(self) -> State:
        execution = self.executions.read(self.hired.contract_id)
        return execution.state if execution else State.NONE


@dataclass(frozen=True)
class Flow:
    """A named flow: what seeker and worker do, and how it must end."""

    name: str
    act: Callable[[TappedStage], object]
    executor: str = "probe"
    settle: tuple[str, ...] = ("ok",)
    node: tuple[str, ...] = ("ok",)  # how the chain's node stands, call by call
    recovery_seconds: int = RECOVERY_SECONDS  # a node that stands behind delays what it is asked about
    failures: int = 0
    failure: type[Exception] = Retryable
    seconds_before_its_step: float = 0
    seconds_after_its_step: float = 0
    bytes: int = 10
    tells: bool = False  # of its file before the end
    parts: int = 0  # steps of half a minute each
    function_ms: int = 900_000
    end: State = State.COMPLETED
    runs: int = 1  # exactly so many when nothing goes wrong; a crash may cost one more
    changes: tuple[tuple[str, Any], ...] = ()
    is_frozen: bool = False  # the process, while the request waits for its run


def paid(stage: TappedStage) -> None:
    stage.hire(0)


def asked_then_paid(stage: TappedStage) -> None:
    stage.hire()
    stage.hire(0)


def queued(stage: TappedStage) -> None:
    if stage.hire(0).status != 202:
        stage.problems.append("the request did not leave it to the queue")
    stage.work_off()


def left(stage: TappedStage) -> None:
    """The run's process stands still from the answer on: nothing renews the lease, which lapses with the clock."""
    queued(stage)
    stage.follow_nudges()


def retried(stage: TappedStage) -> None:
    stage.hire(0)
    stage.hire()


def paid_again(stage: TappedStage) -> None:
    stage.hire(0)
    stage.hire(1)


def replayed(stage: TappedStage) -> None:
    stage.hire(0)
    stage.hire(0)
    stage.get(stage.hired, stage.standing(stage.hired).task_id)


def reconciled(stage: TappedStage) -> None:
    stage.hire(0)
    stage.settle_down(240)


def other_input(stage: TappedStage) -> None:
    if stage.where is State.NONE or stage.standing(stage.hired).generation == 1:
        stage.hire(0, {"brief": "refused"})
    stage.hire(1)


WEBHOOK = (("callbacks__webhook_url", "https://seeker.example/hooks"),)
POOL_BEHIND = ("pool:100",) * 4 + ("ok",)
NODE_BEHIND = ("behind:100",) * 4 + ("ok",)
FLOWS = [
    Flow("paid", paid),
    Flow("asked_then_paid", asked_then_paid),
    Flow("replayed", replayed),
    Flow("queued", queued, executor="slow"),
    Flow("left_to_the_queue", queued, seconds_after_its_step=16),  # its result, which is settled there
    Flow("chained", queued, executor="slow", parts=4, function_ms=120_000, runs=3),
    Flow("handed_over_before_its_step", queued, seconds_before_its_step=16, runs=2),
    Flow("handed_over_between_steps", queued, parts=2, runs=2),
    Flow("left_and_frozen", left, is_frozen=True),
    Flow("told", queued, executor="slow", tells=True),
    Flow("told_and_paid_before", queued, executor="upfront", tells=True),
    Flow("large", paid, bytes=40_000),
    Flow("retried", retried, failures=1, runs=2),
    Flow("refused", paid, failures=9, failure=Refused, end=State.FAILED_PERMANENT),
    Flow(
        "exhausted",
        lambda stage: [stage.hire(0), stage.hire(), stage.hire()],
        failures=9,
        end=State.EXHAUSTED,
        runs=3,
    ),
    Flow("not_taken_then_paid", paid_again, settle=("fail:insufficient_funds", "ok")),
    Flow("charged_without_an_answer", reconciled, settle=("lost-cut", "ok")),
    Flow(
        "charged_beside_a_pool_with_a_node_behind",
        reconciled,
        settle=("lost-cut", "ok"),
        node=POOL_BEHIND,
        recovery_seconds=600,
    ),
    Flow("charged_beside_a_node_behind", reconciled, settle=("lost-cut", "ok"), node=NODE_BEHIND, recovery_seconds=600),
    Flow("charged_and_not_seen_yet", reconciled, node=("behind:20",)),
    Flow("not_charged_without_an_answer", reconciled, settle=("cut", "ok")),
    Flow("pending", reconciled, settle=("pending500", "ok")),
    Flow("not_sent", reconciled, settle=("401", "ok")),
    Flow("upfront", queued, executor="upfront"),
    Flow("other_input", other_input, failures=1, failure=Unprocessable, runs=2),
    Flow("webhook", paid, changes=WEBHOOK),
]


def count_calls(place: Place, stub: Any, flow: Flow) -> tuple[int, list[str]]:
    """The calls of the flow when nothing goes wrong, and what was wrong all the same."""
    stage = TappedStage(place, stub, flow)
    stage.tap.arm(None)
    flow.act(stage)
    calls = len(stage.tap.calls)
    problems = problems_at_the_end(stage, flow, f"{flow.name}, undisturbed")
    if len(stage.runs) != flow.runs:
        problems.append(f"{flow.name}, undisturbed: {len(stage.runs)} runs where {flow.runs} are right")
    return calls, problems


def sweep(place: Place, stub: Any, flow: Flow, point: int) -> list[str]:
    """Crash at one point, recover, and say what was broken."""
    stage, where = TappedStage(place, stub, flow), f"{flow.name}@{point}"
    stage.tap.arm(point)
    try:
        flow.act(stage)
        stage.problems.append("the crash did not happen")
    except Crashed:
        where = f"{where} ({stage.tap.calls[-1]})"
    stage.tap.arm(None)
    stage.settle_down(flow.recovery_seconds)
    if stage.where in IN_BETWEEN:
        stage.problems.append(f"still {stage.where} after {flow.recovery_seconds} s")
    for _ in range(4):
        if stage.where is not flow.end:
            flow.act(stage)
            stage.settle_down(flow.recovery_seconds)
    return problems_at_the_end(stage, flow, where)


def problems_at_the_end(stage: TappedStage, flow: Flow, where: str) -> list[str]:
    problems, charged = stage.problems, int(flow.end is State.COMPLETED)
    final = stage.hire()
    if stage.where is not flow.end:
        problems.append(f"ended {stage.where}")
    if stage.charges() != charged:
        problems.append(f"{stage.charges()} charges")
    if (final.status == 200) != bool(charged):
        problems.append(f"the seeker gets {final.status}")
    if charged and not (final.receipt and final.receipt["success"]):
        problems.append("no receipt")
    if len(stage.runs) > flow.runs + 1:
        problems.append(f"{len(stage.runs)} runs")
    standing = stage.standing(stage.hired)
    if standing.due is not None or stage.sweep():
        problems.append("something is still due")
    watched = stage.place.dynamodb.get_item(TableName=stage.place.due, Key=typed(at(key_of(standing.released_due))))
    if ("Item" in watched) != (standing.payment.claim_status == "released"):
        problems.append(f"its payment is {standing.payment.claim_status} and watched: {'Item' in watched}")
    month = time.strftime("%Y-%m", time.gmtime(stage.clock() / 1000))
    rows = [row for row in stage.executions.ledger(month) if row.contract_id == stage.hired.contract_id]
    if len(rows) != charged:
        problems.append(f"{len(rows)} ledger rows")
    if stage.hired.webhook_url and not stage.announced:
        problems.append("its end was never announced")
    return [f"{where}: {problem}" for problem in problems]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_flow_ends_as_it_must_when_nothing_goes_wrong(place, stub, flow):
    _, problems = count_calls(place, stub, flow)

    assert problems == []


# What `make test` sweeps; `make test-all` sweeps every flow, which takes minutes.
SHORT_SWEEP = frozenset({"paid", "queued", "retried", "refused"})
SWEPT = [pytest.param(flow, id=flow.name, marks=() if flow.name in SHORT_SWEEP else pytest.mark.slow) for flow in FLOWS]


@pytest.mark.parametrize("flow", SWEPT)
def test_no_crash_point_breaks_a_promise(place, stub, flow):
    calls, violations = count_calls(place, stub, flow)
    assert violations == []

    violations = [problem for point in range(2 * calls) for problem in sweep(place, stub, flow, point)]

    report(f"worker/{flow.name}", 2 * calls, violations)
    assert calls > 0 and violations == []


def flow_named(name: str) -> Flow:
    return next(flow for flow in FLOWS if flow.name == name)


def test_the_sweep_notices_a_lost_due_time(place, stub, monkeypatch):
    """A claim without its due time leaves a task that nobody looks at again; the sweep must say so."""
    import piecework.worker.store.executions_table as module

    monkeypatch.setattr(module, "writes_between", lambda *_: [])
    flow = flow_named("queued")

    assert any(sweep(place, stub, flow, point) for point in range(6, 16))


def test_the_sweep_notices_a_frozen_run_that_nobody_takes_over(place, stub, monkeypatch):
    """Neither upon the look that the request asks for, nor by the due time when that request dies before it asks."""
    flow, before_it_asks = flow_named("left_and_frozen"), 10
    monkeypatch.setattr(Attempts, "take", never_taken)
    _, undisturbed = count_calls(place, stub, flow)
    crashed = sweep(place, stub, flow, before_it_asks)

    assert undisturbed[0] == f"left_and_frozen, undisturbed: ended {State.EXECUTING}"
    assert crashed[0] == f"left_and_frozen@10 (nudge): still {State.EXECUTING} after 300 s"


def never_taken(self: Attempts, case: Any) -> Any:
    raise Moved


def test_the_flows_notice_a_run_that_is_left_without_a_look(place, stub, monkeypatch):
    """The due time would find it, a minute later; the request asks for a look at the end of the lease."""
    monkeypatch.setattr(Attempts, "left", lambda self, execution: None)
    _, undisturbed = count_calls(place, stub, flow_named("left_and_frozen"))

    assert undisturbed[0] == f"left_and_frozen, undisturbed: ended {State.EXECUTING}"


def test_the_flows_notice_finished_work_that_is_done_again(place, stub, monkeypatch):
    """A request without time to settle leaves the result to the queue; handing the attempt over would work twice."""
    monkeypatch.setattr(InlineRun, "end", lambda self, done, seconds: self.attempts.hand_over(self.case))
    _, problems = count_calls(place, stub, flow_named("left_to_the_queue"))

    assert problems == ["left_to_the_queue, undisturbed: 2 runs where 1 are right"]


def test_the_sweep_notices_a_settlement_that_is_repeated_blindly(place, stub, monkeypatch):
    """A lapsed settlement taken for one that was never sent is sent twice; the count of calls shows it."""
    from piecework.worker.payment.charging import Charging

    flow = flow_named("paid")
    stage = TappedStage(place, stub, flow)
    monkeypatch.setattr(Charging, "look", lambda self, case: self.settle(case))
    stage.worker.charging.__dict__["facilitator"] = _DiesAfterSettling(stage.worker.facilitator)
    with pytest.raises(Crashed):
        stage.hire(0)
    stage.settle_down(RECOVERY_SECONDS)

    assert stage.settles() > 1 and stage.charges() == 1


class _DiesAfterSettling:
    def __init__(self, real):
        self.real, self.dead = real, False

    def __getattr__(self, name):
        return getattr(self.real, name)

    def settle(self, *arguments):
        answer = self.real.settle(*arguments)
        if not self.dead:
            self.dead = True
            raise Crashed
        return answer
