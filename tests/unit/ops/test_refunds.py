"""A payment that was owed back at the operator's door: what the chain says, and that nothing is guessed."""

import re
from dataclasses import replace

import pytest

from piecework.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from piecework.extend.executors import Refused
from piecework.ops.forgetting.tasks import why_needed
from piecework.ops.money.asking import OF_ONE_PAYMENT, TooOften
from piecework.ops.money.refunds import RefundVerbs
from piecework.ops.records import Records
from piecework.ops.tasks import TaskViews
from piecework.worker.chain.networks import BASE, BASE_SEPOLIA
from piecework.worker.chain.rpc import TRANSFER, Block, Log, Receipt
from piecework.worker.payment.refunding import Refunding
from piecework.worker.record.debts import owed_by
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.values import Failure
from tests.support.fakes import FakeClock
from tests.support.ops.debts import FakeDebts
from tests.support.ops.requests import NOBODY, OPERATOR, VIEWER
from tests.support.ops.tasks import FakeWorkerRows, KeptExecutions
from tests.support.ops.verbs import FakeRecordRows
from tests.support.quiet import QuietLog
from tests.support.worker.stage import BODY, Stage, stub_facilitator

WHY = {"reason": "paid back on Monday"}
NOTHING_SEEN = "0" * 64
NO_HASH = "0x" + "ab" * 32
NEWEST = {"method": "eth_getBlockByNumber", "params": ["latest", False]}
TREASURY = "0x" + "77" * 20


class Bench:
    """A worker whose work failed after it was paid, and the operator's door over its stores."""

    def __init__(self, stub, **stage):
        self.rows, clock = FakeWorkerRows(), FakeClock()
        executions = KeptExecutions(self.rows, clock)
        self.stage = Stage(stub, clock=clock, ports={"executions": executions}, **stage)
        self.stage.do = _fail
        self.contract = self.stage.contract("upfront")
        self.name = self.contract.contract_id
        self.stage.post(self.contract, BODY, self.stage.pay(self.contract))
        self.stage.settle_down(600)
        assert self.standing.owes_refund
        self.debts = FakeDebts(self.rows, executions)
        self.refunding = Refunding(
            self.debts, executions, self.stage.worker.charging.chain_of, self.stage.clock, QuietLog()
        )
        self.records = FakeRecordRows()
        numbers = iter(range(1, 99))
        records = Records(self.records, self.stage.clock, lambda: f"{next(numbers):032x}")
        self.verbs = RefundVerbs(records, lambda: self.refunding)
        self.views = TaskViews(self.rows, self.stage.clock)
        self.stage.clock.move(3_600)

    @property
    def standing(self):
        return self.stage.standing(self.contract)

    @property
    def debt(self):
        return self.task["debts"][0]["debt"]

    @property
    def task(self):
        return self.views.task(VIEWER, self.name)

    def send(self, atomic=None, to=None, sender=TREASURY, asset=BASE.usdc):
        owed = self.contract.atomic if atomic is None else atomic
        return self.stage.stub.ledger.send(asset, sender, to or self.standing.payment.payer, owed).hash

    def evidence(self, transaction, **members):
        return self.verbs.evidence(OPERATOR, self.name, {"debt": self.debt, "transaction": transaction, **members})

    def say(self, transaction, token=None, caller=OPERATOR, **members):
        token = token or self.evidence(transaction)["evidence"]
        body = {"debt": self.debt, "transaction": transaction, "evidence": token, **WHY, **members}
        return self.verbs.refunded(caller, self.name, body)


def _fail(task, run):
    raise Refused("nobody can do this")


@pytest.fixture
def stub():
    with stub_facilitator() as running:
        yield running


@pytest.fixture
def bench(stub):
    return Bench(stub)


def test_the_evidence_shows_what_the_transaction_moved_and_nothing_moves(bench):
    transaction, before = bench.send(), bench.standing
    shown = bench.evidence("0x" + transaction[2:].upper())

    assert (shown["atomic"], shown["network"]) == ("5000000", "eip155:8453")
    assert (shown["wallet"], shown["transaction"]) == (before.payment.payer, transaction)
    assert shown["paid_by"] == before.settlement.receipt["transaction"]
    chain = shown["chain"]
    assert (chain["verdict"], chain["atomic"], chain["from"]) == ("shown", "5000000", [TREASURY])
    assert chain["block"] > chain["payments_block"] > 0 and chain["seconds_behind"] < 10
    assert (shown["is_shown"], shown["can_be_overridden"]) == (True, False)
    assert re.fullmatch("[0-9a-f]{64}", shown["evidence"])
    assert bench.standing == before and bench.records.kept == {} and before.task_id not in str(shown)


