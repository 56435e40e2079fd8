"""What operators see of verdicts: the list with its filters and counts, however the log answers."""

import json

import pytest

from piecework.aws.transport.failures import ServiceRefused
from piecework.errors import BadRequest, Forbidden, RequestRejected, Unavailable
from piecework.ops.store.verdict_lines import VerdictLines, pattern
from piecework.ops.verdicts import FIRST_MS, MOST_PARTS, PAGE_MS, PARTS_A_STRETCH, Verdicts
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.logs import DAY_MS, FakeLogs
from tests.support.ops.requests import NOBODY, VIEWER

HOUR_MS = 3_600_000
HOSTILE = ['x" || $.message = "*', "x\\", "*", "e-1) }", '"', "ü", " ", "e\n1", "%", "\x00", "e-1*", "{", "$.x"]
THROTTLED = ServiceRefused("ThrottlingException", operation="FilterLogEvents")


class Bench:
    def __init__(self, **members):
        self.logs, self.clock = FakeLogs(**members), FakeClock()
        self.views = Verdicts(VerdictLines(lambda: self.logs, "verify"), self.clock, kept_days=self.logs.kept_days)

    def page(self, **query):
        return self.views.page(VIEWER, {name: [str(value)] for name, value in query.items()})

    def ids(self, **query):
        return [item["candidate_id"] for item in self.page(**query)["items"]]

    def all_ids(self, **query):
        """Of all pages, each of which may ask so often only."""
        found, cursor = [], ""
        for _ in range(2_000):
            before = len(self.logs.asked)
            page = self.page(**query, **({"cursor": cursor} if cursor else {}))
            assert len(self.logs.asked) - before <= MOST_PARTS and page["window"]["is_whole"]
            found += [item["candidate_id"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                return found
        raise AssertionError("the list does not end")


@pytest.fixture
def bench():
    return Bench()


def test_an_item_says_who_was_judged_how_and_why_and_holds_nothing_of_the_output(bench):
    bench.logs.verdict(notes=["the output is 42"], secret="42")

    page = bench.page()

    assert page["items"] == [
        {
            "at_ms": START_MS - 1_000,
            "verification_status": "passed",
            "reason_codes": [100],
            "policy_id": "vp.schema_only.v1",
            "policy_hash_rule": "kernel",
            "candidate_id": "cand-1",
            "execution_id": "e-1",
            "caller": "kernel",
            "score": 1.0,
            "output_digest": "sha256:" + "ab" * 32,
            "verifier_result_hash": "cd" * 32,
        }
    ]
    assert (page["next"], page["is_logged"]) == (None, True)


def test_verdicts_are_counted_by_status_and_by_reason_over_the_window_that_is_told(bench):
    bench.logs.verdict()
    bench.logs.verdict(status="failed", codes=(101, 103), score=0.2)
    bench.logs.verdict(status="failed", codes=(101, 101), at_ms=START_MS - DAY_MS)
    bench.logs.verdict(status="inconclusive", codes=(200,), at_ms=START_MS - 3 * DAY_MS)

    page = bench.page(since_ms=START_MS - 2 * DAY_MS, limit=1)

    assert [item["verification_status"] for item in page["items"]] == ["failed"]
    assert page["counts"] == {"passed": 1, "failed": 1, "inconclusive": 0}
    assert page["reasons"] == {"100": 1, "101": 1, "103": 1}
    assert page["window"]["since_ms"] == page["window"]["until_ms"] - FIRST_MS
    both = bench.page(since_ms=START_MS - 2 * DAY_MS)
    assert (both["counts"]["failed"], both["reasons"]["101"]) == (2, 2)
    assert both["window"]["since_ms"] == START_MS - 2 * DAY_MS


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, [4, 3, 2, 1]),
        ({"status": "failed"}, [3, 1]),
        ({"reason": 103}, [3]),
        ({"reason": 0}, []),
        ({"policy_id": "vp.mine.v1"}, [2]),
        ({"policy_id": "vp.mine"}, []),
        ({"candidate_id": "3"}, [3]),
        ({"execution_id": "e 2"}, [2]),
        ({"caller": "other"}, [4]),
        ({"output_digest": "AB" * 32}, [3, 2, 1]),
        ({"output_digest": "sha256:" + "ee" * 32}, [4]),
        ({"since_ms": START_MS - 2_000}, [4, 3, 2]),
        ({"until_ms": START_MS - 2_000}, [2, 1]),
        ({"since_ms": START_MS - 2_000, "until_ms": START_MS - 2_000}, [2]),
    ],
)
def test_the_list_is_filtered(bench, query, numbers):
    bench.logs.verdict(START_MS - 3_000, candidate_id="1", status="failed", codes=(101,))
    bench.logs.verdict(START_MS - 2_000, candidate_id="2", policy_id="vp.mine.v1", execution_id="e 2")
    bench.logs.verdict(START_MS - 1_000, candidate_id="3", status="failed", codes=(101, 103))
    bench.logs.verdict(START_MS, candidate_id="4", caller="other", output_digest="ee" * 32)

    assert bench.ids(**query) == [str(number) for number in numbers]


