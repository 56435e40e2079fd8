"""The table of section 5, row by row, and the moves between states."""

from itertools import product

import pytest

from piecework.worker.record.states import (
    ENDED,
    MAY_TIME_OUT,
    MOVES,
    REPLIES,
    Carries,
    IllegalMove,
    Reply,
    Situation,
    State,
    advance,
    reply_to,
    situation_of,
)

# The specification's table in its own order: situation, no header, header, other body.
TABLE = {
    "none": ("ask_payment", "start", ("ask_payment", "start")),
    "working": ("pending", "pending", "mismatch"),
    "unknown": ("pending", "pending", "mismatch"),
    "unpaid": ("ask_again", "settle_result", "mismatch"),
    "finished": ("repeat_result", "repeat_result", "mismatch"),
    "transient": ("retry", "retry", "mismatch"),
    "lapsed": ("ask_lapsed", "replace_and_retry", "mismatch"),
    "input_refused": ("repeat_failure", "repeat_failure", ("ask_new_generation", "start_new_generation")),
    "failed": ("repeat_failure", "repeat_failure", "mismatch"),
    "exhausted": ("exhausted", "exhausted", "mismatch"),
    "timed_out": ("repeat_failure", "repeat_failure", "mismatch"),
    "forgotten": ("gone", "gone", "gone"),
}
MAY_CHARGE = {Reply.START, Reply.SETTLE_RESULT, Reply.RETRY, Reply.REPLACE_AND_RETRY, Reply.START_NEW_GENERATION}


@pytest.mark.parametrize("situation", Situation)
def test_every_row_is_answered_as_the_specification_says(situation):
    bare, paid, other = TABLE[situation]
    others = other if isinstance(other, tuple) else (other, other)

    assert [reply_to(situation, carries) for carries in Carries] == [bare, paid, *others]


def test_there_is_a_row_for_every_situation_and_no_other():
    assert set(TABLE) == set(Situation) == set(REPLIES)


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_row_whatever_is_known_of_it(state):
    for lapsed, refused, forgotten in product((False, True), repeat=3):
        found = situation_of(state, lapsed=lapsed, input_refused=refused, forgotten=forgotten)

        assert found in REPLIES
        assert (found is Situation.FORGOTTEN) == (forgotten and state in ENDED)


def test_only_the_failed_states_look_at_what_was_kept():
    assert situation_of(State.FAILED_TRANSIENT) is Situation.TRANSIENT
    assert situation_of(State.FAILED_TRANSIENT, lapsed=True) is Situation.LAPSED
    assert situation_of(State.FAILED_PERMANENT) is Situation.FAILED
    assert situation_of(State.FAILED_PERMANENT, input_refused=True) is Situation.INPUT_REFUSED
    assert situation_of(State.COMPLETED, lapsed=True, input_refused=True) is Situation.FINISHED


@pytest.mark.parametrize("situation", [Situation.WORKING, Situation.UNKNOWN, Situation.FINISHED, Situation.EXHAUSTED])
def test_nothing_is_charged_or_asked_for_while_a_payment_is_bound(situation):
    replies = {reply_to(situation, carries) for carries in Carries}

    assert not replies & (MAY_CHARGE | {Reply.ASK_PAYMENT, Reply.ASK_AGAIN, Reply.ASK_LAPSED})


@pytest.mark.parametrize(("current", "target"), list(product(State, State)))
def test_a_state_leads_where_the_table_says_and_nowhere_else(current, target):
    if target in MOVES[current]:
        assert advance(current, target) is target
    else:
        with pytest.raises(IllegalMove):
            advance(current, target)


def test_what_was_paid_ends_there():
    for paid in (State.COMPLETED, State.PARTIAL_FINAL):
        assert MOVES[paid] == frozenset()


def test_a_payment_on_its_way_never_times_out():
    assert not {State.SETTLING, State.UNKNOWN} & MAY_TIME_OUT
    for state in MAY_TIME_OUT:
        assert State.TIMED_OUT in MOVES[state]


def test_a_settlement_begins_only_with_a_result_or_an_order_to_settle_first():
    assert {state for state in State if State.SETTLING in MOVES[state]} == {
        State.EXECUTING,
        State.RESULT_READY,
        State.UNKNOWN,
    }


def test_every_state_but_none_can_be_reached():
    reached = {State.NONE}
    while (more := reached.union(*(MOVES[state] for state in reached))) != reached:
        reached = more

    assert reached == set(State)