def test_what_was_seen_is_said_and_is_with_the_task_its_money_the_day_and_the_seeker(bench):
    transaction = bench.send()
    debt = bench.debt
    answer = bench.say(transaction)

    word = answer["refund"]
    assert {name: word[name] for name in ("transaction", "by", "operator", "reason")} == {
        "transaction": transaction, "by": "evidence", "operator": "operator", **WHY,
    }  # fmt: skip
    [record] = bench.records.kept.values()
    assert (record.verb, record.target) == ("payment.refunded", f"{bench.name}/{debt}")
    assert record.outcome["refund"] == word and answer["record_id"] == record.record_id
    task = bench.task
    assert [one["refund"] for one in task["debts"]] == [word] and task["is_owed_back"] is False
    assert (task["moves"][0]["payment"], task["moves"][0]["transaction"]) == ("refunded", transaction)
    day = bench.views.ledger(VIEWER, {})
    assert day["totals_atomic"]["eip155:8453"] | {"received": "", "platform_fee_due": ""} == {
        "received": "", "platform_fee_due": "",
        "refund_due": "5000000", "refunded": "5000000", "still_owed_back": "0",
    }  # fmt: skip
    [shown] = day["refunds"]
    assert (shown["contract_id"], shown["debt"], shown["operator"]) == (bench.name, debt, "operator")
    assert why_needed(bench.standing) == ""  # what it was about can be forgotten now
    told = bench.stage.get(bench.contract, bench.standing.task_id)
    assert "the payment is paid back" in told.text and "owed back" not in told.text and "refund_due" not in told.text
    assert WHY["reason"] not in told.text and "operator" not in told.text  # what operators say is not the seeker's


def test_a_text_that_told_of_the_debt_does_not_any_more(bench):
    before = bench.standing
    late = replace(before.outcome, failure=Failure("TASK_TIMEOUT", "24 h passed; the payment is owed back"))
    bench.stage.executions.replace(before, replace(before, version=before.version + 1, outcome=late))
    bench.say(bench.send())

    told = bench.stage.get(bench.contract, before.task_id)
    assert "24 h passed; the payment is paid back" in told.text and "owed back" not in told.text


def test_before_that_the_seeker_is_told_of_the_debt_and_the_task_cannot_be_forgotten(bench):
    told = bench.stage.get(bench.contract, bench.standing.task_id)

    assert "the payment is owed back" in told.text and told.body["payment"]["refund_due"] == "5000000"
    assert "owed the payment back" in why_needed(bench.standing)
    assert bench.task["is_owed_back"] is True
    assert bench.views.ledger(VIEWER, {})["totals_atomic"]["eip155:8453"]["still_owed_back"] == "5000000"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"atomic": 3_000_000}, "moved 3000000 of 5000000 atomic units.*paid back as a whole"),
        ({"atomic": 5_000_001}, "moved 5000001 of 5000000"),
        ({"to": TREASURY}, "moved no USDC to the seeker's wallet"),
        ({"asset": BASE_SEPOLIA.usdc}, "moved no USDC"),
    ],
)
def test_a_transaction_that_moved_something_else_never_counts(bench, sent, why):
    transaction = bench.send(**sent)
    shown = bench.evidence(transaction)

    assert shown["chain"]["verdict"] == "otherwise" and not shown["is_shown"] and not shown["can_be_overridden"]
    for members in ({}, {"override": bench.name}):
        with pytest.raises(Conflict, match=why):
            bench.say(transaction, **members)
    assert bench.standing.owes_refund and bench.rows.paid_back == {}


def test_a_wallet_that_pays_itself_pays_nothing_back(bench):
    transaction = bench.send(sender=bench.standing.payment.payer)

    with pytest.raises(Conflict, match="moved no USDC"):
        bench.say(transaction, override=bench.name)


