"""One contract for lists of executions by any filter, for the fakes and for DynamoDB; what a page costs."""

from collections import Counter
from typing import Any

import pytest

from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.model.state import Status
from piecework.kernel.store.listing import executions as listing
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

HOUR_MS = 3_600_000


class Counted:
    """A client that counts its queries, and the rows that they brought."""

    def __init__(self, client: Any) -> None:
        self._client, self.sent, self.rows = client, Counter[str](), 0

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.sent[name] += 1
            answer = getattr(self._client, name)(**given)
            self.rows += answer.get("ScannedCount", 0) if name == "query" else 0
            return answer

        return call


def filled(store, clock) -> KernelStage:
    """Sixteen executions, one an hour, of two agents, three labels and three statuses."""
    stage = KernelStage(store=store, clock=clock)
    for number in range(16):
        labels = {"parity": "odd" if number % 2 else "even", "third": str(number % 3), "odd:key": 'a "ü"'}
        made = stage.kernel.create("a" if number < 10 else "b", {"n": number}, labels).execution.id
        if number % 4 == 0:
            stage.cancel(made)
        clock.move(HOUR_MS / 1_000)
    return stage


@pytest.fixture(scope="module", params=["fake", "dynamodb"])
def stored(request):
    clock = FakeClock(START_MS)
    store = new_store(clock) if request.param == "fake" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    filled(store, clock)
    return store


