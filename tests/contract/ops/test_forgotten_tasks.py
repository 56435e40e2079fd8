"""Contracts that are forgotten: only the money of what they were about stays; nobody works or pays again."""

import copy
import json
import secrets
from dataclasses import replace

import pytest

from local.facilitator.ledger import Transfer
from piecework.aws.bucket import OverflowBucket
from piecework.aws.due_table import DueTable
from piecework.aws.steps_table import work_steps
from piecework.clock import DAY_MS
from piecework.durable.due import Due
from piecework.errors import LeaseLost, NotFound, Retryable, Unavailable
from piecework.executors import Outcome, Refused
from piecework.ops.forgetting.erasing import BUDGET_MS, SETTLES_MS, StillNeeded
from piecework.ops.forgetting.tasks import ForgetTasks
from piecework.ops.store.forgotten_tasks import ForgettableTasksTable
from piecework.ops.store.letters import KeptHooks
from piecework.ops.store.objects import ErasedObjects
from piecework.webhooks.deliveries import Try
from piecework.webhooks.sending import Sender
from piecework.webhooks.store import work_deliveries
from piecework.worker.contract.contracts import record_of, time_text
from piecework.worker.payment.terms import LONGEST_SECONDS
from piecework.worker.record.execution import WEBHOOK_DUE
from piecework.worker.record.executions import Moved
from piecework.worker.record.states import State
from piecework.worker.record.values import Settlement
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.deliverables_bucket import DeliverablesBucket
from piecework.worker.store.executions_table import ExecutionsTable
from piecework.worker.store.stream_table import StreamTable
from piecework.worker.stream.streams import Recording, stream_of
from piecework.worker.wiring import WorkerDoor
from tests.support.ops.forgetting import OLGA
from tests.support.worker.contracts import EXAMPLE
from tests.support.worker.handlers import EMULATED_KEY
from tests.support.worker.payments import header
from tests.support.worker.stage import Stage, stub_facilitator

SECRET = "what-nobody-may-know"
LONG = SECRET * 1_000  # does not lie in the table
BODY = {"brief": LONG}


@pytest.fixture(scope="module")
def stub():
    with stub_facilitator() as running:
        yield running


class Hired(Stage):
    """The worker door over the embedded AWS, and who forgets what it keeps."""

    def __init__(self, aws, stub):
        stub.reset()
        self.client, self.s3, self.bucket = aws.client("dynamodb"), aws.client("s3"), aws.new_bucket()
        self.work, self.of_contracts, self.dues = map(aws.new_table, ("WorkTable", "ContractsTable", "DueTable"))
        self.asked = []
        super().__init__(
            stub,
            inline=False,
            ports={
                "executions": ExecutionsTable(self.client, self.work, self.dues),
                "due_times": DueTable(self.client, self.dues),
                "files": DeliverablesBucket(lambda: self.s3, self.bucket, key=EMULATED_KEY),
                "texts": OverflowBucket(lambda: self.s3, self.bucket),
                "steps": work_steps(self.client, self.work),
                "stream_log": StreamTable(self.client, self.work),
                "listener": Recording(StreamTable(self.client, self.work), unpaid_output=True),
                "ask_webhook": lambda wanted, seconds: self.asked.append(wanted),
                "announce": lambda *given: WorkerDoor.announce(self.worker, *given),
            },
        )
        self.contracts = ContractsTable(self.client, self.of_contracts, self.clock)
        self.deliveries = work_deliveries(self.client, self.work, self.clock)
        vars(self.worker).update(contracts=self.contracts, deliveries=self.deliveries)
        self.rows = ForgettableTasksTable(self.client, self.work, self.of_contracts, self.clock)
        objects = ErasedObjects(lambda: self.s3, self.bucket)
        self.forgets = ForgetTasks(self.rows, objects, self.clock, self.clock.sleep)
        self.do = self.tell

    def tell(self, task, run):
        """Say everything that a task can say."""
        run.progress(50, SECRET)
        run.step(SECRET, lambda: {"said": SECRET})
        run.delta(SECRET)
        run.item({"part": LONG})
        run.artifact("plan.txt", SECRET.encode(), "text/plain")
        return Outcome({"score": 7, "nonce": LONG})

    def signed(self, name=""):
        document = copy.deepcopy(EXAMPLE)
        document["contract_id"] = name or f"ctr_{secrets.token_hex(8)}"
        document["terms"]["deadline"] = time_text(self.clock() + 30 * DAY_MS)
        document["task"]["description"] = SECRET
        document["callbacks"] = {"webhook_url": f"https://seeker.example/{SECRET}"}
        document["private"] = {"note": SECRET}
        key = "whsec_" + "c2VjcmV0" * 6
        record = record_of(document, key, attempts=2, source="import", stored_at_ms=self.clock())
        self.contracts.put(record)
        return record

    def done(self):
        contract = self.signed()
        answer = self.post(contract, BODY, self.pay(contract))
        assert answer.status == 200, answer.text
        return contract, answer.body["task_id"]

    def forget(self, contract, **given):
        return self.forgets.forget(contract.contract_id, OLGA._replace(**given))

    def table(self, name):
        found = self.client.scan(TableName=name)
        assert "LastEvaluatedKey" not in found
        return found["Items"]

    def left(self):
        """Every row, and every object's key and bytes."""
        keys = [one["Key"] for one in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]
        bodies = [self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys]
        return str([self.table(name) for name in (self.work, self.of_contracts, self.dues)]) + str((keys, bodies))

    def standing_row(self, contract):
        return self.executions.read(contract.contract_id)


