"""A payment in doubt at the operator's door: what is shown, and that nobody decides on something else than he saw."""

import json
import re

import pytest

from piecework.errors import BadRequest, Conflict, Forbidden, NotFound
from piecework.ops.money.asking import OF_ONE_PAYMENT, TooOften
from piecework.ops.money.payments import MOST_CALLS, PaymentVerbs, bounded
from piecework.ops.records import Records
from piecework.worker.chain.bounded import BoundedChain
from piecework.worker.chain.networks import BASE, BASE_SEPOLIA
from piecework.worker.chain.rpc import Block, ChainUnavailable
from piecework.worker.payment.doubts import Doubts
from piecework.worker.record.execution import WEBHOOK_DUE
from piecework.worker.record.states import State
from tests.support.fakes import FakeClock
from tests.support.ops.requests import NOBODY, OPERATOR, VIEWER
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions
from tests.support.ops.verbs import FakeRecordRows
from tests.support.worker.stage import BODY, Stage, stub_facilitator

WHY = {"reason": "the facilitator lost it"}
TRANSACTION = "0x" + "ab" * 32
NOTHING_SEEN = "0" * 64
HOOKED = {"callbacks": {"webhook_url": "https://seeker.example/hook"}}


class Bench:
    """A worker with one payment that nobody could tell anything about, and the operator's door over its stores."""

    def __init__(self, stub, word="lost-cut", executor="probe", **stage):
        self.stage = Stage(stub, **stage)
        self.rows = FakeRecordRows()
        numbers = iter(range(1, 99))
        records = Records(self.rows, self.stage.clock, lambda: f"{next(numbers):032x}")
        worker = self.stage.worker
        self.doubts = Doubts(self.stage.contracts, self.stage.executions, worker.charging)
        self.verbs = PaymentVerbs(records, lambda: self.doubts)
        self.contract = self.stage.contract(executor, **HOOKED)
        self.name = self.contract.contract_id
        stub.say("settle", word)
        stub.say("rpc", "500")
        self.stage.post(self.contract, BODY, self.stage.pay(self.contract))

    def give_up(self, minutes=1):
        """The authorization ends, and the worker still does not know; by now the node answers."""
        self.stage.settle_down(60 * minutes)
        self.stage.clock.move(self.stage.terms(self.contract).max_timeout_seconds + 2_400)
        self.stage.sweep()
        self.stage.stub.say("rpc", "ok")
        assert self.standing.settlement.status == "unresolved"
        return self

    @property
    def standing(self):
        return self.stage.standing(self.contract)

    @property
    def transaction(self):
        return next(iter(self.stage.stub.ledger.transactions))

    @property
    def outcomes(self):
        return [record.outcome for record in self.rows.kept.values()]

    def evidence(self):
        return self.verbs.evidence(OPERATOR, self.name, {})

    def resolve(self, decision, token=None, caller=OPERATOR, **members):
        token = token or self.evidence()["evidence"]
        return self.verbs.resolve(caller, self.name, {"decision": decision, "evidence": token, **WHY, **members})


@pytest.fixture
def stub():
    with stub_facilitator() as running:
        yield running


@pytest.fixture
def bench(stub):
    return Bench(stub).give_up()


def test_the_evidence_shows_the_chain_and_what_each_answer_leads_to_but_nothing_that_can_be_spent(bench):
    shown = bench.evidence()

    assert (shown["payment"], shown["price"], shown["atomic"]) == ("unresolved", "5 USDC on base", "5000000")
    assert (shown["chain"]["nonce"], shown["chain"]["paid_by"]) == ("spent", bench.transaction)
    assert (shown["chain"]["stale"], shown["chain"]["decision"]) == (None, "Paid")
    assert shown["chain"]["seconds_behind"] < 10
    assert shown["answers"]["paid"] == {"is_shown": True, "leads_to": "COMPLETED", "then": "the result is released"}
    assert (shown["answers"]["not_paid"]["is_shown"], shown["answers"]["not_paid"]["leads_to"]) == (False, "UNPAID")
    assert shown["can_be_decided"] is True and re.fullmatch("[0-9a-f]{64}", shown["evidence"])
    payment = json.loads(bench.standing.payment.document)
    assert payment["payload"]["signature"] not in str(shown) and bench.standing.task_id not in str(shown)
    assert bench.rows.kept == {}


