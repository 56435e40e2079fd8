"""One contract for the index of pieces, held against the fake and against DynamoDB on the embedded AWS."""

import hashlib

import pytest

from piecework.aws.pieces_table import PiecesTable
from piecework.aws.steps_table import result_steps
from piecework.durable.pieces import Origin, Pieces, Result, piece_key
from piecework.errors import Unavailable
from piecework.ops.listing import DAY_MS, SHARDS
from piecework.ops.pieces import StepRow
from piecework.ops.store.piece_rows import PieceRowsTable
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, no_renewal
from tests.support.ops.rows import FakePieceRows

DAY = START_MS // DAY_MS
ORIGIN = Origin("kernel", "echo", ("t-1", "e-1", "a-1"))


class Place:
    """An index, and the tables that write to it."""

    def __init__(self, rows, pieces, steps):
        self.rows, self.pieces, self.steps = rows, pieces, steps


def of_dynamodb(fixture, clock):
    aws = fixture("embedded_aws")
    client, name = aws.client("dynamodb"), aws.new_table()
    return Place(PieceRowsTable(client, name), PiecesTable(client, name), result_steps(client, name, clock))


class Writing:
    """A table of pieces in memory that keeps an index, as DynamoDB does."""

    def __init__(self, rows, clock):
        from tests.support.fakes import FakePieceTable

        self.rows, self.table = rows, FakePieceTable(clock)

    def claim(self, key, piece, now_ms):
        done = self.table.claim(key, piece, now_ms)
        if done[0] and piece.origin:
            self.rows.add(key, piece)
        return done

    def record(self, key, token, piece):
        self.table.record(key, token, piece)
        self.rows.pieces[key] = self.table.read(key)

    def record_listed(self, key, body, expires_at, *, piece, name):
        at_ms = self.table.clock()
        self.rows.of_steps.setdefault(piece, []).append(StepRow(name, at_ms))
        return self.table.record_listed(key, body, expires_at, piece=piece, name=name)

    def __getattr__(self, name):
        return getattr(self.table, name)


def in_memory(fixture, clock):
    rows = FakePieceRows()
    table = Writing(rows, clock)
    return Place(rows, table, table)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=[in_memory, of_dynamodb])
def place(request, clock):
    return request.param(request.getfixturevalue, clock)


def claimed(place, clock, number=1, origin=ORIGIN, result=b'{"candidate_output":1}'):
    key = piece_key("runtime", "kernel", str(number))
    pieces = Pieces(place.pieces, FakeOverflow(), clock=clock, renewal=no_renewal)
    claim = pieces.claim(key, "print", origin)
    if result is not None:
        pieces.record(claim, Result(result))
    return key


def listed(place, day=DAY, before="", limit=9):
    found = [row for shard in SHARDS for row in place.rows.rows(day, shard, before, limit)]
    return [row["pk"] for row in sorted(found, key=lambda row: row["at_id"], reverse=True)]


def test_a_piece_is_listed_from_its_claim_on_and_once_after_its_record(place, clock):
    running = claimed(place, clock, 1, result=None)
    clock.move(1)
    done = claimed(place, clock, 2)

    assert listed(place) == [done, running]
    assert listed(place, day=DAY - 1) == []
    found = place.rows.find([running, done, "f" * 64])
    assert {key: piece.state.value for key, piece in found.items()} == {running: "running", done: "done"}
    assert found[done].origin == ORIGIN and found[done].claimed_ms == START_MS + 1_000


def test_rows_stand_before_a_place_and_are_the_newest_of_them(place, clock):
    keys = []
    for number in range(40):
        clock.move(1)
        keys.append(claimed(place, clock, number))

    assert listed(place, limit=40) == keys[::-1]
    assert listed(place, before=f"{(START_MS + 11_000) % DAY_MS:08d}", limit=40) == keys[9::-1]
    assert all(len(place.rows.rows(DAY, shard, "", 2)) <= 2 for shard in SHARDS)


def test_a_piece_without_an_origin_is_not_listed_and_is_read(place, clock):
    key = claimed(place, clock, origin=None)

    assert listed(place) == [] and place.rows.read(key).origin is None