@pytest.mark.parametrize("name", ["policy_id", "candidate_id", "execution_id", "caller"])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_filter_finds_what_is_called_so_and_nothing_else(bench, name, text):
    bench.logs.verdict(START_MS - 2_000)
    bench.logs.verdict(START_MS - 1_000, **{name: text})

    assert [item[name] for item in bench.page(**{name: text})["items"]] == [text]


@pytest.mark.parametrize("text", HOSTILE)
def test_of_a_strangers_text_nothing_with_a_meaning_gets_into_the_pattern(text):
    terms = '($.message = "verify*") && ($.verification_status = "*")'

    made = pattern({"candidate_id": text})

    assert made.startswith(f"{{ {terms} && ($.candidate_id = ")
    assert made.count('"') == 6 and made.count("*") == 3 and made.isascii() and made.isprintable()


def test_long_filters_stay_within_the_pattern_and_are_compared_as_lines_are_cut(bench):
    given = {name: "x" * 300 for name in ("policy_id", "candidate_id", "execution_id", "caller")}
    bench.logs.verdict(**{name: text[:200] for name, text in given.items()})
    bench.logs.verdict(**{name: text[:199] for name, text in given.items()})

    assert len(bench.page(status="passed", **given)["items"]) == 1


@pytest.mark.parametrize(
    "line",
    ["START RequestId: x", "[]", "{", '{"message":"verify","verification_status":"passed"', "verification_status",
     json.dumps({"message": "verify", "status": 400, "code": "policy_binding_invalid"}),
     json.dumps({"message": "verify", "verification_status": ["passed"]}),
     json.dumps({"message": "verify", "verification_status": "maybe"}),
     json.dumps({"message": "verify_bug", "verification_status": "passed"}),
     '{"message":"verify","verification_status":"passed","score":NaN}', "[" * 5_000],
)  # fmt: skip
def test_a_line_that_is_not_a_verdict_is_passed_over(bench, line):
    bench.logs.verdict()
    bench.logs.write(line, START_MS)

    assert len(bench.page()["items"]) == 1


def test_lines_of_earlier_releases_are_read_and_lack_what_they_lacked(bench):
    line = {"message": "verify", "verification_status": "failed", "reason_codes": [101, "x", True], "status": 200}
    bench.logs.write(json.dumps(line), START_MS)

    [item] = bench.page()["items"]
    assert (item["verification_status"], item["reason_codes"]) == ("failed", [101])
    assert {item[name] for name in ("score", "policy_id", "output_digest", "candidate_id")} == {None}


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("apart_ms", [0, 1, 400, HOUR_MS])
@pytest.mark.parametrize("trouble", [{}, {"most_scanned": 7}, {"empty_first": True}, {"most_scanned": 2}])
def test_pages_show_each_verdict_once_in_order_however_the_log_answers(limit, apart_ms, trouble):
    bench = Bench(**trouble)
    if apart_ms == 0 and "most_scanned" in trouble:
        bench.logs.most_scanned = 40  # lines of one millisecond must fit into the parts of a stretch
    for number in range(60):
        bench.logs.verdict(START_MS - number * apart_ms, candidate_id=str(number))

    found = bench.all_ids(limit=limit)

    assert len(found) == 60 and set(found) == {str(number) for number in range(60)}
    assert apart_ms == 0 or found == [str(number) for number in range(60)]


def test_a_millisecond_that_is_too_much_is_told_and_does_not_stop_the_list(bench):
    bench.logs.most_scanned = 2
    for number in range(20):
        bench.logs.verdict(START_MS, candidate_id=str(number))
    bench.logs.verdict(START_MS - HOUR_MS, candidate_id="old")

    pages, cursor = [], ""
    while cursor is not None:
        pages.append(bench.page(**({"cursor": cursor} if cursor else {})))
        cursor = pages[-1]["next"]

    found = [item["candidate_id"] for page in pages for item in page["items"]]
    assert found[-1] == "old" and len(found) == 1 + 2 * PARTS_A_STRETCH
    assert [page["window"]["is_whole"] for page in pages].count(False) == 1


def test_a_line_is_found_when_it_has_come(bench):
    bench.logs.verdict(START_MS - 1_000, candidate_id="old")
    bench.logs.verdict(START_MS - 500, candidate_id="late", late_ms=5_000)

    assert bench.ids() == ["old"]
    bench.logs.now_ms += 5_000
    assert bench.ids() == ["late", "old"]


def test_before_the_first_line_the_list_is_empty_and_ends(bench):
    page = bench.page()

    assert (page["items"], page["next"], page["counts"]["passed"]) == ([], None, 0)