def test_what_was_seen_is_decided_with_all_that_follows_and_with_who_and_why(bench):
    settles = bench.stage.settles()

    answer = bench.resolve("paid", transaction=bench.transaction)

    standing = bench.standing
    assert (answer["state"], answer["payment"]) == ("COMPLETED", "settled")
    assert standing.settlement.resolution == answer["resolved"]
    said = {name: answer["resolved"][name] for name in ("by", "operator", "reason", "paid")}
    assert said == {"by": "evidence", "operator": "operator", **WHY, "paid": bench.transaction}
    [record] = bench.rows.kept.values()
    assert (record.verb, record.target, record.by, record.reason) == (
        "payment.resolve",
        bench.name,
        "operator",
        WHY["reason"],
    )
    assert record.outcome["state"] == "COMPLETED" and answer["record_id"] == record.record_id
    assert [row.kind for row in bench.stage.executions.rows] == ["platform_fee_due"]
    assert WEBHOOK_DUE in {due.kind for due in bench.stage.due.rows}
    told = bench.stage.post(bench.contract)
    assert told.status == 200 and bench.stage.settles() == settles
    assert WHY["reason"] not in told.text and "operator" not in told.text  # what operators say is not the seeker's


def test_not_paid_lets_the_seeker_sign_anew_and_watches_the_released_payment(stub):
    bench = Bench(stub, "500").give_up()

    assert bench.evidence()["answers"]["not_paid"]["is_shown"] is True
    assert bench.resolve("not_paid")["state"] == "UNPAID"
    assert bench.standing.payment.claim_status == "released"
    assert "released" in {due.kind for due in bench.stage.due.rows}


@pytest.mark.parametrize(
    ("executor", "decision", "then", "ends"),
    [
        ("upfront", "paid", "its time is over, so it ends and the payment is owed back", True),
        ("upfront", "not_paid", "its time is over, so it ends unpaid, and no further payment is asked for", False),
        ("probe", "not_paid", "its time is over, so it ends unpaid, and no further payment is asked for", False),
    ],
)
def test_what_follows_a_decision_after_the_tasks_end_is_its_end(stub, executor, decision, then, ends):
    bench = Bench(stub, executor=executor).give_up(minutes=5)
    assert "over" not in bench.evidence()["answers"][decision]["then"]
    bench.stage.clock.now_ms = bench.standing.ends_at_ms

    shown = bench.evidence()["answers"]
    paid = {"transaction": bench.transaction} if decision == "paid" else {"override": bench.name}
    answer = bench.resolve(decision, **paid)
    bench.stage.sweep()

    assert shown[decision]["then"] == then and shown[decision]["leads_to"] == answer["state"]
    assert (bench.standing.state, bench.standing.owes_refund) == (State.TIMED_OUT, ends)
    assert bench.stage.post(bench.contract).status == 504


def test_a_result_is_released_however_late_the_decision_comes(bench):
    bench.stage.clock.now_ms = bench.standing.ends_at_ms + 9_000

    assert bench.evidence()["answers"]["paid"]["then"] == "the result is released"
    assert bench.resolve("paid", transaction=bench.transaction)["state"] == "COMPLETED"
    assert bench.stage.post(bench.contract).status == 200


def test_a_decision_stands_with_the_move_that_it_made_and_with_no_later_payment(stub):
    rows, clock = FakeWorkerRows(), FakeClock()
    kept = KeptExecutions(rows, clock)
    bench = Bench(stub, "500", clock=clock, ports={"executions": kept, "due_times": kept.due}).give_up()
    done = bench.resolve("not_paid")["resolved"]
    with pytest.raises(Conflict, match=r"the payment is failed; operator decided at .*: not paid; nothing"):
        bench.evidence()
    stub.say("settle", "ok")
    bench.stage.post(bench.contract, BODY, bench.stage.pay(bench.contract))

    moves = rows.moves(bench.name, 99)
    assert [move.payment for move in moves][:4] == ["settled", "settling", "authorized", "failed"]
    assert [move.resolution for move in moves if move.resolution] == [done] == [moves[3].resolution]
    assert bench.standing.settlement.resolution == done  # the record keeps the last word
    with pytest.raises(Conflict, match=r"^the payment is settled; nothing about it is in doubt$"):
        bench.evidence()