def test_a_transaction_that_failed_never_counts(bench):
    ledger = bench.stage.stub.ledger
    failed = ledger.add("reverted", ledger.transactions[bench.send()].transfer).hash

    with pytest.raises(Conflict, match="failed and moved nothing"):
        bench.say(failed, override=bench.name)
    assert bench.standing.owes_refund


def test_a_transaction_that_is_older_than_the_payment_never_counts(bench):
    transaction = bench.send()
    bench.stage.stub.ledger.transactions[transaction].mined_at -= 86_400

    with pytest.raises(Conflict, match="older than the payment"):
        bench.say(transaction, override=bench.name)


@pytest.mark.parametrize(
    ("place", "seconds", "verdict"),
    [(1, 0, "shown"), (-1, 0, "otherwise"), (None, 0, "unknown"), (0, 0, "unknown"), (-1, 2, "shown")],
)
def test_of_one_block_the_place_in_it_tells_which_is_older(bench, place, seconds, verdict):
    transactions = bench.stage.stub.ledger.transactions
    paid, sent = bench.standing.settlement.receipt["transaction"], bench.send()
    transactions[sent].mined_at = transactions[paid].mined_at + seconds
    chain_of = bench.refunding.chain_of
    places = {paid: 7, sent: None if place is None else 7 + place}
    bench.refunding.__dict__["chain_of"] = lambda network: Placed(chain_of(network), places)
    shown = bench.evidence(sent)

    assert shown["chain"]["verdict"] == verdict and shown["can_be_overridden"] is (verdict == "unknown")
    assert (shown["chain"]["block"] == shown["chain"]["payments_block"]) is (seconds == 0)
    if verdict != "shown":
        with pytest.raises(Conflict, match="older than the payment"):
            bench.say(sent)
        assert bench.standing.owes_refund


def test_in_the_newest_block_a_transfer_back_counts_as_a_payment_does(bench):
    stage = bench.stage
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))
    stage.work_off()
    settlement = stage.standing(contract).settlement
    sent = bench.send()

    newest = int(stage.stub.ledger.rpc(NEWEST)["result"]["number"], 16)
    paid = stage.worker.charging.chain_of(BASE).receipt(settlement.receipt["transaction"])
    assert (settlement.status, paid.block) == ("settled", newest)
    chain = bench.evidence(sent)["chain"]
    assert (chain["verdict"], chain["block"]) == ("shown", newest)


def test_the_local_chain_tells_the_place_in_a_block_as_well(bench):
    transactions = bench.stage.stub.ledger.transactions
    paid, sent = bench.standing.settlement.receipt["transaction"], bench.send()
    transactions[sent].mined_at = transactions[paid].mined_at  # of what came at once, the first comes first

    assert bench.evidence(sent)["chain"]["verdict"] == "shown"


def test_the_payment_itself_is_no_refund(bench):
    with pytest.raises(Conflict, match="the transaction that paid"):
        bench.evidence(bench.standing.settlement.receipt["transaction"])


@pytest.mark.parametrize(("node", "why"), [("500", "does not answer"), ("ok", "no block that the node knows")])
def test_what_the_chain_does_not_show_needs_the_contract_once_more_and_is_recorded_so(bench, node, why):
    bench.stage.stub.say("rpc", node)
    shown = bench.evidence(NO_HASH)

    assert why in shown["chain"]["why"]
    assert (shown["is_shown"], shown["can_be_overridden"]) == (False, True)
    with pytest.raises(Conflict, match=f"does not show the refund.*{why}"):
        bench.say(NO_HASH)
    assert bench.standing.owes_refund
    assert bench.say(NO_HASH, override=bench.name)["refund"]["by"] == "override"


def test_a_word_on_other_evidence_than_was_shown_is_refused_and_nothing_moves(bench):
    transaction = bench.send()
    seen = bench.evidence(transaction)["evidence"]
    bench.stage.stub.say("rpc", "500")  # what the chain says now is another thing

    for token in (NOTHING_SEEN, seen):
        with pytest.raises(Conflict, match="look at it again"):
            bench.say(transaction, token)
    assert bench.standing.owes_refund
    assert [record.outcome for record in bench.records.kept.values()] == [{"failed": "conflict"}] * 2