@pytest.fixture
def stage(embedded_aws, stub):
    return Hired(embedded_aws, stub)


def test_nothing_of_a_paid_task_is_left_but_its_money(stage):
    contract, _ = stage.done()
    before, left = stage.standing_row(contract), stage.left()
    money = [row for row in stage.table(stage.work) if row["sk"]["S"].startswith("MONEY#")]
    kinds = ("STREAM#", "STEP#", "WEBHOOK#", f"work/{contract.contract_id}/", "deliverables/", "whsec_")
    assert SECRET in left and all(kind in left for kind in kinds) and len(money) >= 2

    answer = stage.forget(contract)

    assert answer == {"state": "COMPLETED", "complete": True, "had_task": True}
    after = stage.left()
    assert SECRET not in after and "whsec_" not in after and "STEP#" not in after
    assert f"work/{contract.contract_id}" not in after and "deliverables/" not in after
    assert before.body_digest not in after
    assert [row for row in stage.table(stage.work) if row["sk"]["S"].startswith("MONEY#")] == money
    assert any(row["pk"]["S"].startswith("CLAIM#") for row in stage.table(stage.work))
    found = stage.standing_row(contract)
    assert (found.settlement, found.payment.claim_key) == (before.settlement, before.payment.claim_key)
    assert (found.task_id, found.state, found.created_at_ms) == (before.task_id, before.state, before.created_at_ms)
    assert found.forgotten.by == "olga" and found.forgotten.record_id == OLGA.record_id and found.forgotten.complete
    assert found.forgotten.ended_at_ms == before.outcome.finished_at_ms
    assert found.expires_at >= before.expires_at
    kept = stage.contracts.get(contract.contract_id)
    assert (kept.hash, kept.atomic, kept.seeker_wallet, kept.network) == (
        *(contract.hash, contract.atomic, contract.seeker_wallet, contract.network),
    )


@pytest.mark.parametrize("body", [BODY, {"brief": "another"}])
def test_a_forgotten_task_is_neither_worked_nor_paid_again(stage, body):
    contract, task = stage.done()
    stage.forget(contract)
    settled, runs, payment = stage.settles(), len(stage.runs), stage.pay(contract)

    for headers in ((), (payment,)):
        answer = stage.post(contract, body, *headers)
        assert (answer.status, answer.body["error"]["code"]) == (410, "CONTRACT_EXPIRED")
        assert "forgotten" in answer.body["error"]["message"]
    assert stage.get(contract, task).status == 404
    stage.settle_down()
    assert (stage.settles(), len(stage.runs)) == (settled, runs)
    assert SECRET not in stage.left()


def test_a_contract_that_nobody_has_paid_for_is_forgotten_and_cannot_be_paid_any_more(stage):
    contract = stage.signed()
    payment = stage.pay(contract)

    assert stage.forget(contract) == {"state": "TIMED_OUT", "complete": True, "had_task": False}

    assert SECRET not in stage.left()
    assert stage.post(contract, BODY, payment).status == 410
    assert stage.runs == [] and stage.settles() == 0 and SECRET not in stage.left()
    assert stage.worker.registration.show(contract.contract_id)["state"] == "SIGNED"


def test_the_same_contract_comes_again_and_its_text_does_not(stage):
    contract, _ = stage.done()
    stage.forget(contract)

    assert stage.contracts.put(contract) == "same"
    assert SECRET not in stage.left()


def test_a_start_that_read_the_contract_before_it_was_forgotten_is_refused(stage):
    contract = stage.signed()
    claim = stage.executions.claim

    def late(before, after):
        stage.forget(contract)
        return claim(before, after)

    stage.executions.claim = late
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 410 and stage.runs == [] and stage.settles() == 0
    rows = [row for row in stage.table(stage.work) if row["pk"]["S"].startswith("CLAIM#")]
    assert rows == []
    stage.forget(contract)  # the input of the one that was refused may lie in the bucket: a repeat erases it
    assert SECRET not in stage.left()


