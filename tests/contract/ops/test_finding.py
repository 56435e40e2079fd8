"""Search by an id over both stores: what is found by which id, how far back, and what a search costs."""

from types import SimpleNamespace
from uuid import uuid4

import pytest

from piecework.aws.pieces_table import PiecesTable
from piecework.clock import DAY_MS
from piecework.durable.pieces import Origin, Pieces, piece_key
from piecework.errors import BadRequest, Forbidden
from piecework.kernel.clocks import new_id
from piecework.ops.finding.answers import MOST_FOUND
from piecework.ops.finding.finder import Finder
from piecework.ops.kernel.finding import EXECUTIONS
from piecework.ops.kernel_routes import KERNEL
from piecework.ops.listing import MOST_LOOKS
from piecework.ops.records import Record
from piecework.ops.store.piece_rows import PieceRowsTable
from piecework.ops.store.record_rows import RecordRowsTable
from piecework.ops.store.worker_rows import WorkerRowsTable
from piecework.webhooks.deliveries import Delivery
from piecework.webhooks.store import work_deliveries
from piecework.worker.record.states import State
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from piecework.worker.webhook.webhooks import event_id_of
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, no_renewal
from tests.support.kernel.stage import GATED, KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.ops.kernel import KernelOps
from tests.support.ops.requests import NOBODY, VIEWER
from tests.support.ops.rows import FakePieceRows, a_listed_piece
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions, ListedContracts, a_task
from tests.support.ops.verbs import FakeRecordRows
from tests.support.worker.contracts import a_record
from tests.support.worker.records import moved

TASK = "task_ABCDEFGHJKMNPQRSTVWXYZ0123"
NONCE, NAMED, PAID = (f"0x{letter * 64}" for letter in "abc")
PAYER = f"0x{'Fe' * 20}"
LONG = "x" * 200
UNTIMED = {"at_ms": None, "is_whole": True}
RECORD = Record("ab" * 16, START_MS, "ann", "webhook.resend", "ctr_1/evt_1", "why")
BY_KEY = 6  # requests of a search that needs no list, at most


class Shelf:
    """A finder, and stores that write what it finds."""

    def __init__(self, clock, pieces, records, tasks, executions, contracts, deliveries, client=None):
        self.clock, self.pieces, self.records, self.tasks = clock, pieces, records, tasks
        self.executions, self.contracts, self.deliveries, self.client = executions, contracts, deliveries, client
        self.finder = Finder(pieces, records, tasks, clock)

    def ask(self, wanted, **query):
        return self.finder.find(VIEWER, {"id": [wanted], **{name: [str(one)] for name, one in query.items()}})

    def found(self, wanted, **query):
        return [(one["kind"], one["id"], one["by"], one["of"]) for one in self.ask(wanted, **query)["items"]]

    def claim(self, *ids, caller="kernel"):
        """The key of a piece that runs."""
        key, origin = piece_key("runtime", caller, *ids), Origin(caller, "echo", ids)
        self._claim(key, origin)
        return key

    def _claim(self, key, origin):
        short = origin._replace(ids=tuple(map(self.pieces.shown, origin.ids)))
        self.pieces.add(key, a_listed_piece(self.clock(), origin=short))


class InDynamoDB(Shelf):
    def __init__(self, aws, clock):
        client = Counted(aws.client("dynamodb"))
        results, work, contracts = (aws.new_table(name) for name in ("ResultsTable", "WorkTable", "ContractsTable"))
        self.table = PiecesTable(client, results)
        super().__init__(
            clock,
            PieceRowsTable(client, results),
            RecordRowsTable(client, results),
            WorkerRowsTable(client, work, contracts),
            ExecutionsTable(client, work, aws.new_table("DueTable"), clock),
            ContractsTable(client, contracts, clock),
            work_deliveries(client, work, clock),
            client,
        )

    def _claim(self, key, origin):
        Pieces(self.table, FakeOverflow(), clock=self.clock, renewal=no_renewal).claim(key, "print", origin)


def in_memory(clock):
    rows = FakeWorkerRows()
    stores = (KeptExecutions(rows, clock), ListedContracts(rows, clock), rows.hooks)
    return Shelf(clock, FakePieceRows(), FakeRecordRows(), rows, *stores)


@pytest.fixture
def clock():
    return FakeClock(START_MS)


@pytest.fixture(params=["fake", "dynamodb"])
def shelf(request, clock):
    return in_memory(clock) if request.param == "fake" else InDynamoDB(request.getfixturevalue("embedded_aws"), clock)