def test_evidence_that_says_the_same_at_a_later_block_is_the_same(bench):
    transaction = bench.send()
    seen = bench.evidence(transaction)
    bench.stage.clock.move(20)

    assert bench.evidence(transaction)["evidence"] == seen["evidence"]


def test_evidence_of_another_transaction_or_a_record_that_moved_on_is_another_one(bench):
    transaction = bench.send()
    seen = bench.evidence(transaction)["evidence"]

    assert bench.evidence(bench.send())["evidence"] != seen
    before = bench.standing
    bench.stage.executions.replace(before, replace(before, version=before.version + 1))
    with pytest.raises(Conflict, match="look at it again"):
        bench.say(transaction, seen)


def test_a_second_operator_is_told_who_said_it_when_and_of_which_transaction(bench):
    transaction = bench.send()
    token = bench.evidence(transaction)["evidence"]
    bench.say(transaction, token)

    for ask in (lambda: bench.say(transaction, token), lambda: bench.evidence(transaction)):
        with pytest.raises(Conflict, match=f"paid back already; operator said so at 20.*: {transaction}"):
            ask()
    assert len(bench.rows.paid_back) == 1


def test_who_is_overtaken_between_his_look_and_his_word_is_told_who_was_faster(bench):
    first, second = bench.send(), bench.send()
    token = bench.evidence(second)["evidence"]
    write, debts = bench.debts.refund, bench.debts

    def late(refund, debt, before):
        debts.refund = write
        bench.say(first)
        write(refund, debt, before)

    debts.refund = late
    with pytest.raises(Conflict, match=f"paid back already; operator said so at .*{first}"):
        bench.say(second, token)
    assert [one.transaction for one in bench.rows.paid_back.values()] == [first]


def test_one_transaction_counts_for_one_debt_alone(bench):
    owed = LedgerRow(
        "refund_due",
        bench.name,
        "task_1",
        2,
        5_000_000,
        "eip155:8453",
        bench.standing.payment.payer,
        9,
        bench.send(to=TREASURY),
    )
    bench.stage.executions.add_debt(owed, "8453/0xasset/0xfrom/0xgiven_up")
    first, second = bench.task["debts"]
    transaction = bench.send()
    told = {"transaction": transaction, "debt": first["debt"]}
    token = bench.verbs.evidence(OPERATOR, bench.name, told)["evidence"]
    bench.verbs.refunded(OPERATOR, bench.name, {**told, "evidence": token, **WHY})

    told = {"transaction": "0x" + transaction[2:].upper(), "debt": second["debt"]}
    with pytest.raises(Conflict, match=f"counts for a refund of {bench.name} already; operator said so at"):
        bench.verbs.evidence(OPERATOR, bench.name, told)
    with pytest.raises(Conflict, match="counts for a refund"):
        bench.verbs.refunded(OPERATOR, bench.name, {**told, "evidence": token, "override": bench.name, **WHY})
    assert {one["debt"]: one["refund"] is None for one in bench.task["debts"]} == {
        first["debt"]: False,
        second["debt"]: True,
    }


def test_a_payment_that_was_given_up_and_came_is_paid_back_and_its_task_stays_as_it_is(bench):
    before, own = bench.standing, bench.debt
    owed = LedgerRow("refund_due", bench.name, "task_1", 1, 7, "eip155:8453", TREASURY, 9, bench.send(7))
    bench.stage.executions.add_debt(owed, "8453/0xasset/0xfrom/0xgiven_up")
    given_up = next(one["debt"] for one in bench.task["debts"] if one["debt"] != own)
    told = {"transaction": bench.send(7, TREASURY, sender="0x" + "11" * 20), "debt": given_up}
    token = bench.verbs.evidence(OPERATOR, bench.name, told)["evidence"]
    bench.verbs.refunded(OPERATOR, bench.name, {**told, "evidence": token, **WHY})

    assert bench.standing == before and bench.standing.owes_refund
    assert sorted(one["refund"] is None for one in bench.task["debts"]) == [False, True]


def test_a_debt_of_a_task_that_is_not_kept_any_more_is_paid_back(bench):
    debt, transaction = bench.debt, bench.send()
    bench.stage.executions.items.clear()
    told = {"transaction": transaction, "debt": debt}
    token = bench.verbs.evidence(OPERATOR, bench.name, told)["evidence"]

    assert bench.verbs.refunded(OPERATOR, bench.name, {**told, "evidence": token, **WHY})["refund"]["by"] == "evidence"


