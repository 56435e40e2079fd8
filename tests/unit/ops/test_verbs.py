"""What operators may do: only operators, only with a reason, and every write is recorded with what came of it."""

import pytest

from piecework.edge.roles import Caller
from piecework.errors import BadRequest, Forbidden, Internal, NotFound, RequestRejected, Unavailable
from piecework.ops.records import KEPT_SECONDS, REASON_CHARACTERS, Records
from piecework.ops.verbs import MOST_LETTERS, Letter, Verbs
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.requests import NOBODY, OPERATOR, VIEWER
from tests.support.ops.verbs import FakeHooks, FakeLetters, FakeRecordRows

WHY = {"reason": "the seeker's server was down"}


class Bench:
    def __init__(self):
        self.rows, self.letters, self.clock = FakeRecordRows(), FakeLetters(), FakeClock()
        self.hooks = FakeHooks({("ctr_1", "evt_1"): "given_up", ("ctr_1", "evt_2"): "stopped"})
        self.notices = FakeHooks({("ex_1", "e1"): "given_up", ("ex_1", "e2"): "stopped"})
        numbers = iter(range(1, 99))
        self.records = Records(self.rows, self.clock, lambda: f"{next(numbers):032x}")
        self.verbs = Verbs(self.records, {"task": self.letters}, lambda: self.hooks, lambda: self.notices)

    def letter(self, number):
        self.letters.letters.append(Letter(f"m{number}", '{"kind":"task"}', START_MS, 5, f"r{number}"))

    @property
    def kept(self):
        return list(self.rows.kept.values())


@pytest.fixture
def bench():
    return Bench()


def test_a_webhook_that_is_sent_again_is_recorded_with_who_why_and_what_came_of_it(bench):
    answer = bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", WHY)

    assert answer == {"record_id": f"{1:032x}", "was": "given_up", "is_asked_for": True}
    [record] = bench.kept
    assert (record.by, record.verb, record.target) == ("operator", "webhook.resend", "ctr_1/evt_1")
    assert (record.reason, record.at_ms) == (WHY["reason"], START_MS)
    assert record.outcome == {"was": "given_up", "is_asked_for": True}
    assert bench.rows.expires[record.record_id] == START_MS // 1000 + KEPT_SECONDS


def test_a_webhook_about_an_approval_is_sent_again_and_recorded_as_such(bench):
    answer = bench.verbs.resend_notice(OPERATOR, "ex_1", "e1", WHY)

    assert answer == {"record_id": f"{1:032x}", "was": "given_up", "is_asked_for": True}
    [record] = bench.kept
    assert (record.by, record.verb, record.target) == ("operator", "approval_webhook.resend", "ex_1/e1")
    assert bench.verbs.resend_notice(OPERATOR, "ex_1", "e2", WHY)["is_asked_for"] is False
    with pytest.raises(NotFound):
        bench.verbs.resend_notice(OPERATOR, "ctr_1", "evt_1", WHY)  # hired work's webhooks are others


@pytest.mark.parametrize(
    ("caller", "body", "error"),
    [
        (VIEWER, WHY, Forbidden),
        (NOBODY, WHY, Forbidden),
        (OPERATOR, {}, BadRequest),
        (OPERATOR, {**WHY, "url": "x"}, BadRequest),
    ],
)
def test_a_webhook_about_an_approval_is_sent_again_by_operators_with_a_reason(bench, caller, body, error):
    with pytest.raises(error):
        bench.verbs.resend_notice(caller, "ex_1", "e1", body)
    assert bench.kept == []


def test_a_seeker_who_wants_no_more_is_not_asked_again(bench):
    assert bench.verbs.resend(OPERATOR, "ctr_1", "evt_2", WHY)["is_asked_for"] is False


def test_what_fails_is_recorded_as_failed(bench):
    with pytest.raises(NotFound):
        bench.verbs.resend(OPERATOR, "ctr_1", "evt_9", WHY)

    assert [record.outcome for record in bench.kept] == [{"failed": "not_found"}]


@pytest.mark.parametrize("error", [Unavailable("the queue is out of reach; try again"), Internal("no answer")])
def test_an_act_of_which_nobody_knows_how_far_it_came_is_not_recorded_as_failed(bench, error):
    bench.hooks.failure = error

    with pytest.raises(type(error)):
        bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", WHY)
    assert [record.outcome for record in bench.kept] == [None]


def test_what_aws_refused_for_good_is_recorded_as_failed(bench):
    bench.hooks.failure = RequestRejected("the queue does not exist")

    with pytest.raises(RequestRejected):
        bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", WHY)
    assert [record.outcome for record in bench.kept] == [{"failed": "internal"}]