@pytest.mark.parametrize("letter", ["x", "語", "é", "𝄞"])
def test_ids_that_are_long_are_cut_in_the_copy_alone(place, clock, letter):
    """A row over a kilobyte costs two units at its claim, at each renewal and at its record."""
    key = claimed(place, clock, origin=with_ids(*(letter * 5_000 + end for end in "abc")), result=None)
    if isinstance(place.rows, FakePieceRows):
        return  # the copy is the adapter's
    piece = place.rows.read(key)

    assert {shown[-1] for shown in piece.origin.ids} == {"…"}
    assert all(74 <= len(shown.encode()) <= 80 and set(shown[:-1]) == {letter} for shown in piece.origin.ids)


@pytest.mark.parametrize(
    "ids",
    [("t", "=", "a"), ("=", "=", "="), ("t", "t", "t"), ("=t", "==", "==="), ("=", "==", "="), ("a", "=b", "=b")],
)
def test_ids_are_shown_as_they_came_whatever_they_repeat(place, clock, ids):
    key = claimed(place, clock, origin=with_ids(*ids))

    assert place.rows.read(key).origin.ids == ids


def with_ids(*ids):
    return Origin(ORIGIN.caller, ORIGIN.executor, ids)


def test_steps_are_listed_by_their_piece_in_order(place, clock):
    for number, name in enumerate(("plan", "draft", "plan")):
        clock.move(1)
        key = hashlib.sha256(bytes([number])).hexdigest()
        place.steps.record_listed(key, b"1", START_MS // 1000 + 99, piece="a" * 64, name=name)
    place.steps.record_listed("b" * 64, b"1", START_MS // 1000 + 99, piece="c" * 64, name="other")

    found = place.rows.steps("a" * 64, 9)
    assert found == [
        StepRow("plan", START_MS + 1_000),
        StepRow("draft", START_MS + 2_000),
        StepRow("plan", START_MS + 3_000),
    ]
    assert place.rows.steps("a" * 64, 2) == found[:2]


def test_a_listed_step_is_recorded_once_as_any_other(place, clock):
    expires_at = START_MS // 1000 + 99

    assert place.steps.record_listed("b" * 64, b"1", expires_at, piece="a" * 64, name="n") == b"1"
    assert place.steps.record_listed("b" * 64, b"2", expires_at, piece="a" * 64, name="n") == b"1"


def test_a_steps_key_is_no_pieces(place):
    place.steps.record_once("b" * 64, b"1", START_MS // 1000 + 99)

    assert place.rows.read("b" * 64) is None


def test_a_page_of_dynamodb_reads_as_many_rows_as_it_says(embedded_aws, clock):
    """Each look is one query with its limit, however many rows stand there."""
    asked = []

    class Counting:
        def __init__(self, client):
            self.client = client

        def query(self, **given):
            asked.append(given)
            answer = self.client.query(**given)
            assert len(answer["Items"]) <= given["Limit"]
            return answer

        def __getattr__(self, name):
            return getattr(self.client, name)

    place = of_dynamodb(lambda name: embedded_aws, clock)
    for number in range(60):
        clock.move(1)
        claimed(place, clock, number)
    client = Counting(embedded_aws.client("dynamodb"))
    rows = PieceRowsTable(client, place.rows._table.name)

    for shard in SHARDS:
        rows.rows(DAY, shard, "", 2)

    assert len(asked) == len(SHARDS) and {given["Limit"] for given in asked} == {2}


def test_only_a_claim_writes_to_the_index(embedded_aws, clock):
    """An index costs a write unit whenever one of the attributes that it holds changes."""
    written = []

    class Watching:
        def __init__(self, client):
            self.client = client

        def update_item(self, **given):
            written.append(given["UpdateExpression"] + str(given.get("ExpressionAttributeNames")))
            return self.client.update_item(**given)

        def __getattr__(self, name):
            return getattr(self.client, name)

    name = embedded_aws.new_table()
    shape = embedded_aws.template.of_type("AWS::DynamoDB::Table")["ResultsTable"]
    [index] = shape["GlobalSecondaryIndexes"]
    held = {key["AttributeName"] for key in index["KeySchema"]} | set(index["Projection"]["NonKeyAttributes"])
    table = PiecesTable(Watching(embedded_aws.client("dynamodb")), name)
    pieces = Pieces(table, FakeOverflow(), clock=clock, renewal=no_renewal)

    for number, end in enumerate((lambda claim: pieces.record(claim, Result(b"{}")), pieces.renew, give_up(pieces))):
        end(pieces.claim(piece_key("runtime", "kernel", str(number)), "print", ORIGIN))

    assert len(written) == 3
    assert not [(text, attribute) for text in written for attribute in held if attribute in text]


def give_up(pieces):
    return lambda claim: pieces.release(claim, Unavailable("busy"))