def test_an_answer_that_is_lost_leaves_a_record_without_an_outcome(bench):
    transaction = bench.send()
    token = bench.evidence(transaction)["evidence"]

    def lost(*given):
        raise Unavailable("the work table is busy; try again")

    bench.debts.refund = lost
    with pytest.raises(Unavailable):
        bench.say(transaction, token)
    assert [record.outcome for record in bench.records.kept.values()] == [None]


def test_without_a_node_it_is_said_what_to_set(bench):
    bench.refunding.__dict__["chain_of"] = lambda network: None

    for ask in (
        lambda: bench.evidence(NO_HASH),
        lambda: bench.say(NO_HASH, NOTHING_SEEN, override=bench.name),
        lambda: bench.refunding.look(bench.name, bench.debt, NO_HASH),  # what the command asks
    ):
        with pytest.raises(Conflict, match="BaseRpcUrl"):
            ask()
    assert bench.standing.owes_refund and bench.rows.paid_back == {}


def test_on_a_test_network_without_a_node_only_an_override_says_it(stub):
    bench = Bench(stub, with_chain=False)
    shown = bench.evidence(NO_HASH)

    assert shown["chain"] == {"verdict": "unknown", "why": "unknown: only a node tells it"}
    assert bench.say(NO_HASH, override=bench.name)["refund"]["by"] == "override"


class Placed:
    """A node that says these places in a block."""

    def __init__(self, chain, places):
        self.chain, self.places = chain, places

    def latest(self):
        return self.chain.latest()

    def receipt(self, transaction, seconds=0.0):
        return replace(self.chain.receipt(transaction), index=self.places[transaction])


class Node:
    """A node that shows one receipt of many logs."""

    def __init__(self, *logs, of=(NO_HASH,)):
        self.logs, self.of = logs, of

    def latest(self):
        return Block(50, 1_800_000_000)

    def receipt(self, transaction, seconds=0.0):
        return Receipt(True, self.logs, 49, self.of.index(transaction)) if transaction in self.of else None


def test_transfers_of_one_transaction_are_added_up_and_what_makes_no_sense_is_none(bench):
    payer = "0x" + bench.standing.payment.payer[2:].lower().rjust(64, "0")
    sender = "0x" + "0" * 24 + "99" * 20

    def moved(atomic, **changes):
        data = changes.get("data", f"0x{atomic:064x}")
        topics = changes.get("topics", (TRANSFER, sender, payer))
        return Log(changes.get("address", BASE.usdc.lower()), topics, data, NO_HASH)

    logs = (
        moved(2_000_000), moved(3_000_000), moved(5, address="0x" + "1" * 40), moved(5, data="0x"),
        moved(5, data="0x" + "f" * 65), moved(5, topics=(TRANSFER, sender)), moved(5, topics=(TRANSFER, payer, sender)),
        moved(5, topics=(TRANSFER, sender, payer, payer)), moved(5, topics=()),
    )  # fmt: skip
    paid = bench.standing.settlement.receipt["transaction"]
    bench.refunding.__dict__["chain_of"] = lambda network: Node(*logs, of=(paid, NO_HASH))

    chain = bench.evidence(NO_HASH)["chain"]
    assert (chain["verdict"], chain["atomic"], chain["from"]) == ("shown", "5000000", ["0x" + "99" * 20])
    assert chain["payments_block"] == 49


@pytest.mark.parametrize("case", ["the node lacks it", "the debt names none"])
def test_a_transfer_of_the_whole_needs_an_override_while_nobody_knows_where_the_payment_stands(bench, case):
    before, transaction = bench.standing, bench.send()
    if case == "the node lacks it":
        del bench.stage.stub.ledger.transactions[before.settlement.receipt["transaction"]]
        debt = bench.debt
    else:
        owed = replace(bench.stage.executions.rows[0], transaction="", at_ms=9)
        bench.stage.executions.add_debt(owed, "8453/0xasset/0xfrom/0xgiven_up")
        debt = next(one["debt"] for one in bench.task["debts"] if not one["transaction"])
    shown = bench.evidence(transaction, debt=debt)

    chain = shown["chain"]
    assert (chain["verdict"], chain["atomic"], chain["payments_block"]) == ("unknown", "5000000", None)
    assert "whether it is older than the payment is not known" in chain["why"]
    assert (shown["is_shown"], shown["can_be_overridden"]) == (False, True)
    with pytest.raises(Conflict, match=r"does not show the refund.*older than the payment is not known"):
        bench.say(transaction, shown["evidence"], debt=debt)
    assert bench.rows.paid_back == {}
    told = bench.say(transaction, shown["evidence"], debt=debt, override=bench.name)
    assert told["refund"]["by"] == "override"


