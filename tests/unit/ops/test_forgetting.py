"""What operators have forgotten is recorded before anything goes, with who asked and why."""

import json
from dataclasses import replace

import pytest

from piecework.clock import DAY_MS
from piecework.durable.forgotten import Forgotten, note_in, text_of
from piecework.durable.pieces import Origin, Pieces, Result, piece_key
from piecework.errors import BadRequest, Forbidden, NotFound
from piecework.ops.forgetting.erasing import StillNeeded
from piecework.ops.forgetting.pieces import ForgetPieces
from piecework.ops.forgetting.tasks import emptied, never_begun
from piecework.ops.forgetting.verbs import Forgets
from piecework.ops.pieces import PieceViews
from piecework.ops.records import REASON_CHARACTERS, Records
from piecework.worker.record.execution import KEPT_DAYS
from piecework.worker.record.states import State
from piecework.worker.record.values import Settlement
from piecework.worker.store.executions_table import from_item, to_item
from tests.support.fakes import START_MS, FakeClock, FakeEvidence, FakeOverflow, FakePieceTable, no_renewal
from tests.support.ops.forgetting import FakeErased, FakeForgettable
from tests.support.ops.requests import NOBODY, OPERATOR, VIEWER
from tests.support.ops.rows import FakePieceRows, a_listed_piece
from tests.support.ops.tasks import a_task
from tests.support.ops.verbs import FakeRecordRows

WHY = {"reason": "the customer asks for it"}
KEY = piece_key("runtime", "kernel", "t-1", "e-1", "a-1")
FORGOTTEN = Forgotten(START_MS, "olga", "5" * 32, complete=True, was="done")


class FakeTasks:
    """Forgets every contract."""

    def __init__(self):
        self.asked = []

    def forget(self, contract_id, record):
        self.asked.append((contract_id, record))
        return {"state": "COMPLETED", "complete": True, "had_task": True}


class Bench:
    def __init__(self):
        self.rows, self.clock = FakeRecordRows(), FakeClock()
        self.table, overflow = FakePieceTable(self.clock), FakeOverflow()
        self.pieces = Pieces(self.table, overflow, clock=self.clock, renewal=no_renewal)
        self.tasks = FakeTasks()
        numbers = iter(range(1, 99))
        records = Records(self.rows, self.clock, lambda: f"{next(numbers):032x}")
        erased = FakeErased(overflow, FakeEvidence())
        forgets = ForgetPieces(FakeForgettable(self.table), erased, self.clock, self.clock.sleep)
        self.verbs = Forgets(records, lambda: forgets, lambda: self.tasks)

    def answered(self):
        claim = self.pieces.claim(KEY, "print", Origin("kernel", "echo", ("t-1", "e-1", "a-1")))
        self.pieces.record(claim, Result(b'{"candidate_output":1}'))

    @property
    def kept(self):
        return list(self.rows.kept.values())


@pytest.fixture
def bench():
    return Bench()


def test_a_forgotten_piece_is_recorded_and_its_note_names_the_record(bench):
    bench.answered()

    answer = bench.verbs.piece(OPERATOR, KEY, WHY)

    assert answer == {"record_id": f"{1:032x}", "was": "done", "complete": True, "is_listed": True}
    [record] = bench.kept
    assert (record.by, record.verb, record.target, record.reason) == ("operator", "piece.forget", KEY, WHY["reason"])
    assert record.outcome == {"was": "done", "complete": True, "is_listed": True}
    note = bench.table.items[KEY].forgotten
    assert (note.record_id, note.by, note.at_ms) == (record.record_id, "operator", START_MS)


def test_the_record_is_there_before_anything_goes(bench):
    bench.answered()
    seen = []

    def note(key, before, *given):
        seen.append((bench.kept[0].outcome, bench.table.items[key].body))
        return type(bench.verbs._pieces()._rows).note(bench.verbs._pieces()._rows, key, before, *given)

    bench.verbs._pieces()._rows.note = note
    bench.verbs.piece(OPERATOR, KEY, WHY)

    assert seen == [(None, b'{"candidate_output":1}')]