def test_work_that_is_paid_before_it_is_done_begins(stub):
    bench = Bench(stub, executor="upfront").give_up(minutes=5)

    assert bench.evidence()["answers"]["paid"]["leads_to"] == "EXECUTING"
    assert bench.resolve("paid", transaction=bench.transaction)["state"] == "EXECUTING"


def test_a_decision_on_other_evidence_than_was_shown_is_refused_and_nothing_moves(bench):
    seen = bench.evidence()["evidence"]
    before = bench.standing
    bench.stage.stub.say("rpc", "500")  # what the chain says now is another thing

    for token in (NOTHING_SEEN, seen):
        with pytest.raises(Conflict, match="look at it again"):
            bench.resolve("paid", token, transaction=bench.transaction)
    assert bench.standing == before
    assert bench.outcomes == [{"failed": "conflict"}] * 2


def test_evidence_that_says_the_same_at_a_later_block_is_the_same(bench):
    seen = bench.evidence()
    bench.stage.clock.move(20)
    later = bench.evidence()

    assert later["chain"]["block"] > seen["chain"]["block"]
    assert later["evidence"] == seen["evidence"]


def test_evidence_of_a_record_that_moved_on_is_another_one(bench):
    seen, execution = bench.evidence()["evidence"], bench.standing
    bench.stage.executions.move(execution, execution.unknown(execution.settlement, 0))

    assert bench.evidence()["evidence"] != seen
    with pytest.raises(Conflict, match="look at it again"):
        bench.resolve("paid", seen, transaction=bench.transaction)


def test_a_second_decision_is_refused_and_says_who_decided_and_what(bench):
    token = bench.evidence()["evidence"]
    bench.resolve("paid", token, transaction=bench.transaction)

    with pytest.raises(Conflict, match=f"settled; operator decided at .*: paid by {bench.transaction}"):
        bench.resolve("not_paid", token)
    with pytest.raises(Conflict, match="nothing about it is in doubt"):
        bench.evidence()
    assert bench.standing.state is State.COMPLETED


@pytest.mark.parametrize(("decision", "members"), [("paid", {"transaction": TRANSACTION}), ("not_paid", {})])
def test_what_the_chain_does_not_show_needs_the_contract_once_more_and_is_recorded_so(bench, decision, members):
    with pytest.raises(Conflict, match="does not show"):
        bench.resolve(decision, **members)
    assert bench.standing.settlement.status == "unresolved"

    assert bench.resolve(decision, **members, override=bench.name)["resolved"]["by"] == "override"


def test_a_node_that_does_not_answer_is_shown_as_such_and_only_an_override_decides(bench):
    bench.stage.stub.say("rpc", "500")
    shown = bench.evidence()

    assert shown["chain"]["nonce"] == "unknown: the node does not answer"
    assert not shown["answers"]["paid"]["is_shown"] and not shown["answers"]["not_paid"]["is_shown"]
    with pytest.raises(Conflict):
        bench.resolve("not_paid")
    assert bench.resolve("not_paid", override=bench.name)["state"] == "UNPAID"


def test_a_payment_that_the_worker_still_looks_at_is_shown_and_not_decided(stub):
    bench = Bench(stub)
    stub.say("rpc", "ok")

    assert bench.evidence()["can_be_decided"] is False
    with pytest.raises(Conflict, match="only an unresolved one"):
        bench.resolve("paid", transaction=bench.transaction)


def test_without_a_node_it_is_said_what_to_set(bench):
    bench.stage.worker.charging.__dict__["chain_of"] = lambda network: None

    for ask in (bench.evidence, lambda: bench.resolve("not_paid", NOTHING_SEEN)):
        with pytest.raises(Conflict, match="BaseRpcUrl"):
            ask()
    assert bench.standing.settlement.status == "unresolved"