def test_another_amount_never_counts_wherever_the_payment_stands(bench):
    transaction = bench.send(4_999_999)
    del bench.stage.stub.ledger.transactions[bench.standing.settlement.receipt["transaction"]]

    with pytest.raises(Conflict, match="moved 4999999 of 5000000"):
        bench.say(transaction, override=bench.name)


@pytest.fixture
def unasked():
    """The verbs where nothing may be asked."""
    rows = FakeRecordRows()
    return rows, RefundVerbs(Records(rows, FakeClock(), lambda: "0" * 32), lambda: pytest.fail("asked"))


TOLD = {"debt": f"1-1-{'0' * 16}", "transaction": NO_HASH}


@pytest.mark.parametrize("caller", [VIEWER, NOBODY], ids=["viewer", "agent"])
def test_only_operators_look_and_say_and_nothing_is_asked_or_recorded_for_others(unasked, caller):
    rows, verbs = unasked

    with pytest.raises(Forbidden):
        verbs.evidence(caller, "ctr_1", TOLD)
    with pytest.raises(Forbidden):
        verbs.refunded(caller, "ctr_1", {**TOLD, "evidence": NOTHING_SEEN, **WHY})
    assert rows.kept == {}


@pytest.mark.parametrize(
    "members",
    [
        {"debt": None}, {"debt": "1-1"}, {"debt": ["1-1-x"]}, {"debt": f"{'9' * 15}-1-{'0' * 16}"},
        {"debt": f"1-1-{'0' * 16}\n"}, {"transaction": None}, {"transaction": "0x12"}, {"transaction": [NO_HASH]},
        {"transaction": NO_HASH + "\n"}, {"evidence": "g" * 64}, {"evidence": None}, {"override": "ctr_another"},
        {"override": True}, {"reason": " "}, {"reason": None}, {"reason": "x" * 501}, {"atomic": "5"},
    ],
)  # fmt: skip
def test_a_word_without_meaning_is_refused_before_anything_is_asked_or_recorded(unasked, members):
    rows, verbs = unasked
    body = {**TOLD, "evidence": NOTHING_SEEN, **WHY, **members}

    with pytest.raises(BadRequest):
        verbs.refunded(OPERATOR, "ctr_1", body)
    assert rows.kept == {}
    if members.keys() <= {"debt", "transaction", "atomic"}:
        with pytest.raises(BadRequest):
            verbs.evidence(OPERATOR, "ctr_1", {**TOLD, **members})


def test_what_is_not_owed_is_not_found(bench):
    far = f"{'9' * 14}-1-{'0' * 16}"
    for name, debt in (
        ("ctr_unknown", bench.debt),
        ("no id", bench.debt),
        (bench.name, TOLD["debt"]),
        (bench.name, far),
    ):
        with pytest.raises(NotFound):
            bench.verbs.evidence(OPERATOR, name, {**TOLD, "debt": debt})


def test_the_node_is_not_asked_as_often_as_somebody_likes(bench):
    for _ in range(int(OF_ONE_PAYMENT.burst)):
        bench.evidence(NO_HASH)
    with pytest.raises(TooOften):
        bench.evidence(NO_HASH)


def test_a_forgotten_task_still_shows_what_it_owed(bench):
    from piecework.durable.forgotten import Forgotten
    from piecework.ops.forgetting.tasks import emptied

    bench.say(bench.send())
    before = bench.standing
    after = emptied(before, Forgotten(1, "ann", "0" * 32, ended_at_ms=before.outcome.finished_at_ms))

    assert owed_by(after) == owed_by(before) and not after.owes_refund
