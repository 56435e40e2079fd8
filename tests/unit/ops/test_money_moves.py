"""Moves of money: one for each change of a payment, with what it was known by, and none where nothing changed."""

import pytest

from piecework.clock import DAY_MS
from piecework.worker.record.moves import MoneyMove
from piecework.worker.record.states import State
from piecework.worker.record.values import Lease
from tests.support.fakes import START_MS
from tests.support.ops.tasks import a_task

RECEIPT = {"success": True, "transaction": "0xabc", "network": "base", "payer": "0xfrom"}


def test_a_payment_that_was_just_bound_is_a_move_with_its_amount():
    move = MoneyMove.between(None, a_task(), START_MS)

    assert (move.payment, move.claim, move.atomic, move.at_ms, move.version) == (
        "authorized",
        "active",
        1500,
        START_MS,
        1,
    )
    assert not move.is_receipt_after(None)
    assert move.network == "eip155:8453"


@pytest.mark.parametrize("claim_key", ["", "nope", "/0xasset/0xfrom/0x1", "²/0xasset/0xfrom/0x1"])
def test_a_claim_without_a_chain_leaves_the_network_open(claim_key):
    assert MoneyMove.between(None, a_task(claim_key=claim_key), START_MS).network == ""


def test_each_change_is_a_move_and_the_receipt_is_told_from_the_others():
    ready = a_task(state=State.RESULT_READY, result={"text": "{}"})
    settling = ready.settling(Lease("l", START_MS + 1), START_MS, START_MS + 2)
    paid = settling.paid(RECEIPT, START_MS + 3)

    moves = [MoneyMove.between(*pair, START_MS) for pair in ((ready, settling), (settling, paid))]

    assert [(move.payment, move.calls, move.claim) for move in moves] == [
        ("settling", 1, "active"),
        ("settled", 1, "spent"),
    ]
    assert [move.is_receipt_after(before) for move, before in zip(moves, (ready, settling), strict=True)] == [
        False,
        True,
    ]
    assert (moves[1].transaction, moves[1].atomic) == ("0xabc", 1500)  # the document is gone by then


def test_what_changes_nothing_of_the_payment_is_none():
    task = a_task()

    assert MoneyMove.between(task, task.handed_over(START_MS), START_MS) is None


def test_a_look_that_ends_without_an_answer_is_a_move_too():
    settling = a_task(state=State.RESULT_READY, result={"text": "{}"}).settling(Lease("l", 1), START_MS, START_MS)
    unknown = settling.unknown(settling.settlement.named("0xdef", settling.settlement), START_MS + DAY_MS)

    move = MoneyMove.between(settling, unknown, START_MS + 5)

    assert (move.state, move.hashes) == ("UNKNOWN", ("0xdef",))


@pytest.mark.parametrize(
    "document", ["", "{}", "[]", "nope", '{"payload":{"authorization":{"value":"x"}}}', "9" * 5_000]
)
def test_a_document_that_cannot_be_read_leaves_the_amount_open(document):
    assert MoneyMove.between(None, a_task(payment=document), START_MS).atomic is None