def test_what_is_refused_is_recorded_as_refused(bench):
    bench.pieces.claim(KEY, "print")

    with pytest.raises(StillNeeded):
        bench.verbs.piece(OPERATOR, KEY, WHY)
    with pytest.raises(NotFound):
        bench.verbs.piece(OPERATOR, "f" * 64, WHY)
    assert [record.outcome for record in bench.kept] == [{"failed": "conflict"}, {"failed": "not_found"}]


@pytest.mark.parametrize("caller", [VIEWER, NOBODY], ids=["viewer", "agent"])
def test_only_operators_have_something_forgotten(bench, caller):
    bench.answered()

    with pytest.raises(Forbidden):
        bench.verbs.piece(caller, KEY, WHY)
    assert bench.kept == [] and bench.table.items[KEY].forgotten is None


@pytest.mark.parametrize(
    "body", [{}, {"reason": " "}, {"reason": "x" * (REASON_CHARACTERS + 1)}, {**WHY, "all": True}, {"reason": 1}]
)
def test_nothing_is_forgotten_without_a_reason_or_with_more_than_one(bench, body):
    bench.answered()

    with pytest.raises(BadRequest):
        bench.verbs.piece(OPERATOR, KEY, body)
    assert bench.kept == [] and bench.table.items[KEY].forgotten is None


def test_a_note_of_a_later_release_is_read():
    text = text_of(FORGOTTEN).replace("{", '{"later":1,', 1)

    assert note_in(text) == FORGOTTEN


def test_views_show_who_had_a_piece_forgotten_and_the_state_that_it_had():
    rows, clock = FakePieceRows(), FakeClock()
    from piecework.durable.pieces import State

    rows.add(KEY, a_listed_piece(state=State.FAILED, body=None, forgotten=FORGOTTEN))
    views = PieceViews(rows, FakeOverflow(), FakeEvidence(), clock)

    shown = views.one(VIEWER, KEY)

    told = {"at_ms": START_MS, "by": "olga", "record_id": "5" * 32, "complete": True}
    assert (shown["forgotten"], shown["state"], shown["failure"], shown["output"]) == (told, "done", None, None)
    assert [item["key"] for item in views.page(VIEWER, {"state": ["done"]})["items"]] == [KEY]
    assert views.page(VIEWER, {"state": ["failed"]})["items"] == []
    rows.pieces[KEY] = a_listed_piece(body=b'{"candidate_output":"left"}', state=State.FAILED, forgotten=FORGOTTEN)
    assert views.one(VIEWER, KEY)["output"] is None


def test_a_forgotten_contract_is_recorded_before_it_is_forgotten(bench):
    answer = bench.verbs.task(OPERATOR, "ctr_1", WHY)

    [record] = bench.kept
    assert (record.by, record.verb, record.target, record.reason) == (
        *("operator", "contract.forget", "ctr_1", WHY["reason"]),
    )
    assert bench.tasks.asked == [("ctr_1", record._replace(outcome=None))]
    assert answer == {"record_id": record.record_id, "state": "COMPLETED", "complete": True, "had_task": True}


@pytest.mark.parametrize(
    "record",
    [
        emptied(
            replace(a_task("ctr_1"), state=State.FAILED_PERMANENT, settlement=Settlement("not_charged")), FORGOTTEN
        ),
        never_begun("ctr_1", FORGOTTEN),
    ],
)
def test_code_that_knows_no_note_takes_a_forgotten_task_for_one_past_its_time(record):
    kept = json.loads(to_item(record, "w")["record"])
    assert kept.pop("forgotten")["by"] == "olga"

    read = from_item({**to_item(record, "w"), "record": json.dumps(kept)})

    assert read.is_ended and read.outcome.finished_at_ms > 0
    assert read.outcome.finished_at_ms + 7 * DAY_MS < START_MS  # the seven days that 7a1e751 keeps every result
    assert read.expires_at * 1000 > record.created_at_ms + KEPT_DAYS * DAY_MS


def test_only_operators_with_a_reason_have_a_contract_forgotten(bench):
    with pytest.raises(Forbidden):
        bench.verbs.task(VIEWER, "ctr_1", WHY)
    with pytest.raises(BadRequest):
        bench.verbs.task(OPERATOR, "ctr_1", {"reason": ""})
    with pytest.raises(NotFound):
        bench.verbs.task(OPERATOR, "../x", WHY)
    assert bench.tasks.asked == bench.kept == []
