"""Lists by time: every row once and in order, a bounded number read for a page, cursors that are ours alone."""

import hashlib
import random

import pytest

from piecework.aws.listed import at_ms_of
from piecework.errors import BadRequest
from piecework.ops.listing import DAY_MS, LARGEST_PAGE, MOST_LOOKS, MOST_ROWS, Place, page_of
from tests.support.fakes import START_MS
from tests.support.ops.rows import FakePieceRows, a_listed_piece


def filled(times):
    rows = FakePieceRows()
    for number, at_ms in enumerate(times):
        rows.add(hashlib.sha256(str(number).encode()).hexdigest(), a_listed_piece(at_ms))
    return rows


def walked(rows, size, since_ms=0, until_ms=START_MS, look=lambda rows: [row["pk"] for row in rows]):
    """Every item of a list, page by page; checks what each page reads."""
    found, place, pages = [], Place.of("", until_ms), 0
    while place and pages < 2_000:
        rows.looks = rows.read_rows = 0
        page = page_of(rows, place, since_ms, size, look)
        assert rows.looks <= MOST_LOOKS and rows.read_rows <= MOST_ROWS
        assert len(page.items) <= size
        found, place, pages = found + page.items, page.next, pages + 1
        place = Place.of(place.cursor, until_ms) if place else None
    return found


def in_order(rows, since_ms=0):
    every = [row for day in rows.index.values() for row in day]
    kept = [row for row in every if at_ms_of(row) >= since_ms]
    in_time = sorted(kept, key=lambda row: (at_ms_of(row), row["at_id"]), reverse=True)
    return [row["pk"] for row in in_time]


@pytest.mark.parametrize("size", [1, 7, LARGEST_PAGE])
def test_every_row_comes_once_the_newest_first(size):
    chance = random.Random(5)
    rows = filled(START_MS - chance.randrange(4 * DAY_MS) for _ in range(700))

    assert walked(rows, size, since_ms=START_MS - 5 * DAY_MS) == in_order(rows)


def test_a_filter_loses_and_repeats_no_row_where_rounds_meet():
    """Partitions are unevenly full, so that some have told all where others have not."""
    rows = filled(START_MS - number * 50 for number in range(3_000))
    for shard, standing in list(rows.index.items()):
        rows.index[shard] = standing[: 4 + 40 * int(shard[-1], 16)]
    wanted = {row["pk"] for day in rows.index.values() for row in day if row["pk"][-1] == "0"}

    found = walked(
        rows, 50, since_ms=START_MS - DAY_MS, look=lambda rows: [r["pk"] if r["pk"] in wanted else None for r in rows]
    )

    assert found == [key for key in in_order(rows) if key in wanted]


def test_rows_of_one_millisecond_are_not_lost_between_pages():
    rows = filled([START_MS - 1] * 90)

    assert walked(rows, 7, since_ms=START_MS - DAY_MS) == in_order(rows)


def test_a_page_reads_no_more_of_ten_times_as_many_rows():
    few, many = (filled(START_MS - number for number in range(count)) for count in (2_000, 20_000))

    for rows in (few, many):
        page_of(rows, Place.of("", START_MS), 0, LARGEST_PAGE, lambda rows: [row["pk"] for row in rows])
    assert many.read_rows <= MOST_ROWS and many.looks <= MOST_LOOKS
    assert many.read_rows == pytest.approx(few.read_rows, abs=MOST_ROWS // 2)


def test_a_filter_that_finds_nothing_ends_a_page_with_a_place_to_go_on_from():
    rows = filled(START_MS - number for number in range(5_000))

    page = page_of(rows, Place.of("", START_MS), 0, 25, lambda rows: [None] * len(rows))

    assert page.items == [] and page.next is not None
    assert rows.looks <= MOST_LOOKS and rows.read_rows <= MOST_ROWS


@pytest.mark.parametrize("size", [1, 2, LARGEST_PAGE])
def test_a_small_page_looks_rows_up_no_more_often_than_a_large_one_does(size):
    """Each look is a request; one for every row would take longer than the edge waits."""
    rows = filled(START_MS - number for number in range(5_000))
    looked = []

    page_of(rows, Place.of("", START_MS), 0, size, lambda part: [looked.append(len(part))] * len(part))

    assert rows.read_rows >= sum(looked) > 200 and len(looked) <= 24 and max(looked) <= LARGEST_PAGE


def test_a_list_ends_at_its_first_time_and_does_not_look_further():
    rows = filled(START_MS - number * 60_000 for number in range(200))
    since_ms = START_MS - 100 * 60_000

    assert walked(rows, 7, since_ms=since_ms) == in_order(rows, since_ms)


def test_days_on_which_nothing_happened_are_passed_a_few_at_a_time():
    rows = filled([START_MS, START_MS - 20 * DAY_MS])

    assert walked(rows, 25, since_ms=START_MS - 30 * DAY_MS) == in_order(rows)


@pytest.mark.parametrize(
    "cursor",
    ["x", "1", ".", "-1.", "1.2", "9999999.", "20468.1799", "20468.17999999ABC", "20468.17999999a'b",
     "20468.-", "٢٠٤٦٨.", "20468.\n", "a" * 400, "20468.17999999" + "a" * 17],
)  # fmt: skip
def test_a_cursor_that_is_not_ours_is_refused(cursor):
    with pytest.raises(BadRequest, match="cursor"):
        Place.of(cursor, START_MS)


@pytest.mark.parametrize("cursor", ["0.", "999999.", "999999.99999999zzzzzzzz"])
def test_a_cursor_of_a_strange_day_ends_the_list_or_finds_what_is_there(cursor):
    rows = filled([START_MS])

    page = page_of(rows, Place.of(cursor, START_MS), 0, 25, lambda rows: [row["pk"] for row in rows])

    assert rows.looks <= MOST_LOOKS and len(page.items) <= 1