def test_a_month_in_which_nothing_happened_is_one_page(bench):
    bench.logs.verdict(START_MS - 29 * DAY_MS, candidate_id="first")
    bench.logs.verdict(START_MS - 31 * DAY_MS)

    assert bench.ids() == ["first"]
    assert bench.page()["next"] is None
    assert {entry["startTime"] for entry in bench.logs.asked} >= {START_MS - 30 * DAY_MS}


def test_a_page_ends_when_its_time_is_up_and_goes_on(bench):
    for number in range(3):
        bench.logs.verdict(START_MS - number * 6 * HOUR_MS, candidate_id=str(number))
    bench.logs.on_ask = lambda: bench.clock.move(PAGE_MS / 1000)

    page = bench.page()

    assert [item["candidate_id"] for item in page["items"]] == ["0"]
    assert len(bench.logs.asked) == 1 and page["next"]
    assert bench.all_ids() == ["0", "1", "2"]


def test_a_log_out_of_reach_is_503_and_what_was_read_before_is_shown(bench):
    bench.logs.verdict(START_MS, candidate_id="new")
    bench.logs.verdict(START_MS - DAY_MS, candidate_id="old")
    bench.logs.failures = [THROTTLED]
    with pytest.raises(Unavailable):
        bench.page()

    bench.logs.on_ask = lambda: bench.logs.failures.append(THROTTLED) if len(bench.logs.asked) == 3 else None
    page = bench.page()

    assert [item["candidate_id"] for item in page["items"]] == ["new"]
    assert bench.ids(cursor=page["next"]) == ["old"]


def test_what_cloudwatch_refuses_for_good_is_no_outage(bench):
    bench.logs.failures = [ServiceRefused("InvalidParameterException"), ServiceRefused("AccessDeniedException")]

    for _ in range(2):
        with pytest.raises(RequestRejected):
            bench.page()


@pytest.mark.parametrize(
    "query",
    [{"status": "lost"}, {"reason": "x"}, {"reason": "-1"}, {"reason": "1000000"}, {"limit": "0"}, {"limit": "51"},
     {"cursor": "x"}, {"cursor": "1"}, {"cursor": "1.1."}, {"cursor": "1.1.ü"}, {"cursor": "9" * 14 + ".1"},
     {"cursor": "1.1\n"}, {"order": "up"}, {"since_ms": "1e3"}, {"policy_id": "x" * 513}, {"task_id": "t"}],
)  # fmt: skip
def test_a_senseless_parameter_is_400_and_asks_nothing(bench, query):
    with pytest.raises(BadRequest):
        bench.page(**query)
    assert bench.logs.asked == []


@pytest.mark.parametrize("cursor", ["0.1", "9999999999999.1", "0.0.abc", f"{START_MS}.999999999", f"{START_MS}.0"])
def test_a_cursor_that_somebody_made_up_leads_nowhere_else(bench, cursor):
    bench.logs.verdict()

    assert bench.ids(cursor=cursor) in ([], ["cand-1"])
    assert all(entry["startTime"] >= START_MS - 30 * DAY_MS for entry in bench.logs.asked)


@pytest.mark.parametrize("line", ["", ".line-9"])
def test_a_cursor_that_is_ahead_of_until_counts_as_the_first_page(bench, line):
    bench.logs.verdict(START_MS - 3_000, candidate_id="before")
    bench.logs.verdict(START_MS - 2_000, candidate_id="at")
    bench.logs.verdict(START_MS - 1_000, candidate_id="after")
    until = {"until_ms": START_MS - 2_000}

    page = bench.page(cursor=f"{START_MS}.1{line}", **until)

    assert [item["candidate_id"] for item in page["items"]] == ["at", "before"]
    assert page == bench.page(**until)


def test_verdicts_are_for_those_who_may_read(bench):
    for ask in (bench.views.page, lambda caller, query: bench.views.of_execution(caller, "e-1", START_MS, query)):
        with pytest.raises(Forbidden):
            ask(NOBODY, {})
    assert bench.logs.asked == []


@pytest.mark.parametrize(
    ("listed", "whole"),
    [("e-1", "e-1"), ("e 1", "e\n1"), ("ä" * 38 + "…", "ä" * 90), ("e…", "e…"), ("x y" * 25 + "…", "x y" * 40)],
)
def test_the_verdicts_of_a_piece_are_those_on_its_execution_since_its_claim(bench, listed, whole):
    bench.logs.verdict(START_MS - HOUR_MS, execution_id=whole, candidate_id="before")
    bench.logs.verdict(START_MS, execution_id=whole, candidate_id="its")
    bench.logs.verdict(START_MS, execution_id="other")

    found = bench.views.of_execution(VIEWER, listed, START_MS - 1_000, {"limit": ["5"]})

    assert [item["candidate_id"] for item in found["items"]] == ["its"]
    with pytest.raises(BadRequest):
        bench.views.of_execution(VIEWER, listed, START_MS, {"execution_id": ["other"]})
