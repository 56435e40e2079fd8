"""The life of one hired contract as data: its states, the legal moves, and what each request is answered (section 5).

`advance` is the one way from state to state; `reply_to` is the one look-up of the idempotency table. A row is a
`Situation` (a state, where needed told apart by what was kept with it), a column is what the request carries.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where an execution stands; absent is `NONE`."""

    NONE = "NONE"
    EXECUTING = "EXECUTING"
    RESULT_READY = "RESULT_READY"
    SETTLING = "SETTLING"
    UNKNOWN = "UNKNOWN"
    UNPAID = "UNPAID"
    COMPLETED = "COMPLETED"
    PARTIAL_FINAL = "PARTIAL_FINAL"
    FAILED_TRANSIENT = "FAILED_TRANSIENT"
    FAILED_PERMANENT = "FAILED_PERMANENT"
    EXHAUSTED = "EXHAUSTED"
    TIMED_OUT = "TIMED_OUT"


class Situation(StrEnum):
    """The rows of the table."""

    NONE = "none"
    WORKING = "working"  # EXECUTING, RESULT_READY, SETTLING
    UNKNOWN = "unknown"
    UNPAID = "unpaid"
    FINISHED = "finished"  # COMPLETED, PARTIAL_FINAL
    TRANSIENT = "transient"  # FAILED_TRANSIENT and the authorization lasts for another attempt
    LAPSED = "lapsed"  # FAILED_TRANSIENT and it does not
    INPUT_REFUSED = "input_refused"  # FAILED_PERMANENT by INVALID_INPUT, generations left
    FAILED = "failed"
    EXHAUSTED = "exhausted"
    TIMED_OUT = "timed_out"
    FORGOTTEN = "forgotten"  # ended longer ago than results are kept


class Carries(StrEnum):
    """The columns: what a request brings."""

    NOTHING = "nothing"  # the same body, no payment header
    PAYMENT = "payment"  # the same body and a payment header
    OTHER_BODY = "other_body"
    OTHER_BODY_AND_PAYMENT = "other_body_and_payment"


class Reply(StrEnum):
    """The cells: what is done."""

    ASK_PAYMENT = "ask_payment"  # 402, or 422 when the input is invalid
    START = "start"  # verify, claim, run
    PENDING = "pending"  # 202 with the same task id; a payment header is neither verified nor stored
    ASK_AGAIN = "ask_again"  # 402 PAYMENT_FAILED
    SETTLE_RESULT = "settle_result"  # verify, claim the new nonce, settle, release the result that is kept
    REPEAT_RESULT = "repeat_result"  # 200 with fresh URLs and the same receipt
    RETRY = "retry"  # the next attempt under the authorization that is kept
    ASK_LAPSED = "ask_lapsed"  # 402 …_valid_before
    REPLACE_AND_RETRY = "replace_and_retry"  # verify, replace the claim, next attempt
    REPEAT_FAILURE = "repeat_failure"  # the stored failure with the status it had
    ASK_NEW_GENERATION = "ask_new_generation"  # 402; the other input starts anew
    START_NEW_GENERATION = "start_new_generation"  # verify, claim, release the old claim, run
    MISMATCH = "mismatch"  # 409 that reveals nothing
    EXHAUSTED = "exhausted"  # 409 RETRIES_EXHAUSTED
    GONE = "gone"  # 410


S = State
MOVES: Final[Mapping[State, frozenset[State]]] = {
    S.NONE: frozenset({S.EXECUTING}),
    S.EXECUTING: frozenset(
        {
            S.EXECUTING,  # taken over after a lapsed lease, or handed to the queue
            S.RESULT_READY,
            S.SETTLING,  # the result and the intent to settle in one write; or settle-before
            S.UNPAID,  # settle-before, the authorization lapsed before it was sent
            S.COMPLETED,  # settle-before: paid already
            S.PARTIAL_FINAL,
            S.FAILED_TRANSIENT,
            S.FAILED_PERMANENT,
            S.EXHAUSTED,
            S.TIMED_OUT,
        }
    ),
    S.RESULT_READY: frozenset({S.SETTLING, S.UNPAID, S.TIMED_OUT}),
    S.SETTLING: frozenset(
        {S.COMPLETED, S.PARTIAL_FINAL, S.RESULT_READY, S.UNPAID, S.UNKNOWN, S.EXECUTING, S.FAILED_PERMANENT}
    ),
    S.UNKNOWN: frozenset(
        {S.UNKNOWN, S.SETTLING, S.COMPLETED, S.PARTIAL_FINAL, S.UNPAID, S.EXECUTING, S.FAILED_PERMANENT}
    ),
    S.UNPAID: frozenset({S.RESULT_READY, S.EXECUTING, S.TIMED_OUT}),
    S.FAILED_TRANSIENT: frozenset({S.EXECUTING, S.TIMED_OUT}),
    S.FAILED_PERMANENT: frozenset({S.EXECUTING}),  # a new generation, after INVALID_INPUT only
    S.COMPLETED: frozenset(),
    S.PARTIAL_FINAL: frozenset(),
    S.EXHAUSTED: frozenset(),
    S.TIMED_OUT: frozenset(),
}
ENDED: Final = frozenset({S.COMPLETED, S.PARTIAL_FINAL, S.FAILED_PERMANENT, S.EXHAUSTED, S.TIMED_OUT})
MAY_TIME_OUT: Final = frozenset({S.EXECUTING, S.RESULT_READY, S.UNPAID, S.FAILED_TRANSIENT})  # never while money moves

