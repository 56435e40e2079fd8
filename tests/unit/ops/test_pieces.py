"""What operators see of pieces: the list with its filters, one piece, and its evidence."""

import hashlib
import json

import pytest

from piecework.durable.pieces import Origin, State, piece_key
from piecework.errors import BadRequest, Forbidden, NotFound
from piecework.ops.listing import DAY_MS
from piecework.ops.pieces import MOST_STEPS, PieceViews, StepRow
from tests.support.fakes import START_MS, FakeClock, FakeEvidence, FakeOverflow
from tests.support.ops.requests import NOBODY, VIEWER
from tests.support.ops.rows import FakePieceRows, a_listed_piece

KEY = piece_key("runtime", "kernel", "t-1", "e-1", "a-1")
DIGEST, TOKEN = hashlib.sha256(b"found").hexdigest(), "abcdefghijklmnopqrstuv"
REF = {
    "uri": f"https://r.example/prod/artifacts/{DIGEST}/{TOKEN}",
    "digest": f"sha256:{DIGEST}",
    "size_bytes": 5,
    "mime": "text/plain",
    "created_at": START_MS,
    "producer": "p/echo",
}
ANSWER = {"candidate_output": {"b": 1.50, "a": "x"}, "evidence_inline": [{}, {}], "evidence_refs": [REF]}


class Bench:
    def __init__(self):
        self.rows, self.texts, self.evidence, self.clock = FakePieceRows(), FakeOverflow(), FakeEvidence(), FakeClock()
        self.views = PieceViews(self.rows, self.texts, self.evidence, self.clock)

    def add(self, key=KEY, **members):
        self.rows.add(key, a_listed_piece(**members))

    def page(self, **query):
        return self.views.page(VIEWER, {name: [value] for name, value in query.items()})


@pytest.fixture
def bench():
    return Bench()


def key_of(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_an_item_says_who_asked_what_works_and_how_it_stands(bench):
    bench.add(body=json.dumps(ANSWER).encode())

    assert bench.page(since_ms=str(START_MS)) == {
        "items": [
            {
                "key": KEY,
                "caller": "kernel",
                "executor": "echo",
                "task_id": "t-1",
                "execution_id": "e-1",
                "attempt_id": "a-1",
                "state": "done",
                "is_lapsed": False,
                "claimed_at_ms": START_MS,
                "expires_at_ms": START_MS + DAY_MS,
                "forgotten": None,
            }
        ],
        "next": None,
    }


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, [3, 2, 1, 0]),
        ({"caller": "kernel-b"}, [2]),
        ({"executor": "completion"}, [1]),
        ({"state": "running"}, [3]),
        ({"state": "failed", "caller": "kernel"}, [0]),
        ({"state": "done", "caller": "nobody"}, []),
        ({"since_ms": str(START_MS - 2_000)}, [3, 2]),
        ({"until_ms": str(START_MS - 2_000)}, [2, 1, 0]),
    ],
)
def test_the_list_is_filtered(bench, query, numbers):
    made = [
        {"state": State.FAILED},
        {"origin": Origin("kernel", "completion", ("t", "e", "a"))},
        {"origin": Origin("kernel-b", "echo", ("t", "e", "a"))},
        {"state": State.RUNNING},
    ]
    for number, members in enumerate(made):
        bench.add(key_of(number), at_ms=START_MS - (4 - number) * 1_000, **members)

    assert [item["key"] for item in bench.page(**query)["items"]] == [key_of(number) for number in numbers]