def transfer_of(payload, contract):
    signed = payload["payload"]["authorization"]
    asset, value = contract.network.usdc.lower(), int(signed["value"])
    return Transfer(asset, signed["from"].lower(), signed["to"].lower(), value, signed["nonce"].lower())


def states(stage):
    """Records that must not be forgotten, by why."""
    contract, _ = stage.done()
    done = stage.standing_row(contract)
    of = {state: replace(done, state=state) for state in State if state is not State.NONE}
    working = (State.EXECUTING, State.FAILED_TRANSIENT)
    for state in working:
        yield of[state], "not ended"
    yield of[State.RESULT_READY], "not settled"
    yield of[State.SETTLING], "being settled"
    yield of[State.UNKNOWN], "in doubt"
    yield of[State.UNPAID], "may still be paid"
    yield replace(done, state=State.EXHAUSTED), "owed the payment back"
    yield replace(done, state=State.TIMED_OUT, settlement=Settlement("unresolved")), "not decided"


def test_what_goes_on_or_whose_money_is_not_decided_is_refused_with_why(stage):
    for record, why in list(states(stage)):
        stage.rows.execution = lambda _, record=record: record
        before = stage.left()
        with pytest.raises(StillNeeded, match=why):
            stage.forgets.forget(record.contract_id, OLGA)
        assert stage.left() == before


def test_a_failure_keeps_its_code_and_loses_its_text(stage):
    def refuse(task, run):
        raise Refused(SECRET)

    stage.do = refuse
    contract = stage.signed()
    stage.post(contract, BODY, stage.pay(contract))
    before = stage.standing_row(contract)
    assert before.state is State.FAILED_PERMANENT

    stage.forget(contract)

    after = stage.standing_row(contract)
    assert after.outcome.failure.code == before.outcome.failure.code
    assert SECRET not in stage.left()
    assert stage.post(contract, BODY, stage.pay(contract)).status == 410


def test_a_released_payment_of_a_forgotten_task_is_owed_back_if_somebody_uses_it(stage):
    def refuse(task, run):
        raise Refused(SECRET)

    stage.do = refuse
    contract = stage.signed()
    payload = stage.payload(contract)
    stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(payload)]})
    stage.forget(contract)
    used = stage.stub.ledger.charge(transfer_of(payload, contract))

    stage.clock.move(LONGEST_SECONDS + 120)
    stage.settle_down()

    [row] = [row for row in stage.table(stage.work) if row["pk"]["S"].startswith("LEDGER#")]
    owed = json.loads(row["row"]["S"])
    assert (owed["kind"], owed["atomic"], owed["transaction"]) == ("refund_due", contract.atomic, used.hash)
    assert stage.forget(contract)["complete"] is True and SECRET not in stage.left()


def test_no_webhook_carries_anything_after_its_contract_was_forgotten(stage):
    contract, _ = stage.done()
    [wanted] = stage.asked
    sent = []
    sender = Sender(stage.deliveries, lambda *given: sent.append(given), stage.asked.append, stage.clock)
    execution = stage.standing_row(contract)

    stage.forget(contract)

    assert sender.handle(wanted) == "stale" and sent == []
    assert KeptHooks(stage.deliveries, None).resend(contract.contract_id, wanted.event_id) == "stopped"
    stage.worker.resume.fire(Due(execution.outcome.finished_at_ms, WEBHOOK_DUE, contract.contract_id), 10**15)
    assert SECRET not in stage.left()


def test_a_webhook_that_was_not_kept_yet_is_not_kept_after_its_contract_was_forgotten(stage):
    vars(stage.worker)["announce"] = stage.worker.resume.__dict__["announce"] = lambda *given: None
    contract, _ = stage.done()
    execution, body = stage.standing_row(contract), stage.get(contract, stage.standing_row(contract).task_id).body
    assert "WEBHOOK#" not in stage.left() and SECRET in str(body)
    from piecework.worker.webhook.webhooks import delivery_of

    late = delivery_of(contract, body, generation=1, occurred_at_ms=execution.outcome.finished_at_ms, poll_url="u")
    stage.forget(contract)

    stage.deliveries.put(late)

    assert SECRET not in stage.left()
    assert stage.deliveries.read(contract.contract_id, late.event_id).state == "stopped"
    assert stage.deliveries.is_stopped(contract.contract_id)  # whatever other event somebody may keep


def test_a_try_under_way_changes_nothing_of_a_webhook_that_was_emptied(stage):
    contract, _ = stage.done()
    [wanted] = stage.asked

    def post(*given):
        stage.forget(contract)
        return 500

    sender = Sender(stage.deliveries, post, lambda wanted, seconds: None, stage.clock)
    assert sender.handle(Try(wanted.owner_id, wanted.event_id)) == "failed"

    found = stage.deliveries.read(contract.contract_id, wanted.event_id)
    assert (found.state, found.body, found.secret, found.url) == ("stopped", b"{}", None, "https://seeker.example/")


