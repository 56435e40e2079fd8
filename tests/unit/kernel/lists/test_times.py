"""Times in the query of a list, and lists by any filter as their callers see them."""

import pytest

from piecework.kernel.clocks import rfc3339
from piecework.kernel.edge import moment
from piecework.kernel.errors import Invalid
from tests.support.fakes import START_MS
from tests.support.kernel.desk import Desk


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        (None, None),
        ("", None),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.0005Z", 1),  # the first millisecond that is not earlier
        ("1970-01-01T00:00:00.001Z", 1),
        ("0001-01-01T00:00:00+23:59", 0),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ("2025-06-15T15:06:40.123456789Z", 1_750_000_000_124),
    ],
)
def test_a_time_is_read_to_the_millisecond(text, at_ms):
    assert moment("created_after", text) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "1750000000",
        "2026-03-02",
        "2026-03-02T08:00:00",
        "2026-13-02T08:00:00Z",
        "2026-02-30T08:00:00Z",
        "2026-03-02T08:00:00 01:00",
        "2026-03-02T08:00:00Z\n",
        "٢٠٢٦-03-02T08:00:00Z",
        "2026-03-02T08:00:00+99:00",
    ],
)
def test_what_is_no_time_is_refused_by_its_name(text):
    with pytest.raises(Invalid, match="created_before"):
        moment("created_before", text)
    refused = Desk().get("/v0/executions", created_before=text)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")


def test_a_list_is_narrowed_by_times_and_all_else_together():
    desk, made = Desk(), []
    for number in range(6):
        made.append(desk.create("triage" if number % 2 else "other", labels={"n": str(number // 2)}))
        desk.stage.clock.move(60)
    desk.cancel(made[3])

    def ids(**query):
        return [row["id"] for row in desk.get("/v0/executions", **query).json()["executions"]]

    third, fifth = rfc3339(START_MS + 2 * 60_000), rfc3339(START_MS + 4 * 60_000)
    assert ids(created_after=third) == made[:1:-1]
    assert ids(created_before=third) == [made[1], made[0]]
    assert ids(created_after=third, created_before=fifth) == [made[3], made[2]]
    assert ids(created_after=third, agent_id="triage", status="pending") == [made[5]]
    assert ids(created_after=third, created_before=fifth, label="n:1", status="cancelled") == [made[3]]


def test_pages_within_times_follow_their_cursor():
    desk = Desk()
    made = [desk.create() for _ in range(5)]
    bounds = {"created_after": rfc3339(START_MS), "created_before": rfc3339(START_MS + 1)}

    pages, cursor = [], ""
    while True:
        page = desk.get("/v0/executions", limit=2, cursor=cursor, **bounds).json()
        pages.append([row["id"] for row in page["executions"]])
        if not (cursor := page["next_cursor"]):
            break

    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(one for page in pages for one in page) == sorted(made)