def test_what_has_expired_or_was_claimed_anew_since_is_left_out(bench):
    bench.add(key_of(1), expires_at=START_MS // 1000)
    bench.add(key_of(2), at_ms=START_MS - 5_000)
    bench.rows.pieces[key_of(2)] = a_listed_piece(START_MS)  # the index has not heard of it yet
    bench.add(key_of(3))
    del bench.rows.pieces[key_of(3)]

    assert bench.page()["items"] == []


def test_a_lapsed_runner_is_seen(bench):
    bench.add(state=State.RUNNING)
    bench.clock.move(16)

    [item] = bench.page()["items"]
    assert (item["state"], item["is_lapsed"]) == ("running", True)


@pytest.mark.parametrize(
    "query",
    [{"cursor": "nope"}, {"limit": "0"}, {"limit": "51"}, {"limit": "x"}, {"state": "lost"}, {"since_ms": "-1"},
     {"until_ms": "1e3"}, {"since_ms": "9" * 14}, {"order": "up"}, {"caller": "x" * 513}, {"limit": "٣"}],
)  # fmt: skip
def test_a_parameter_without_meaning_is_refused(bench, query):
    with pytest.raises(BadRequest):
        bench.page(**query)


def test_a_parameter_that_is_repeated_is_refused(bench):
    with pytest.raises(BadRequest, match="2 times"):
        bench.views.page(VIEWER, {"caller": ["a", "b"]})


def test_a_page_reads_a_bounded_number_of_pieces_whatever_is_stored(bench):
    for number in range(3_000):
        bench.add(key_of(number), at_ms=START_MS - number)

    bench.page(state="running", limit="50")

    assert bench.rows.read_pieces <= bench.rows.read_rows <= 512


def test_one_piece_shows_its_outputs_digest_its_references_and_its_steps_but_neither_output_nor_address(bench):
    bench.add(body=json.dumps(ANSWER).encode())
    bench.rows.of_steps[KEY] = [StepRow("plan", START_MS), StepRow("draft", START_MS + 5)]

    found = bench.views.named(VIEWER, {name: [text] for name, text in NAMED.items()})

    assert found == bench.views.one(VIEWER, KEY)
    raw = b'{"a":"x","b":1.5}'
    assert found["output"] == {"digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size_bytes": len(raw)}
    assert found["evidence_refs"] == [{name: value for name, value in REF.items() if name != "uri"}]
    assert found["evidence_inline_count"] == 2
    assert found["steps"] == [{"name": "plan", "at_ms": START_MS}, {"name": "draft", "at_ms": START_MS + 5}]
    assert TOKEN not in str(found) and found["failure"] is None


NAMED = {"caller": "kernel", "task_id": "t-1", "execution_id": "e-1", "attempt_id": "a-1"}


def test_a_large_answer_is_read_from_where_it_lies(bench):
    bench.add(body=None, pointer="results/k/t")
    bench.texts.put("results/k/t", json.dumps(ANSWER).encode())

    assert bench.views.one(VIEWER, KEY)["output"]["size_bytes"] == 17


@pytest.mark.parametrize(
    ("members", "failure"),
    [
        ({"state": State.FAILED, "body": b'{"code":"refused","message":"no"}'}, {"code": "refused", "message": "no"}),
        (
            {"state": State.RELEASED, "reason_code": "unavailable", "reason": "model busy"},
            {"code": "unavailable", "message": "model busy"},
        ),
        ({"state": State.RUNNING}, None),
    ],
)
def test_a_piece_without_an_output_says_why(bench, members, failure):
    bench.add(**members)

    found = bench.views.one(VIEWER, KEY)
    assert (found["output"], found["failure"]) == (None, failure)


def test_more_steps_than_are_shown_are_said(bench):
    bench.add()
    bench.rows.of_steps[KEY] = [StepRow("s", START_MS)] * (MOST_STEPS + 1)

    found = bench.views.one(VIEWER, KEY)
    assert len(found["steps"]) == MOST_STEPS and found["has_more_steps"] is True


def test_a_piece_of_earlier_code_is_read_without_what_it_does_not_have(bench):
    bench.rows.pieces[KEY] = a_listed_piece(origin=None, claimed_ms=0)

    found = bench.views.one(VIEWER, KEY)
    assert (found["caller"], found["task_id"], found["claimed_at_ms"]) == (None, None, None)


def test_evidence_is_served_to_who_may_read_without_its_token(bench):
    bench.add(body=json.dumps(ANSWER).encode())
    bench.evidence.put(DIGEST, TOKEN, b"found", "text/plain")

    assert bench.views.evidence(VIEWER, KEY, DIGEST).data == b"found"
    for key, digest in ((KEY, "0" * 64), (key_of(9), DIGEST)):
        with pytest.raises(NotFound):
            bench.views.evidence(VIEWER, key, digest)


@pytest.mark.parametrize("key", [key_of(9), "x", "", "A" * 64])
def test_a_piece_that_is_not_there_is_not_found(bench, key):
    with pytest.raises(NotFound):
        bench.views.one(VIEWER, key)


def test_an_expired_piece_is_not_found(bench):
    bench.add()
    bench.clock.move(86_401)

    with pytest.raises(NotFound):
        bench.views.one(VIEWER, KEY)


def test_a_piece_is_named_by_all_of_its_ids(bench):
    with pytest.raises(BadRequest, match="attempt_id"):
        bench.views.named(VIEWER, {name: [text] for name, text in NAMED.items() if name != "attempt_id"})


@pytest.mark.parametrize(
    "ask",
    [
        lambda views: views.page(NOBODY, {}),
        lambda views: views.one(NOBODY, KEY),
        lambda views: views.named(NOBODY, {}),
        lambda views: views.evidence(NOBODY, KEY, DIGEST),
    ],
)
def test_who_may_not_read_is_refused_by_the_domain(bench, ask):
    bench.add()

    with pytest.raises(Forbidden):
        ask(bench.views)