def walked(store, which: Filter, limit: int) -> list[int]:
    """The hours in which the executions of all pages were made, the newest first."""
    hours, after = [], None
    while True:
        rows, after = store.executions.rows(which, after, limit)
        assert len(rows) <= limit
        hours += [(row.created_at_ms - START_MS) // HOUR_MS for row in rows]
        if after is None:
            return hours


ALL = range(15, -1, -1)
CASES = [
    ({}, lambda n: True),
    ({"status": Status.CANCELLED}, lambda n: n % 4 == 0),
    ({"agent_id": "a"}, lambda n: n < 10),
    ({"labels": {"third": "2"}}, lambda n: n % 3 == 2),
    ({"labels": {"third": "2", "parity": "odd", "odd:key": 'a "ü"'}}, lambda n: n % 3 == 2 and n % 2),
    ({"status": Status.CANCELLED, "agent_id": "b"}, lambda n: n % 4 == 0 and n >= 10),
    ({"status": Status.PENDING, "labels": {"parity": "even"}}, lambda n: n % 4 and n % 2 == 0),
    (
        {"status": Status.PENDING, "agent_id": "a", "labels": {"third": "1"}},
        lambda n: n % 4 and n < 10 and n % 3 == 1,
    ),
]
TIMES = [
    ({}, lambda n: True),
    ({"created_after_ms": START_MS + 7 * HOUR_MS}, lambda n: n >= 7),
    ({"created_after_ms": START_MS + 7 * HOUR_MS + 1}, lambda n: n > 7),
    ({"created_before_ms": START_MS + 7 * HOUR_MS}, lambda n: n < 7),
    ({"created_before_ms": START_MS + 7 * HOUR_MS + 1}, lambda n: n <= 7),
    (
        {"created_after_ms": START_MS + 3 * HOUR_MS, "created_before_ms": START_MS + 12 * HOUR_MS},
        lambda n: 3 <= n < 12,
    ),
    ({"created_after_ms": START_MS + 5, "created_before_ms": START_MS + 5}, lambda n: False),
    ({"created_after_ms": START_MS + 9, "created_before_ms": START_MS + 5}, lambda n: False),
    ({"created_after_ms": 0, "created_before_ms": 10**15 - 1}, lambda n: True),
]


@pytest.mark.parametrize("when", TIMES, ids=lambda when: "-".join(when[0]) or "always")
@pytest.mark.parametrize("what", CASES, ids=lambda what: "-".join(what[0]) or "all")
def test_all_conditions_hold_together_on_pages_of_any_size(stored, what, when):
    expected = [number for number in ALL if what[1](number) and when[1](number)]

    for limit in (1, 3, 50):
        assert walked(stored, Filter(**what[0], **when[0]), limit) == expected


def test_a_page_that_reaches_the_end_exactly_has_no_next_one(stored):
    rows, then = stored.executions.rows(Filter(agent_id="b"), None, 6)

    assert (len(rows), then is None or not stored.executions.rows(Filter(agent_id="b"), then, 6).rows) == (6, True)


def test_a_place_beyond_the_bounds_is_an_empty_end(stored):
    which = Filter(created_after_ms=START_MS + 7 * HOUR_MS)

    assert stored.executions.rows(which, (START_MS, "x"), 5) == ([], None)


@pytest.fixture(scope="module")
def counted(embedded_aws):
    return Counted(embedded_aws.client("dynamodb"))


@pytest.fixture(scope="module")
def many(embedded_aws, counted):
    """Tables with 150 executions, which no test changes."""
    made = new_tables(embedded_aws, FakeClock(START_MS), client=counted)
    stage = KernelStage(store=made, clock=FakeClock(START_MS))
    for number in range(150):
        stage.kernel.create("busy", None, {"n": str(number)})
        stage.clock.move(1)
    return made


class TestCosts:
    """Requests and rows of a page, whatever is stored."""

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch):
        monkeypatch.setattr(listing, "FILTERED_PAGE", 5)

    @pytest.fixture
    def tables(self, many, counted):
        counted.sent.clear()
        counted.rows = 0
        return many

    @pytest.mark.parametrize("which", [{}, {"agent_id": "busy"}, {"status": Status.PENDING}])
    def test_a_page_of_a_label_that_nobody_has_reads_no_more_than_stated_and_goes_on(self, tables, counted, which):
        rows, then = tables.executions.rows(Filter(**which, labels={"n": "none"}), None, 50)

        assert (rows, counted.sent) == ([], {"query": listing.REQUESTS})
        assert counted.rows <= listing.REQUESTS * 6  # each looks at the row before its own five, too
        pages = 1
        while then is not None:
            rows, then = tables.executions.rows(Filter(**which, labels={"n": "none"}), then, 50)
            pages += 1
        assert rows == [] and 2 <= pages <= 4

    def test_one_that_lies_far_behind_is_found_by_going_on(self, tables):
        which, found, then = Filter(labels={"n": "3"}), [], (10**14, "x")
        while then is not None:
            rows, then = tables.executions.rows(which, then, 50)
            found += rows

        assert [row.labels for row in found] == [{"n": "3"}]

    def test_times_narrow_what_is_read_instead_of_filtering_it(self, tables, counted):
        early = Filter(created_before_ms=START_MS + 4_000, labels={"n": "none"})
        late = Filter(created_after_ms=START_MS + 146_000, labels={"n": "none"})

        for which in (early, late):
            counted.sent.clear()
            counted.rows = 0
            assert tables.executions.rows(which, None, 50) == ([], None)
            assert counted.sent["query"] <= listing.REQUESTS // 2
            assert counted.rows <= 8

    def test_a_page_without_a_filter_is_full_though_all_of_it_lies_in_one_shard(
        self, counted, monkeypatch, embedded_aws
    ):
        one_shard = new_tables(embedded_aws, FakeClock(START_MS), client=counted)
        monkeypatch.setattr("piecework.kernel.store.items.keys.shard", lambda execution_id: 3)
        stage = KernelStage(store=one_shard, clock=FakeClock(START_MS))
        for _ in range(102):
            stage.create()
        for limit in (1, 51, 101):
            counted.sent.clear()

            rows, then = one_shard.executions.rows(Filter(), None, limit)

            assert (len(rows), then is not None) == (limit, True)
            assert counted.sent["query"] <= 4 + 4

    def test_labels_of_their_own_rows_are_looked_up_a_bounded_number_of_times(self, embedded_aws, counted, monkeypatch):
        monkeypatch.setattr(listing, "LONG_LABELS", 3)
        tables = new_tables(embedded_aws, FakeClock(START_MS), client=counted)
        stage = KernelStage(store=tables, clock=FakeClock(START_MS + 10**6))
        for number in range(8):
            stage.kernel.create("long", None, {"n": str(number), "long": "x" * 5_000})
            stage.clock.move(1)
        counted.sent.clear()

        rows, then = tables.executions.rows(Filter(agent_id="long", labels={"n": "nobody's"}), None, 50)

        assert (rows, then is not None, counted.sent) == ([], True, {"query": 1, "get_item": 3})
        found = []
        while then is not None:
            rows, then = tables.executions.rows(Filter(agent_id="long", labels={"n": "0"}), then, 50)
            found += [row.labels["n"] for row in rows]
        assert found == ["0"]