def hire(shelf, contract_id="ctr_1", **members):
    """A task whose payment was taken."""
    given = {"task_id": TASK, "payer": PAYER, "claim_key": f"8453/0xasset/{PAYER}/{NONCE}", "generation": 3, **members}
    task = a_task(contract_id, **given)
    shelf.executions.claim(None, task)
    settling = moved(task, State.SETTLING, payment_status="settling", hashes=(NAMED,), settle_calls=1)
    shelf.executions.move(task, settling)
    receipt = {"success": True, "transaction": PAID, "network": "base", "payer": PAYER}
    shelf.executions.move(settling, moved(settling, State.COMPLETED, payment_status="settled", receipt=receipt))
    return task


def test_what_has_the_id_as_its_key_is_found_without_a_look_into_lists(shelf):
    key, task, record = shelf.claim("t", "e", "a"), hire(shelf), a_record(START_MS, contract_id="ctr_signed")
    shelf.records.put(RECORD, START_MS // 1000 + 9)
    shelf.contracts.put(record)

    assert shelf.found(key) == [("piece", key, "key", None)]
    assert shelf.found(task.contract_id) == [("task", "ctr_1", "contract_id", None)]
    assert shelf.found("ctr_signed") == [("contract", "ctr_signed", "contract_id", None)]
    assert shelf.found(RECORD.record_id) == [("record", RECORD.record_id, "record_id", RECORD.target)]
    assert {one["since_ms"] for one in shelf.ask("ctr_signed")["looked"]} == {None}
    if shelf.client:
        for wanted in (key, "ctr_1", RECORD.record_id):
            shelf.client.take()
            shelf.ask(wanted)
            assert shelf.client.take() <= BY_KEY


def test_a_piece_is_found_by_each_of_its_callers_ids_and_by_a_long_one(shelf):
    key = shelf.claim("t-1", LONG, "=odd")
    shelf.claim("t-2", "e-2", "a-2")

    for wanted, by in (("t-1", "task_id"), (LONG, "execution_id"), ("=odd", "attempt_id")):
        assert shelf.found(wanted) == [("piece", key, by, None)]
        assert [one["is_whole"] for one in shelf.ask(wanted)["items"]] == [wanted != LONG]
    assert shelf.found("t-3") == []


def test_what_agrees_with_the_beginning_of_a_long_id_only_says_so(shelf):
    key = shelf.claim("t-1", LONG, "a-1")

    for other in (LONG + "x", LONG[:78] + "…" * 9, shelf.pieces.shown(LONG)):
        assert [(one["id"], one["is_whole"]) for one in shelf.ask(other)["items"]] == [(key, False)]
    assert shelf.ask(LONG[:70])["items"] == []


def test_a_task_is_found_by_each_of_its_ids(shelf):
    hire(shelf)
    other = {"task_id": TASK[:-1] + "4", "claim_key": f"8453/0xasset/0xother/{NONCE[:-1]}d", "payer": "0x" + "9" * 40}
    shelf.executions.claim(None, a_task("ctr_2", **other))

    for wanted, by in {
        TASK: "task_id",
        NONCE.upper().replace("0X", "0x"): "nonce",
        NAMED: "transaction",
        PAID: "transaction",
        PAYER.lower(): "payer",
        event_id_of(TASK, 3, "completed"): "event_id",
    }.items():
        answer = shelf.ask(wanted)
        assert answer["items"] == [{"kind": "task", "id": "ctr_1", "by": by, "of": None, **UNTIMED}]
        assert by in {one["by"] for one in answer["looked"]}
        assert shelf.found(wanted[:-1] + ("e" if wanted[-1] != "e" else "f")) == []


def test_a_task_is_found_by_the_transaction_that_paid_it_back(shelf):
    begun = hire(shelf, "ctr_back")
    standing = shelf.tasks.executions([begun.contract_id])[begun.contract_id]
    back = "0x" + "d" * 64
    shelf.executions.move(standing, standing.paid_back({"transaction": back}))

    assert shelf.found(back) == [("task", "ctr_back", "transaction", None)]


def test_a_record_that_is_found_says_its_time_so_that_a_list_can_begin_there(shelf):
    shelf.records.put(RECORD, START_MS // 1000 + 9)

    assert shelf.ask(RECORD.record_id)["items"][0]["at_ms"] == RECORD.at_ms


def test_a_webhook_that_is_kept_is_found_by_its_event(shelf):
    task = hire(shelf)
    event_id = event_id_of(TASK, task.generation, "completed")
    shelf.deliveries.put(Delivery("ctr_1", event_id, "https://seeker.invalid/", b"{}"))

    assert shelf.found(event_id) == [("webhook", event_id, "event_id", "ctr_1")]


def test_a_contract_is_found_by_its_hash(shelf):
    record = a_record(START_MS, contract_id=f"ctr_{uuid4().hex[:12]}")
    shelf.contracts.put(record)

    assert shelf.found(record.hash) == [("contract", record.contract_id, "hash", None)]


def test_lists_are_looked_through_some_days_at_once_and_then_on_from_there(shelf, clock):
    key = shelf.claim("t-old", "e", "a")
    clock.move(6 * DAY_MS // 1000)
    looked = shelf.ask("t-old")
    assert looked["items"] == []
    [since_ms] = {one["since_ms"] for one in looked["looked"]}

    assert clock() - 6 * DAY_MS < since_ms < clock() - 2 * DAY_MS
    assert shelf.found("t-old", until_ms=since_ms) == [("piece", key, "task_id", None)]


def test_a_search_reads_a_bounded_part_of_each_list(shelf):
    for number in range(MOST_FOUND + 5):
        shelf.claim("t-same", "e", str(number))

    assert len(shelf.found("t-same")) == MOST_FOUND
    if shelf.client:
        for wanted, lists in (("nothing", 1), (TASK, 2), (PAID, 2), ("sha256:" + "0" * 64, 2)):
            shelf.client.take()
            shelf.ask(wanted)
            assert shelf.client.take() <= lists * (MOST_LOOKS + MOST_LOOKS // 4)


def test_without_a_worker_door_its_ids_are_not_looked_for(shelf):
    hire(shelf)
    finder = Finder(shelf.pieces, shelf.records, None, shelf.clock)

    for wanted in ("ctr_1", TASK, PAID):
        answer = finder.find(VIEWER, {"id": [wanted]})
        assert answer["items"] == [] and {one["kind"] for one in answer["looked"]} == {"piece"}


SENSELESS = ("", "  ", "a\x1f", "\x85a", "x" * 513, "é" * 300, "a\nb", "\x00", "\x9b", "\ud800")
HOSTILE = [
    *({"id": [one]} for one in SENSELESS),
    *({}, {"id": ["a", "b"]}, {"id": ["a"], "kind": ["x"]}, {"id": ["a"], "until_ms": ["x"]}),
]


@pytest.mark.parametrize("query", HOSTILE)
def test_what_cannot_be_an_id_is_refused(query):
    with pytest.raises(BadRequest):
        in_memory(FakeClock(START_MS)).finder.find(VIEWER, query)


def test_a_search_is_for_those_who_may_read():
    with pytest.raises(Forbidden):
        in_memory(FakeClock(START_MS)).finder.find(NOBODY, {"id": ["a"]})


@pytest.fixture(params=["fake", "dynamodb"])
def stage(request, clock):
    if request.param == "fake":
        return KernelStage(clock=clock)
    aws = request.getfixturevalue("embedded_aws")
    return KernelStage(store=new_tables(aws, clock, client=Counted(aws.client("dynamodb"))), clock=clock)


@pytest.fixture
def ops(stage):
    return KernelOps(desk=SimpleNamespace(stage=stage))


def in_kernel(ops, wanted, **query):
    answer = ops.get(f"{KERNEL}/find", id=wanted, **query)
    return [(one["kind"], one["id"], one["by"], one["of"]) for one in answer["items"]]


def test_executions_agents_and_runners_are_found_by_their_ids(stage, ops):
    stage.runner("geo 1/ü")
    execution_id = stage.create({"n": 1}, "Order Desk")

    assert in_kernel(ops, execution_id) == [("execution", execution_id, "execution_id", None)]
    assert in_kernel(ops, "geo 1/ü") == [("runner", "geo 1/ü", "runner_id", None)]
    assert in_kernel(ops, "Order Desk") == [("agent", "Order Desk", "execution", None)]
    stage.agent("Order Desk")
    assert in_kernel(ops, "Order Desk") == [("agent", "Order Desk", "agent_id", None)]
    assert in_kernel(ops, "nobody") == []
    for path, name, one in (("agents", "agent_id", "Order Desk"), ("runners", "runner_id", "geo 1/ü")):
        assert [each[name] for each in ops.get(f"{KERNEL}/{path}", **{name: one})[path]] == [one]
        assert ops.get(f"{KERNEL}/{path}", **{name: "nobody"}) == {path: [], "next_cursor": ""}


def test_steps_and_approvals_are_found_by_the_steps_id(stage, ops, clock):
    agent = stage.agent()
    first = stage.create({"n": 1})
    session = agent.take("execution.assigned")
    clock.move(60)
    step = stage.invoke(session)
    assert in_kernel(ops, step) == [("step", step, "step_id", first)]
    stage.report(session, step, data=1)
    clock.move(60)
    asked = stage.invoke(session, GATED)
    for number in range(3):
        stage.create({"n": number}, "other")
        clock.move(1)

    assert in_kernel(ops, asked) == [("approval", asked, "step_id", first)]
    stage.cancel(first)
    assert in_kernel(ops, asked) == [("approval", asked, "step_id", first)]
    assert in_kernel(ops, step) == [("step", step, "step_id", first)]
    assert in_kernel(ops, new_id(clock())) == []


def test_a_step_is_looked_for_in_a_bounded_number_of_executions_and_then_on(stage, ops, clock, monkeypatch):
    monkeypatch.setattr("piecework.ops.kernel.finding.EXECUTIONS", 3)
    agent = stage.agent()
    first = stage.create({"n": 1})
    session = agent.take("execution.assigned")
    for number in range(4):
        clock.move(1)
        stage.create({"n": number}, "other")
    step = stage.invoke(session)

    answer = ops.get(f"{KERNEL}/find", id=step)
    [since_ms] = {one["since_ms"] for one in answer["looked"] if one["by"] == "step_id"}
    assert answer["items"] == [] and since_ms == START_MS + 2_000
    assert in_kernel(ops, step, until_ms=since_ms) == [("step", step, "step_id", first)]


def test_a_notice_that_a_webhook_told_of_leads_to_its_approval(ops, clock):
    for number in (1, 2):
        body = f'{{"notice": "needed", "step_id": "st-{number}"}}'.encode()
        ops.hooks.put(Delivery(f"ex-{number}", f"{number:032x}", "", body, name="desk"))
        clock.move(1)

    answer = ops.get(f"{KERNEL}/find", id=f"{1:032x}")
    assert answer["items"] == [{"kind": "approval", "id": "st-1", "by": "notice_id", "of": "ex-1", **UNTIMED}]
    assert answer["looked"][-1] == {"kind": "approval", "by": "notice_id", "since_ms": None}
    assert in_kernel(ops, "f" * 32) == in_kernel(ops, f"{1:032x}", until_ms=START_MS - 1) == []


def test_a_notice_is_looked_for_further_back_though_some_of_the_newest_webhooks_are_gone(ops, clock, monkeypatch):
    monkeypatch.setattr("piecework.ops.kernel.finding.WEBHOOKS", 3)
    for number in range(1, 6):
        clock.move(1)
        ops.hooks.put(Delivery("ex-1", f"{number:032x}", "", b'{"step_id": "st-1"}', name="desk"))
    for number in (5, 3):
        ops.hooks.lose("ex-1", f"{number:032x}")

    answer = ops.get(f"{KERNEL}/find", id=f"{1:032x}")
    assert (answer["items"], answer["looked"][-1]["since_ms"]) == ([], START_MS + 3_000)
    assert in_kernel(ops, f"{1:032x}", until_ms=START_MS + 3_000) == [("approval", "st-1", "notice_id", "ex-1")]


def test_a_search_in_the_kernel_costs_a_bounded_number_of_requests(clock, embedded_aws):
    client = Counted(embedded_aws.client("dynamodb"))
    stage = KernelStage(store=new_tables(embedded_aws, clock, client=client), clock=clock)
    ops = KernelOps(desk=SimpleNamespace(stage=stage))
    agent = stage.agent()
    stage.create({"n": 1})
    step = stage.invoke(agent.take("execution.assigned"), GATED)
    costs = {}
    for name, wanted in {
        "execution": stage.create(),
        "nothing": "x",
        "approval": step,
        "step": new_id(clock()),
    }.items():
        client.take()
        in_kernel(ops, wanted)
        costs[name] = client.take()

    assert costs == {"execution": 4, "nothing": 4, "approval": 6, "step": 11}
    assert set(client.sent) <= {"get_item", "batch_get_item", "query"} and EXECUTIONS <= 200  # two reads of 100


def is_in_an_event(query):
    """Whether these tests can send it: one value of each name, in UTF-8."""
    return all(len(values) == 1 and "\ud800" not in values for values in query.values())


@pytest.mark.parametrize("query", [query for query in HOSTILE if is_in_an_event(query)])
def test_what_cannot_be_an_id_is_refused_in_the_kernel_too(query, clock):
    ops = KernelOps(desk=SimpleNamespace(stage=KernelStage(clock=clock)))
    answer = ops.ask("viewer", "GET", f"{KERNEL}/find", **{name: values[0] for name, values in query.items()})

    assert (answer.status, answer.body["code"]) == (400, "bad_request")