def test_on_a_test_network_the_facilitators_word_is_shown(stub):
    bench = Bench(stub, "500", with_chain=False)
    stub.say("verify", "500")
    bench.give_up()
    stub.say("verify", "insufficient")

    chain = bench.evidence()["chain"]
    assert chain["nonce"] == "unknown: only a node tells it" and chain["facilitator"] not in (None, "valid")


@pytest.fixture
def unasked():
    """The verbs where nothing may be asked."""
    rows = FakeRecordRows()
    return rows, PaymentVerbs(Records(rows, FakeClock(), lambda: "0" * 32), lambda: pytest.fail("asked"))


@pytest.mark.parametrize("caller", [VIEWER, NOBODY], ids=["viewer", "agent"])
def test_only_operators_look_and_decide_and_nothing_is_asked_or_recorded_for_others(unasked, caller):
    rows, verbs = unasked

    with pytest.raises(Forbidden):
        verbs.evidence(caller, "ctr_1", {})
    with pytest.raises(Forbidden):
        verbs.resolve(caller, "ctr_1", {"decision": "not_paid", "evidence": NOTHING_SEEN, **WHY})
    assert rows.kept == {}


@pytest.mark.parametrize(
    "members",
    [
        {"decision": "maybe"},
        {"decision": None},
        {"decision": "paid"},
        {"decision": "paid", "transaction": "0x12"},
        {"decision": "paid", "transaction": [TRANSACTION]},
        {"decision": "not_paid", "transaction": TRANSACTION},
        {"decision": "not_paid", "evidence": "g" * 64},
        {"decision": "not_paid", "evidence": None},
        {"decision": "not_paid", "override": "ctr_another"},
        {"decision": "not_paid", "override": True},
        {"decision": "not_paid", "reason": " "},
        {"decision": "not_paid", "force": True},
    ],
)
def test_a_word_without_meaning_is_refused_before_anything_is_asked_or_recorded(unasked, members):
    rows, verbs = unasked

    with pytest.raises(BadRequest):
        verbs.resolve(OPERATOR, "ctr_1", {"evidence": NOTHING_SEEN, **WHY, **members})
    assert rows.kept == {}


def test_a_contract_without_a_task_is_not_found(bench):
    for name in ("ctr_unknown", "no id", "ctr_~"):
        with pytest.raises(NotFound):
            bench.verbs.evidence(OPERATOR, name, {})


def test_the_node_is_not_asked_as_often_as_somebody_likes(bench):
    for _ in range(int(OF_ONE_PAYMENT.burst)):
        bench.evidence()
    with pytest.raises(TooOften):
        bench.evidence()


class Endless:
    """A node that always says something."""

    asked = 0

    def latest(self):
        self.asked += 1
        return Block(1, 1)

    receipt = nonce_spent = nonce_logs = lambda self, *given: self.latest()


def test_a_chain_in_bounds_is_asked_so_often_and_so_long():
    node, clock = Endless(), FakeClock(0)
    often = BoundedChain(node, 4, 99)
    for ask in (often.latest, lambda: often.receipt("0x"), lambda: often.nonce_spent("", "", "", 1)):
        ask()
    assert often.nonce_logs("", "", "", 1, 2) == Block(1, 1)
    with pytest.raises(ChainUnavailable):
        often.latest()
    assert node.asked == 4

    late = BoundedChain(node, 99, 3_000, clock)
    late.latest()
    clock.move(3)
    with pytest.raises(ChainUnavailable):
        late.latest()


def test_each_look_has_bounds_of_its_own_and_a_network_without_a_node_has_none():
    node = Endless()
    chain_of = bounded(lambda network: node if network == BASE else None)

    for _ in range(2):
        chain = chain_of(BASE)
        for _ in range(MOST_CALLS):
            chain.latest()
        with pytest.raises(ChainUnavailable):
            chain.latest()
    assert chain_of(BASE_SEPOLIA) is None
