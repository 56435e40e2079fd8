"""One contract for the piece table, held against the fake and against DynamoDB on the embedded AWS."""

import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.aws.pieces_table import PiecesTable
from piecework.aws.steps_table import result_steps
from piecework.durable.pieces import LEASE_MS, Piece, State
from piecework.errors import LeaseLost
from tests.support.fakes import START_MS, FakeClock, FakePieceTable
from tests.support.lost_answers import LostAnswers

LATER = START_MS + 10 * LEASE_MS


def a_piece(token: str = "t1", fingerprint: str = "f1", now_ms: int = START_MS, ttl_seconds: int = 1000) -> Piece:
    return Piece(State.RUNNING, token, fingerprint, now_ms + LEASE_MS, now_ms // 1000 + ttl_seconds)


def recorded(piece: Piece, body: bytes = b"answer", state: State = State.DONE) -> Piece:
    return replace(piece, state=state, lease_until_ms=0, body=body)


def a_place(fixture, answers=lambda client: client):
    """A client of the embedded AWS and a table of its own."""
    aws = fixture("embedded_aws")
    return answers(aws.client("dynamodb")), aws.new_table()


TABLES = {  # each is made from the fixtures that it asks for
    "fake": lambda fixture: FakePieceTable(FakeClock()),
    "dynamodb": lambda fixture: PiecesTable(*a_place(fixture)),
    "lost answers": lambda fixture: PiecesTable(*a_place(fixture, LostAnswers)),
}
STEPS = {
    "fake": lambda fixture: FakePieceTable(FakeClock()),
    "dynamodb": lambda fixture: result_steps(*a_place(fixture), FakeClock()),
    "lost answers": lambda fixture: result_steps(*a_place(fixture, LostAnswers), FakeClock()),
}


@pytest.fixture(params=TABLES)
def table(request):
    return TABLES[request.param](request.getfixturevalue)


@pytest.fixture(params=STEPS)
def steps(request):
    return STEPS[request.param](request.getfixturevalue)


@pytest.fixture
def key() -> str:
    return uuid4().hex


class TestPieceTable:
    def test_the_first_claim_wins_and_replaces_nothing(self, table, key):
        won, replaced = table.claim(key, a_piece(), START_MS)

        assert won and replaced in (None, a_piece())  # the latter: the first try's answer was lost
        assert table.read(key) == a_piece()

    def test_a_second_claim_sees_the_running_piece(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)

        assert table.claim(key, a_piece("t2"), START_MS + 1) == (False, a_piece("t1"))

    def test_a_claim_whose_answer_was_lost_is_recognised_by_its_token(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)

        won, standing = table.claim(key, a_piece("t1"), START_MS)

        assert won and standing == a_piece("t1")

    def test_a_lapsed_piece_is_taken_over(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)

        won, replaced = table.claim(key, a_piece("t2", now_ms=LATER), LATER)

        assert won and replaced in (a_piece("t1"), a_piece("t2", now_ms=LATER))  # the latter: an answer was lost

    def test_a_lapsed_piece_of_another_payload_is_not_taken_over(self, table, key):
        table.claim(key, a_piece("t1", "f1"), START_MS)

        assert table.claim(key, a_piece("t2", "f2"), LATER) == (False, a_piece("t1", "f1"))

    def test_a_lapsed_piece_is_taken_over_for_the_same_numbers_alone(self, table, key):
        first, other, same = (replace(a_piece(f"t{number}"), exact=f"e{number % 2}") for number in (1, 2, 3))
        table.claim(key, first, START_MS)

        assert table.claim(key, other, LATER) == (False, first)
        assert table.claim(key, same, LATER)[0]

    def test_a_lapsed_piece_of_earlier_code_is_taken_over(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)

        assert table.claim(key, replace(a_piece("t2"), exact="e1"), LATER)[0]

    def test_both_fingerprints_are_kept(self, table, key):
        piece = replace(a_piece(), exact="e1")
        table.claim(key, piece, START_MS)
        table.record(key, "t1", recorded(piece))

        assert (table.read(key).fingerprint, table.read(key).exact) == ("f1", "e1")

    def test_a_renewed_piece_is_not_taken_over(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.renew(key, "t1", LATER + 1)

        assert table.claim(key, a_piece("t2"), LATER)[0] is False

    def test_an_expired_piece_counts_as_absent_whatever_its_state(self, table, key):
        table.claim(key, a_piece("t1", ttl_seconds=60), START_MS)
        table.record(key, "t1", recorded(a_piece("t1", ttl_seconds=60)))

        won, _ = table.claim(key, a_piece("t2", "f2", START_MS + 61_000), START_MS + 61_000)

        assert won

    @pytest.mark.parametrize("state", [State.DONE, State.FAILED])
    def test_a_recorded_answer_stands(self, table, key, state):
        table.claim(key, a_piece("t1"), START_MS)
        table.record(key, "t1", recorded(a_piece("t1"), b"\x00\xff", state))

        won, standing = table.claim(key, a_piece("t2"), LATER)

        assert not won and standing.body == b"\x00\xff" and standing.state is state
        assert table.read(key).body == b"\x00\xff"

    def test_an_empty_answer_is_kept_as_such(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.record(key, "t1", recorded(a_piece("t1"), b""))

        assert table.read(key).body == b""

    def test_a_pointer_is_kept_instead_of_a_body(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.record(key, "t1", replace(recorded(a_piece("t1")), body=None, pointer="results/x/t1"))

        assert table.read(key).pointer == "results/x/t1" and table.read(key).body is None

    def test_recording_twice_under_one_claim_is_one_recording(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.record(key, "t1", recorded(a_piece("t1")))
        table.record(key, "t1", recorded(a_piece("t1")))

        assert table.read(key).body == b"answer"

    def test_a_runner_that_was_taken_over_can_do_nothing_more(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.claim(key, a_piece("t2", now_ms=LATER), LATER)

        for late_write in (
            lambda: table.renew(key, "t1", LATER),
            lambda: table.record(key, "t1", recorded(a_piece("t1"))),
            lambda: table.release(key, "t1", "unavailable", "late"),
        ):
            with pytest.raises(LeaseLost):
                late_write()
        assert table.read(key).token == "t2" and table.read(key).state is State.RUNNING

    def test_a_late_runner_cannot_pass_off_anothers_answer_as_its_own(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.claim(key, a_piece("t2", now_ms=LATER), LATER)
        table.record(key, "t2", recorded(a_piece("t2"), b"the answer"))

        with pytest.raises(LeaseLost):
            table.record(key, "t1", recorded(a_piece("t1"), b"late"))
        assert table.read(key).body == b"the answer"

    def test_nothing_can_be_written_to_a_piece_that_is_not_there(self, table, key):
        with pytest.raises(LeaseLost):
            table.record(key, "t1", recorded(a_piece("t1")))
        assert table.read(key) is None

    def test_a_recorded_answer_cannot_be_released(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.record(key, "t1", recorded(a_piece("t1")))

        with pytest.raises(LeaseLost):
            table.release(key, "t1", "unavailable", "late")
        assert table.read(key).state is State.DONE

    def test_a_released_piece_can_be_claimed_with_any_payload(self, table, key):
        table.claim(key, a_piece("t1"), START_MS)
        table.release(key, "t1", "unavailable", "model busy")

        assert table.read(key).reason == "model busy" and table.read(key).reason_code == "unavailable"
        assert table.claim(key, a_piece("t2", "f2"), START_MS)[0] is True
        assert table.read(key).reason == ""

    def test_a_step_is_recorded_once(self, steps, key):
        expires_at = START_MS // 1000 + 60

        assert steps.find(key) is None
        assert steps.record_once(key, b"first", expires_at) == b"first"
        assert steps.record_once(key, b"second", expires_at) == b"first"
        assert steps.find(key) == b"first"

    def test_an_expired_step_counts_as_absent(self, steps, key):
        steps.record_once(key, b"first", START_MS // 1000)

        assert steps.find(key) is None
        assert steps.record_once(key, b"second", START_MS // 1000 + 60) == b"second"

    def test_of_many_claims_at_once_one_wins(self, table, key):
        outcomes: list[bool] = []
        threads = [
            threading.Thread(target=lambda n=n: outcomes.append(table.claim(key, a_piece(f"t{n}"), START_MS)[0]))
            for n in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert outcomes.count(True) == 1 and len(outcomes) == 16


def test_waiters_and_steps_read_what_was_written_last():
    asked: list[dict] = []

    class Client:
        def get_item(self, **request):
            asked.append(request)
            return {}

    table, steps = PiecesTable(Client(), "t"), result_steps(Client(), "t")

    assert table.read("k") is None and steps.find("k") is None
    assert [request["ConsistentRead"] for request in asked] == [True, True]