def test_a_runner_that_comes_back_late_writes_nothing(stage):
    contract, task = stage.done()
    execution = stage.standing_row(contract)
    held = replace(execution, lease=replace(execution.lease, token="late", until_ms=1))
    recording = Recording(StreamTable(stage.client, stage.work), unpaid_output=True)
    recording.progress(held, 10, "before")  # it knows where the stream is
    stage.forget(contract)

    recording.progress(held, 60, SECRET)
    recording.item(held, {"type": "json", "content": SECRET})
    Recording(StreamTable(stage.client, stage.work), unpaid_output=True).delta(held, 0, SECRET)
    with pytest.raises(LeaseLost):
        stage.executions.add_item(contract.contract_id, "late", {"type": "json", "content": SECRET})
    with pytest.raises(Moved):
        stage.executions.move(execution, replace(execution, version=execution.version + 1))
    assert SECRET not in stage.left()
    batch = stage.worker.streams.after(contract.contract_id, task, "")
    assert (list(batch.events), batch.ended) == ([], True)
    assert [event.data for event in StreamTable(stage.client, stage.work).read(stream_of(execution))] != []


def test_the_first_who_asks_stays_named_and_a_repeat_changes_nothing(stage):
    contract, _ = stage.done()
    stage.forget(contract)
    kept = stage.left()
    stage.clock.move(60)

    assert stage.forget(contract, by="oscar")["complete"] is True
    assert stage.left() == kept


@pytest.mark.parametrize("dies_at", [0, 1, 2, 4, 8, 12])
def test_a_repeat_erases_what_a_dead_process_has_left(stage, dies_at):
    contract, task = stage.done()
    calls, rows, objects = [], stage.rows, stage.forgets._objects

    def dying(call):
        def called(*given):
            calls.append(call)
            if len(calls) > dies_at:
                raise Unavailable("the process is killed")
            return call(*given)

        return called

    names = ("move", "reduce", "stop_webhooks", "empty_webhooks", "close_stream", "empty_event", "drop_step")
    for name in names:
        setattr(rows, name, dying(getattr(rows, name)))
    objects.erase = dying(objects.erase)
    try:
        stage.forget(contract)
    except Unavailable:
        if dies_at:
            assert stage.get(contract, task).status == 404
    for name in names:
        delattr(rows, name)
    del objects.erase

    assert stage.forget(contract)["complete"] is True
    assert SECRET not in stage.left()


def test_a_repeat_erases_what_a_call_without_time_has_left(stage):
    contract, _ = stage.done()
    stop = stage.rows.stop_webhooks

    def slow(name):
        stage.clock.move(BUDGET_MS / 1000)
        stop(name)

    stage.rows.stop_webhooks = slow
    assert stage.forget(contract)["complete"] is False
    assert SECRET in stage.left()
    stage.rows.stop_webhooks = stop
    assert stage.forget(contract)["complete"] is True
    assert SECRET not in stage.left()


def test_steps_of_every_attempt_go(stage):
    fails = iter([True])

    def work(task, run):
        run.step(SECRET, lambda: {"said": SECRET})
        if next(fails, False):
            raise Retryable("later")
        return Outcome({"score": 7, "nonce": "n"})

    stage.do = work
    contract = stage.signed()
    stage.post(contract, BODY, stage.pay(contract))
    stage.post(contract, BODY)
    assert stage.left().count("'STEP'") == 2

    stage.forget(contract)

    assert "'STEP'" not in stage.left() and SECRET not in stage.left()


def test_a_step_that_the_index_shows_late_is_erased_too(stage):
    contract, _ = stage.done()
    steps, shown_ms = stage.rows.steps, stage.clock() + SETTLES_MS

    def late(piece):
        return steps(piece) if stage.clock() >= shown_ms else iter([])

    stage.rows.steps = late
    assert stage.forget(contract)["complete"] is True

    assert SECRET not in stage.left() and "'STEP'" not in stage.left()


def test_another_contracts_task_stays_whose_name_begins_alike(stage):
    contract = stage.signed("ctr_alike")
    stage.post(contract, BODY, stage.pay(contract))
    other = stage.signed("ctr_alike2")
    stage.post(other, BODY, stage.pay(other))

    def files():
        return [one["Key"] for one in stage.s3.list_objects_v2(Bucket=stage.bucket)["Contents"]]

    kept = [key for key in files() if "/ctr_alike2/" in key]

    stage.forget(contract)

    assert files() == kept != []
    found = stage.post(other, BODY)
    assert found.status == 200 and SECRET in found.text


def test_what_nobody_has_is_not_forgotten(stage):
    with pytest.raises(NotFound):
        stage.forgets.forget("ctr_nobody", OLGA)
    assert stage.table(stage.work) == []
