"""Cancelling many executions at once: what one request reads and does at most, and how the next one goes on."""

import pytest

from piecework.kernel.errors import CountChanged, ExecutionTerminal, Invalid, NotFound, ServiceUnavailable
from piecework.kernel.model.ports.executions import Filter, Summaries, Summary
from piecework.kernel.model.state import Status
from piecework.kernel.service import bulk
from piecework.kernel.service.bulk import Bulk
from piecework.kernel.wire.cursors import page_of, place_of
from tests.support.fakes import START_MS, FakeClock


class Listed:
    """Open executions in memory, and who was cancelled."""

    def __init__(self, count, status=Status.PENDING):
        self.clock = FakeClock(START_MS)
        self.rows = [
            Summary(f"e{n:05d}", status, "even" if n % 2 == 0 else "odd", {}, START_MS - n, START_MS)
            for n in range(count)
        ]
        self.read, self.cancelled, self.refusals, self.seconds_each = 0, [], {}, 0.0

    def page(self, which, cursor, limit):
        place = place_of(cursor)
        rows = [row for row in self.rows if row.status is which.status and (row.created_at_ms, row.id) < place]
        page, cursor = page_of(Summaries(rows[: limit + 1], None), limit)
        self.read += len(page)
        return page, cursor

    def cancel(self, execution_id, by):
        assert by == "mia"
        self.clock.move(self.seconds_each)
        if execution_id in self.refusals:
            raise self.refusals[execution_id]
        self.rows = [row for row in self.rows if row.id != execution_id]
        self.cancelled.append(execution_id)

    def ask(self, confirm=None, cursor="", **which):
        return Bulk(self.page, self.cancel, self.clock).cancel(Filter(**which), cursor, confirm, "mia")


def test_a_request_cancels_a_hundred_and_its_repeats_the_rest():
    listed = Listed(250)
    counted = listed.ask(status=Status.PENDING)

    answers = [listed.ask(left, counted["cursor"], status=Status.PENDING) for left in (250, 150, 50)]

    assert [(answer["cancelled"], answer["remaining"]) for answer in answers] == [(100, 150), (100, 50), (50, 0)]
    assert len(listed.cancelled) == len(set(listed.cancelled)) == 250


def test_a_count_ends_at_a_thousand_and_a_further_one_goes_on_behind_it():
    listed = Listed(1_200)

    first = listed.ask(status=Status.PENDING)
    second = listed.ask(status=Status.PENDING, cursor=first["next_cursor"])

    assert (first["count"], first["more"]) == (1_000, True)
    assert (second["count"], second["more"], second["next_cursor"]) == (200, False, "")


def test_repeats_end_what_was_counted_though_there_are_more_behind():
    listed = Listed(1_200)
    counted = listed.ask(status=Status.PENDING)
    left, cursor = counted["count"], counted["cursor"]

    while left:
        answer = listed.ask(left, cursor, status=Status.PENDING)
        assert (answer["remaining"], answer["cursor"]) == (left - 100, cursor)
        assert (answer["more"], answer["next_cursor"]) == (True, counted["next_cursor"])
        left = answer["remaining"]

    assert len(listed.cancelled) == 1_000
    rest = listed.ask(status=Status.PENDING, cursor=counted["next_cursor"])
    assert (rest["count"], rest["more"]) == (200, False)


@pytest.mark.parametrize("cursor", ["nonsense", ".nonsense", "MXxh.nonsense", "MXxh.MXxh.MXxh", "nonsense."])
def test_a_cursor_that_this_door_has_not_given_is_refused(cursor):
    with pytest.raises(Invalid):
        Listed(2).ask(status=Status.PENDING, cursor=cursor)


def test_a_count_of_exactly_a_thousand_has_no_more():
    assert Listed(1_000).ask(status=Status.PENDING)["more"] is False


def test_a_request_reads_a_bounded_number_of_executions_though_none_of_them_fits():
    listed = Listed(9_000)

    first = listed.ask(agent_id="nobody")

    assert (first["count"], first["more"]) == (0, True)
    assert listed.read <= bulk.LOOKED_AT + bulk.PAGE
    rest = [first]
    while rest[-1]["more"]:
        rest.append(listed.ask(agent_id="nobody", cursor=rest[-1]["next_cursor"]))
    assert len(rest) == 3


def test_executions_that_are_gone_meanwhile_are_no_longer_remaining():
    listed = Listed(3)
    listed.refusals = {"e00000": ExecutionTerminal("completed"), "e00001": NotFound("no such execution")}

    answer = listed.ask(3, status=Status.PENDING)

    assert (answer["cancelled"], answer["remaining"]) == (1, 0)


def test_a_store_that_is_out_of_reach_ends_the_request_and_a_repeat_counts_anew():
    listed = Listed(3)
    listed.refusals = {"e00001": ServiceUnavailable("try again")}

    with pytest.raises(ServiceUnavailable):
        listed.ask(3, status=Status.PENDING)
    with pytest.raises(CountChanged) as changed:
        listed.ask(3, status=Status.PENDING)

    assert listed.cancelled == ["e00000"]
    assert changed.value.details["count"] == 2


def test_a_request_stops_before_the_edge_gives_up():
    listed = Listed(20)
    listed.seconds_each = 2.0

    answer = listed.ask(20, status=Status.PENDING)

    assert (answer["cancelled"], answer["remaining"]) == (8, 12)


def test_an_execution_that_changes_its_status_while_it_is_counted_counts_once():
    listed = Listed(4)
    listed.rows += [
        Summary(row.id, Status.RUNNING, row.agent_id, {}, row.created_at_ms, START_MS) for row in listed.rows
    ]

    assert listed.ask(agent_id="odd")["count"] == 2
