"""One contract for pauses, on the fake and on DynamoDB; what the row holds, and what a look at it costs."""

import json

import pytest

from piecework.aws.rows.pauses import PK, PausesRow
from piecework.aws.table import Table
from piecework.durable.pauses import MOST_PAUSES, SEEN_MS, Admission, Pause
from piecework.errors import Paused
from tests.contract.ops.rows import KINDS, rows_of
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.pauses import FakePauses
from tests.support.quiet import QuietLog

FIRST = Pause("door:worker", START_MS, "mia", "the facilitator answers 500 ü")


@pytest.fixture(params=KINDS)
def pauses(request):
    return rows_of(request, FakePauses, PausesRow)


def test_pauses_hold_side_by_side_until_they_are_ended(pauses):
    second = Pause("executor:echo.v-2", START_MS - 5, "ada", "x")
    assert pauses.all() == [] and not pauses.end(FIRST.scope)

    assert (pauses.begin(FIRST), pauses.begin(second)) == (FIRST, second)
    assert pauses.all() == [second, FIRST]
    assert pauses.end(FIRST.scope) is True
    assert pauses.all() == [second] and pauses.end(FIRST.scope) is False


def test_a_pause_that_holds_is_not_replaced_and_one_that_was_ended_is_followed_by_a_new_one(pauses):
    later = FIRST._replace(by="ada", since_ms=START_MS + 9)
    pauses.begin(FIRST)

    assert pauses.begin(later) == FIRST and pauses.all() == [FIRST]
    pauses.end(FIRST.scope)
    assert pauses.begin(later) == later and pauses.all() == [later]


def test_only_so_many_hold_at_a_time(pauses):
    every = [FIRST._replace(scope=f"executor:e{number}") for number in range(MOST_PAUSES)]
    assert [pauses.begin(one) for one in every] == every

    assert pauses.begin(FIRST) is None
    assert pauses.begin(every[3]._replace(by="ada")) == every[3]
    assert pauses.end(every[0].scope) and pauses.begin(FIRST) == FIRST
    assert len(pauses.all()) == MOST_PAUSES


def test_the_row_never_expires_and_is_in_no_list(embedded_aws):
    name = embedded_aws.new_table()
    pauses = PausesRow(embedded_aws.client("dynamodb"), name)
    pauses.begin(FIRST)

    row = Table(embedded_aws.client("dynamodb"), name, "the table").get(PK)
    assert row.keys() == {"pk", "held", FIRST.scope}
    assert json.loads(row[FIRST.scope]) == {"since_ms": START_MS, "by": "mia", "reason": FIRST.reason}


def test_a_pause_of_a_later_release_closes_its_scope_too(embedded_aws):
    client, name = embedded_aws.client("dynamodb"), embedded_aws.new_table()
    later = {"since_ms": FIRST.since_ms, "by": FIRST.by, "reason": FIRST.reason, "until_ms": START_MS + 9}
    Table(client, name, "the table").put({"pk": PK, "held": 1, FIRST.scope: json.dumps(later)})
    pauses = PausesRow(client, name)

    assert pauses.all() == [FIRST]
    with pytest.raises(Paused):
        Admission(pauses, FakeClock(), QuietLog().warning).check("worker")


def test_new_work_costs_one_read_in_five_seconds_of_a_process(embedded_aws):
    counted, clock = Counted(embedded_aws.client("dynamodb")), FakeClock()
    pauses = PausesRow(counted, embedded_aws.new_table())
    admission, costs = Admission(pauses, clock, QuietLog().warning), []
    for milliseconds in (0, SEEN_MS - 1, 1):
        clock.now_ms += milliseconds
        counted.sent.clear()
        admission.check("runtime", "echo")
        costs.append(dict(counted.sent))

    assert costs == [{"get_item": 1}, {}, {"get_item": 1}]
    pauses.begin(FIRST)
    clock.now_ms += SEEN_MS
    with pytest.raises(Paused):
        admission.check("worker", "echo")