_SITUATIONS: Final[Mapping[State, Situation]] = {
    S.NONE: Situation.NONE,
    S.EXECUTING: Situation.WORKING,
    S.RESULT_READY: Situation.WORKING,
    S.SETTLING: Situation.WORKING,
    S.UNKNOWN: Situation.UNKNOWN,
    S.UNPAID: Situation.UNPAID,
    S.COMPLETED: Situation.FINISHED,
    S.PARTIAL_FINAL: Situation.FINISHED,
    S.EXHAUSTED: Situation.EXHAUSTED,
    S.TIMED_OUT: Situation.TIMED_OUT,
}

R = Reply
# Situation: same body without payment, same body with payment, other body without payment, other body with payment.
REPLIES: Final[Mapping[Situation, tuple[Reply, Reply, Reply, Reply]]] = {
    Situation.NONE: (R.ASK_PAYMENT, R.START, R.ASK_PAYMENT, R.START),
    Situation.WORKING: (R.PENDING, R.PENDING, R.MISMATCH, R.MISMATCH),
    Situation.UNKNOWN: (R.PENDING, R.PENDING, R.MISMATCH, R.MISMATCH),
    Situation.UNPAID: (R.ASK_AGAIN, R.SETTLE_RESULT, R.MISMATCH, R.MISMATCH),
    Situation.FINISHED: (R.REPEAT_RESULT, R.REPEAT_RESULT, R.MISMATCH, R.MISMATCH),
    Situation.TRANSIENT: (R.RETRY, R.RETRY, R.MISMATCH, R.MISMATCH),
    Situation.LAPSED: (R.ASK_LAPSED, R.REPLACE_AND_RETRY, R.MISMATCH, R.MISMATCH),
    Situation.INPUT_REFUSED: (R.REPEAT_FAILURE, R.REPEAT_FAILURE, R.ASK_NEW_GENERATION, R.START_NEW_GENERATION),
    Situation.FAILED: (R.REPEAT_FAILURE, R.REPEAT_FAILURE, R.MISMATCH, R.MISMATCH),
    Situation.EXHAUSTED: (R.EXHAUSTED, R.EXHAUSTED, R.MISMATCH, R.MISMATCH),
    Situation.TIMED_OUT: (R.REPEAT_FAILURE, R.REPEAT_FAILURE, R.MISMATCH, R.MISMATCH),
    Situation.FORGOTTEN: (R.GONE, R.GONE, R.GONE, R.GONE),
}


class IllegalMove(Exception):
    """A bug: the table of moves has no such step."""

    def __init__(self, current: State, target: State) -> None:
        super().__init__(f"{current} does not lead to {target}")


def advance(current: State, target: State) -> State:
    """The target, if the current state leads there.

    Raises:
        IllegalMove: it does not.
    """
    if target not in MOVES[current]:
        raise IllegalMove(current, target)
    return target


def situation_of(
    state: State, *, lapsed: bool = False, input_refused: bool = False, forgotten: bool = False
) -> Situation:
    """The row of a state; `lapsed` and `input_refused` tell the rows of the failed states apart."""
    if forgotten and state in ENDED:
        return Situation.FORGOTTEN
    if state is State.FAILED_TRANSIENT:
        return Situation.LAPSED if lapsed else Situation.TRANSIENT
    if state is State.FAILED_PERMANENT:
        return Situation.INPUT_REFUSED if input_refused else Situation.FAILED
    return _SITUATIONS[state]


def reply_to(situation: Situation, carries: Carries) -> Reply:
    """The cell of the table."""
    return REPLIES[situation][tuple(Carries).index(carries)]
