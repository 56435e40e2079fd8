"""Pauses at the operator's door: only operators, only with a reason, recorded before they are done."""

import pytest

from piecework.durable.pauses import MOST_PAUSES, SEEN_MS, Pause
from piecework.errors import BadRequest, Forbidden, Unavailable
from piecework.ops.pausing import Pausing
from piecework.ops.records import REASON_CHARACTERS, Records
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.pauses import FakePauses
from tests.support.ops.requests import NOBODY, OPERATOR, VIEWER
from tests.support.ops.verbs import FakeRecordRows

ASKED = {"scope": "door:worker", "reason": "the facilitator answers 500"}
HOLDS = Pause("door:worker", START_MS, "operator", ASKED["reason"])


class Bench:
    def __init__(self):
        self.rows, self.pauses, self.clock = FakeRecordRows(), FakePauses(), FakeClock()
        numbers = iter(range(1, 99))
        records = Records(self.rows, self.clock, lambda: f"{next(numbers):032x}")
        self.pausing = Pausing(records, self.pauses, self.clock)

    @property
    def kept(self):
        return [(one.by, one.verb, one.target, one.reason, one.outcome) for one in self.rows.kept.values()]


@pytest.fixture
def bench():
    return Bench()


def test_a_pause_is_recorded_with_who_why_and_what_came_of_it_and_is_listed(bench):
    outcome = {"pause": HOLDS._asdict(), "is_new": True, "seen_within_ms": SEEN_MS}

    assert bench.pausing.pause(OPERATOR, ASKED) == {"record_id": f"{1:032x}", **outcome}
    assert bench.kept == [("operator", "pause", "door:worker", ASKED["reason"], outcome)]
    assert bench.pausing.listed(VIEWER) == {"items": [HOLDS._asdict()]}


def test_a_second_pause_is_told_the_one_that_holds(bench):
    bench.pausing.pause(OPERATOR, ASKED)
    bench.clock.move(9)

    found = bench.pausing.pause(OPERATOR, {**ASKED, "reason": "me too"})
    assert (found["is_new"], found["pause"]) == (False, HOLDS._asdict())


def test_an_end_is_recorded_and_says_whether_there_was_a_pause(bench):
    bench.pausing.pause(OPERATOR, ASKED)

    ends = [bench.pausing.resume(OPERATOR, {**ASKED, "reason": "mended"})["was_paused"] for _ in range(2)]
    assert ends == [True, False] and bench.pausing.listed(VIEWER) == {"items": []}
    assert [(verb, reason) for _, verb, _, reason, _ in bench.kept[1:]] == [("resume", "mended")] * 2


def test_an_act_whose_end_nobody_knows_has_a_record_without_an_outcome(bench):
    def lost(*given):
        raise Unavailable("the results table is out of reach")

    bench.pauses.begin = bench.pauses.end = lost
    for act in (bench.pausing.pause, bench.pausing.resume):
        with pytest.raises(Unavailable):
            act(OPERATOR, ASKED)

    assert [outcome for *_, outcome in bench.kept] == [None, None]


def test_too_many_pauses_are_refused_and_that_is_recorded(bench):
    for number in range(MOST_PAUSES):
        bench.pausing.pause(OPERATOR, {**ASKED, "scope": f"executor:e{number}"})

    with pytest.raises(BadRequest, match="resume something first"):
        bench.pausing.pause(OPERATOR, ASKED)
    assert bench.kept[-1][-1] == {"failed": "bad_request"}


@pytest.mark.parametrize("scope", [None, "", 5, ["door:worker"], "door:ops", "executor:", "executor:a/b", "worker"])
def test_a_scope_without_meaning_is_refused_before_anything_is_recorded(bench, scope):
    for act in (bench.pausing.pause, bench.pausing.resume):
        with pytest.raises(BadRequest, match="scope must be door:runtime"):
            act(OPERATOR, {**ASKED, "scope": scope})

    assert bench.kept == [] and bench.pauses.held == {}


@pytest.mark.parametrize(
    "body", [{"scope": "door:worker"}, {**ASKED, "reason": "ü" * (REASON_CHARACTERS + 1)}, {**ASKED, "until": 5}]
)
def test_without_a_reason_or_with_another_member_nothing_is_done(bench, body):
    for act in (bench.pausing.pause, bench.pausing.resume):
        with pytest.raises(BadRequest):
            act(OPERATOR, body)

    assert bench.kept == [] and bench.pauses.held == {}


def test_a_reason_is_bounded_in_characters(bench):
    assert bench.pausing.pause(OPERATOR, {**ASKED, "reason": "ü" * REASON_CHARACTERS})["is_new"]


def test_only_operators_pause_and_only_readers_read(bench):
    for act in (bench.pausing.pause, bench.pausing.resume):
        with pytest.raises(Forbidden):
            act(VIEWER, ASKED)
    with pytest.raises(Forbidden):
        bench.pausing.listed(NOBODY)

    assert bench.kept == []
