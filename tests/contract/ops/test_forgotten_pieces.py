"""Pieces that are forgotten: what they were about is gone, does not run again and does not come back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from piecework.aws.bucket import EvidenceBucket, OverflowBucket
from piecework.aws.pieces_table import PiecesTable
from piecework.aws.steps_table import result_steps
from piecework.durable.artifacts import artifact_token, keep
from piecework.durable.forgotten import Forgotten
from piecework.durable.pieces import (
    INLINE_LIMIT,
    Claim,
    Origin,
    Piece,
    Pieces,
    Recorded,
    Result,
    Running,
    State,
    piece_key,
)
from piecework.durable.steps import ListedSteps
from piecework.errors import LeaseLost, NotFound, PayloadForgotten, Retryable, Unavailable
from piecework.extend.executors import Step
from piecework.extend.right import RightLost
from piecework.jsons import canonical
from piecework.jsons.fingerprints import Fingerprint
from piecework.ops.forgetting.erasing import BUDGET_MS, SETTLES_MS, StillNeeded
from piecework.ops.forgetting.pieces import LEAST_SECONDS, ForgetPieces
from piecework.ops.store.forgotten_pieces import ForgettablePiecesTable
from piecework.ops.store.objects import ErasedObjects
from tests.support.fakes import START_MS, FakeClock, FakeEvidence, FakeOverflow, FakePieceTable, no_renewal
from tests.support.ops.forgetting import OLGA, FakeErased, FakeForgettable

SECRET = "what-nobody-may-know"
ORIGIN = Origin("kernel", "echo", ("t-1", "e-1", "a-1"))
KEY = piece_key("runtime", "kernel", "t-1", "e-1", "a-1")
PRINT = f"{SECRET}-print"  # a digest of a short text can be guessed, so it goes too


@dataclass
class Place:
    """Pieces with all they can have, and who forgets them."""

    pieces: Pieces
    steps: Any
    evidence: Any
    forgets: ForgetPieces
    clock: FakeClock
    left: Callable[[], str]
    rows: Any
    table: Any

    def claim(self) -> Claim:
        claim = self.pieces.claim(KEY, PRINT, ORIGIN)
        assert isinstance(claim, Claim)
        return claim

    def step(self, claim: Claim, name: str = SECRET) -> None:
        steps = ListedSteps(self.steps, claim, lambda: self.clock() // 1000 + 86_400)
        steps.record(Step(name, 1), canonical({"said": SECRET}))

    def answered(self, size: int = 1) -> None:
        """A piece with a step, evidence and an answer of so many texts."""
        claim = self.claim()
        self.step(claim)
        kept = keep(self.evidence, SECRET.encode(), "text/plain", artifact_token())
        refs = [{"uri": f"https://own.example{kept.path}", "digest": f"sha256:{kept.digest}"}]
        answer = {"candidate_output": SECRET * size, "evidence_inline": [SECRET], "evidence_refs": refs}
        self.pieces.record(claim, Result(canonical(answer)))

    def forget(self, **given: Any) -> dict[str, Any]:
        return self.forgets.forget(KEY, OLGA._replace(**given))

    def ask(self, mark: str = PRINT) -> Claim | Recorded | Running:
        return self.pieces.claim(KEY, mark, ORIGIN)


def in_memory(fixture, clock):
    table, overflow, evidence = FakePieceTable(clock), FakeOverflow(), FakeEvidence()
    rows = FakeForgettable(table)
    pieces = Pieces(table, overflow, clock=clock, sleep=clock.sleep, renewal=no_renewal)

    def left():
        return str((table.items, table.steps, overflow.objects, evidence.objects))

    forgets = ForgetPieces(rows, FakeErased(overflow, evidence), clock, clock.sleep)
    return Place(pieces, table, evidence, forgets, clock, left, rows, table)


def of_aws(fixture, clock, *, versioned=False):
    aws = fixture("embedded_aws")
    client, name, bucket = aws.client("dynamodb"), aws.new_table(), aws.new_bucket()
    if versioned:
        aws.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3 = lambda: aws.client("s3")  # noqa: E731
    table, rows = PiecesTable(client, name), ForgettablePiecesTable(client, name)
    pieces = Pieces(table, OverflowBucket(s3, bucket), clock=clock, sleep=clock.sleep, renewal=no_renewal)

    def left():
        found = client.scan(TableName=name)
        assert "LastEvaluatedKey" not in found
        versions = s3().list_object_versions(Bucket=bucket)
        objects = [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]
        return str(found["Items"]) + str([one["Key"] for one in objects]) * bool(objects)

    forgets = ForgetPieces(rows, ErasedObjects(s3, bucket), clock, clock.sleep)
    steps, evidence = result_steps(client, name, clock), EvidenceBucket(s3, bucket)
    return Place(pieces, steps, evidence, forgets, clock, left, rows, table)


def of_a_versioned_bucket(fixture, clock):
    return of_aws(fixture, clock, versioned=True)


@pytest.fixture(params=[in_memory, of_aws, of_a_versioned_bucket])
def place(request):
    return request.param(request.getfixturevalue, FakeClock())


@pytest.fixture(params=[in_memory, of_aws])
def table_place(request):
    return request.param(request.getfixturevalue, FakeClock())


@pytest.mark.parametrize("size", [1, INLINE_LIMIT])
def test_nothing_of_a_piece_is_left_in_the_table_or_the_bucket(place, size):
    place.answered(size)
    before = place.left()
    assert SECRET in before and "evidence" in before

    answer = place.forget()

    assert answer == {"was": "done", "complete": True, "is_listed": True}
    after = place.left()
    assert SECRET not in after and "evidence/" not in after and "results/" not in after and "FakeServed" not in after
    piece = place.rows.read(KEY)
    assert piece.forgotten == Forgotten(START_MS, "olga", OLGA.record_id, complete=True, was="done")
    assert (piece.body, piece.pointer, piece.fingerprint, piece.exact) == (None, None, "", "")
    assert (piece.origin, piece.claimed_ms) == (ORIGIN, START_MS)


@pytest.mark.parametrize("mark", [PRINT, "another payload"])
def test_who_asks_again_gets_one_clear_failure_whatever_he_sends_and_nothing_runs(table_place, mark):
    table_place.answered()
    table_place.forget()

    with pytest.raises(PayloadForgotten) as failure:
        table_place.pieces.perform(KEY, mark, lambda _: 1 / 0, until_ms=START_MS + 60_000, origin=ORIGIN)
    assert not failure.value.retryable


def test_a_piece_that_runs_is_refused_and_stays_as_it_is(table_place):
    claim = table_place.claim()

    with pytest.raises(StillNeeded, match="running"):
        table_place.forget()
    table_place.pieces.record(claim, Result(b"{}"))

    assert table_place.ask() == Recorded(b"{}", True)


def test_a_runner_whose_lease_has_lapsed_writes_nothing_after_its_piece_was_forgotten(table_place):
    late = table_place.claim()
    table_place.step(late)
    table_place.clock.move(20)

    assert table_place.forget()["was"] == "running"

    for size in (1, INLINE_LIMIT):
        with pytest.raises(LeaseLost):
            table_place.pieces.record(late, Result(canonical({"candidate_output": SECRET * size})))
    with pytest.raises(LeaseLost):
        table_place.pieces.release(late, Retryable(SECRET))
    with pytest.raises(LeaseLost):
        table_place.pieces.renew(late)
    with pytest.raises(RightLost):
        table_place.step(late, f"{SECRET}-late")
    assert SECRET not in table_place.left() and "results/" not in table_place.left()
    with pytest.raises(PayloadForgotten):
        table_place.ask()


def test_a_runner_that_renews_first_keeps_its_piece(table_place):
    late = table_place.claim()
    table_place.clock.move(20)
    read = table_place.rows.read(KEY)
    table_place.pieces.renew(late)
    note = Forgotten(table_place.clock(), "olga", OLGA.record_id, was="running")

    assert not table_place.rows.note(KEY, read, note, read.expires_at, table_place.clock())
    with pytest.raises(StillNeeded):
        table_place.forget()
    table_place.pieces.record(late, Result(b"{}"))


def test_a_note_is_not_written_over_what_has_changed_since_it_was_read(table_place):
    claim = table_place.claim()
    table_place.pieces.release(claim, Retryable("later"))
    read = table_place.rows.read(KEY)
    again = table_place.claim()
    table_place.pieces.record(again, Result(b"{}"))
    note = Forgotten(START_MS, "olga", OLGA.record_id)

    assert not table_place.rows.note(KEY, read, note, read.expires_at, START_MS)
    assert table_place.ask() == Recorded(b"{}", True)


def test_a_piece_that_was_given_up_says_no_reason_and_never_runs_again(table_place):
    claim = table_place.claim()
    table_place.pieces.release(claim, Retryable(SECRET))

    assert table_place.forget()["was"] == "released"

    assert SECRET not in table_place.left()
    with pytest.raises(PayloadForgotten):
        table_place.ask()


def test_who_waits_for_a_piece_that_is_forgotten_gets_the_failure(table_place):
    table_place.claim()
    table_place.clock.move(20)
    table_place.forget()

    with pytest.raises(PayloadForgotten):
        table_place.pieces.wait(KEY, PRINT, table_place.clock() + 5_000)


def test_the_first_who_asks_stays_named_and_a_repeat_changes_nothing(table_place):
    table_place.answered()
    table_place.forget()
    kept = table_place.left()
    table_place.clock.move(60)

    assert table_place.forget(by="oscar", record_id="6" * 32)["complete"] is True
    assert table_place.left() == kept


def test_the_answer_to_who_asks_again_lasts_as_long_as_the_answer_would_have(table_place):
    table_place.answered()
    before = table_place.rows.read(KEY).expires_at
    table_place.clock.move(86_390)
    table_place.forget()

    now_s = table_place.clock() // 1000
    assert table_place.rows.read(KEY).expires_at >= max(before, now_s + LEAST_SECONDS - SETTLES_MS // 1000)


def test_a_repeat_erases_what_a_call_without_time_has_left(table_place):
    table_place.answered(INLINE_LIMIT)
    erase, calls = table_place.forgets._objects.erase, []

    def slow(prefix, has_time):
        calls.append(prefix)
        table_place.clock.move(BUDGET_MS / 1000)
        return erase(prefix, has_time)

    table_place.forgets._objects.erase = slow
    assert table_place.forget()["complete"] is False
    assert SECRET in table_place.left() and len(calls) == 1
    with pytest.raises(PayloadForgotten):
        table_place.ask()

    table_place.forgets._objects.erase = erase
    assert table_place.forget()["complete"] is True
    assert SECRET not in table_place.left()


@pytest.mark.parametrize("dies_at", range(6))
def test_a_repeat_erases_what_a_dead_process_has_left(table_place, dies_at):
    table_place.answered(INLINE_LIMIT)
    left, parts = [dies_at], ((table_place.forgets._objects, ("erase",)), (table_place.rows, ("drop_step", "complete")))
    whole = {}
    for part, names in parts:
        for name in names:
            call = getattr(part, name)
            whole[id(part), name] = (part, call)

            def dying(*given, _call=call):
                left[0] -= 1
                if left[0] < 0:
                    raise Unavailable("the process is killed")
                return _call(*given)

            setattr(part, name, dying)
    try:
        table_place.forget()
    except Unavailable:
        with pytest.raises(PayloadForgotten):
            table_place.ask()
    for (_, name), (part, call) in whole.items():
        setattr(part, name, call)

    assert table_place.forget()["complete"] is True
    assert SECRET not in table_place.left() and "evidence/" not in table_place.left()


def test_a_step_that_the_index_shows_late_is_erased_too(table_place):
    table_place.answered()
    steps, looks = table_place.rows.steps, []

    def late(key):
        looks.append(table_place.clock())
        return steps(key) if len(looks) > 1 else iter([])

    table_place.rows.steps = late
    table_place.forget()

    assert SECRET not in table_place.left() and looks[1] - looks[0] >= SETTLES_MS


def test_what_is_not_there_or_has_expired_is_not_forgotten(table_place):
    with pytest.raises(NotFound):
        table_place.forget()
    with pytest.raises(NotFound):
        table_place.forgets.forget("../EXEC", OLGA)
    table_place.answered()
    table_place.clock.move(90_000)
    with pytest.raises(NotFound):
        table_place.forget()


def test_code_of_7a1e751_refuses_what_was_forgotten(table_place):
    """It reads these attributes alone, and asks whether the payload's fingerprint is the row's before anything else."""
    table_place.answered()
    table_place.forget()

    left = replace(table_place.rows.read(KEY), forgotten=None)

    assert left.state is State.FAILED and not left.exact
    assert not left.stands_for(Fingerprint.of(PRINT)) and not left.is_lapsed(START_MS + 10**9)
    won, _ = table_place.table.claim(KEY, Piece(State.RUNNING, "old", PRINT, START_MS + 9, 9, exact=PRINT), START_MS)
    assert not won


def test_another_pieces_steps_evidence_and_answers_stay(place):
    other = place.pieces.claim("0" * 64, "other", ORIGIN)
    ListedSteps(place.steps, other, lambda: START_MS // 1000 + 86_400).record(Step("other", 1), b'"kept"')
    kept = keep(place.evidence, b"kept", "text/plain", artifact_token())
    place.pieces.record(other, Result(canonical({"candidate_output": "y" * INLINE_LIMIT * 2})))
    place.answered()

    place.forget()

    assert place.evidence.read(kept.digest, kept.path.rpartition("/")[2]).data == b"kept"
    assert place.pieces.claim("0" * 64, "other", ORIGIN).ok
    assert place.rows.read("0" * 64).state is State.DONE and list(place.rows.steps("0" * 64))