def test_a_bug_leaves_a_record_without_an_outcome(bench):
    bench.hooks.resend = lambda *given: 1 / 0

    with pytest.raises(ZeroDivisionError):
        bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", WHY)
    assert [record.outcome for record in bench.kept] == [None]


@pytest.mark.parametrize("reason", [None, "", "  \n", 5, ["x"], "x" * (REASON_CHARACTERS + 1)])
def test_nothing_is_done_without_a_reason(bench, reason):
    bench.letter(1)
    for ask in (
        lambda body: bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", body),
        lambda body: bench.verbs.redrive(OPERATOR, "task", body),
    ):
        with pytest.raises(BadRequest, match="reason"):
            ask({"reason": reason})
    assert bench.kept == [] and bench.letters.put == []


@pytest.mark.parametrize("caller", [VIEWER, NOBODY], ids=["viewer", "agent"])
def test_only_operators_write_and_nothing_is_done_or_recorded_for_others(bench, caller):
    bench.letter(1)
    for ask in (
        lambda: bench.verbs.resend(caller, "ctr_1", "evt_1", WHY),
        lambda: bench.verbs.look(caller, "task", {}),
        lambda: bench.verbs.redrive(caller, "task", WHY),
    ):
        with pytest.raises(Forbidden):
            ask()
    assert bench.kept == [] and bench.letters.asked == []


def test_a_nameless_caller_of_an_open_door_is_recorded_as_such(bench):
    bench.verbs.resend(Caller(), "ctr_1", "evt_1", WHY)

    assert bench.kept[0].by == "anonymous"


def test_dead_letters_are_shown_and_stay_where_they_are(bench):
    bench.letter(1)

    found = bench.verbs.look(OPERATOR, "task", {})

    shown = {"message_id": "m1", "body": '{"kind":"task"}', "sent_at_ms": START_MS, "receives": 5}
    assert found == {"letters": [shown]}
    assert bench.letters.asked == [(MOST_LETTERS, 0)] and bench.kept == []


def test_a_dead_letter_does_not_show_what_opens_its_task(bench):
    body = '{"attempt":1,"contract_id":"ctr_1","generation":1,"kind":"task","task_id":"task_secret"}'
    bench.letters.letters.append(Letter("m1", body, START_MS, 5, "r1"))

    [shown] = bench.verbs.look(OPERATOR, "task", {})["letters"]

    assert shown["body"] == body.replace("task_secret", "…")


def test_dead_letters_are_put_back_a_few_at_a_time_and_those_of_which_nobody_knows_are_named(bench):
    for number in range(30):
        bench.letter(number)
    bench.letters.stuck = {"m1"}

    answer = bench.verbs.redrive(OPERATOR, "task", {**WHY, "count": 3})

    assert (answer["taken"], answer["put_back"], answer["uncertain"]) == (3, 2, ["m1"])
    assert bench.letters.put == ["m0", "m2"]
    assert bench.kept[0].outcome == {"taken": 3, "put_back": 2, "uncertain": ["m1"]}
    assert bench.verbs.redrive(OPERATOR, "task", WHY)["taken"] == MOST_LETTERS


@pytest.mark.parametrize("count", [0, 11, -1, 1.5, "3", True, None])
def test_a_count_without_meaning_is_refused(bench, count):
    with pytest.raises(BadRequest, match="count"):
        bench.verbs.redrive(OPERATOR, "task", {**WHY, "count": count})
    assert bench.kept == []


def test_a_queue_or_a_member_that_is_not_known_is_refused(bench):
    with pytest.raises(NotFound, match="task"):
        bench.verbs.redrive(OPERATOR, "nope", WHY)
    with pytest.raises(BadRequest, match="dry_run"):
        bench.verbs.redrive(OPERATOR, "task", {**WHY, "dry_run": True})
    assert bench.kept == []


@pytest.mark.parametrize("contract_id", ["x", "ctr_", "ctr_~"])
def test_what_is_no_contract_is_not_found(bench, contract_id):
    with pytest.raises(NotFound):
        bench.verbs.resend(OPERATOR, contract_id, "evt_1", WHY)


def test_records_are_listed_the_newest_first_for_who_may_read(bench):
    for _ in range(3):
        bench.clock.move(1)
        bench.verbs.resend(OPERATOR, "ctr_1", "evt_1", WHY)

    page = bench.records.page(VIEWER, {})

    assert [item["at_ms"] - START_MS for item in page["items"]] == [3_000, 2_000, 1_000]
    assert page["items"][0]["reason"] == WHY["reason"]
    with pytest.raises(Forbidden):
        bench.records.page(NOBODY, {})
    with pytest.raises(BadRequest):
        bench.records.page(VIEWER, {"cursor": ["x"]})
