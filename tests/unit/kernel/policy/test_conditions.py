"""Each condition of a policy, holding and not."""

import pytest

from piecework.kernel.policy.durations import duration_ms
from piecework.kernel.policy.globs import Glob
from piecework.kernel.policy.schedules import Schedule
from tests.support.kernel.policies import a_call, at, holds

CONDITIONS = [
    ("{action: tool.invoke}", a_call(), a_call(), True),
    ("{tool_id: kb.*}", a_call("kb.a"), a_call("web.a"), False),
    ("{tool_ids: [kb.*, geo.lookup]}", a_call("geo.lookup"), a_call("geo.lookups"), False),
    ("{agent_id: x}", a_call(agent_id="x"), a_call(agent_id="xx"), False),
    ("{agent_ids: [x, y]}", a_call(agent_id="y"), a_call(agent_id="X"), False),
    (
        "{labels: {env: qa, team: a}}",
        a_call(labels={"env": "qa", "team": "a", "z": ""}),
        a_call(labels={"env": "qa"}),
        False,
    ),
    ('{labels: {env: ""}}', a_call(), a_call(labels={"env": "qa"}), False),
    ("{min_step_count: 3}", a_call(step_count=3), a_call(step_count=2), False),
    ("{min_step_count: 0}", a_call(step_count=0), a_call(step_count=0), True),
    ("{min_duration_ms: 1000}", a_call(age_ms=1000), a_call(age_ms=999), False),
    (
        '{schedule: "Mon-Fri 09:00-17:00 UTC"}',
        a_call(now_ms=at("2026-03-02T09:00:00+00:00")),
        a_call(now_ms=at("2026-03-02T17:00:00+00:00")),
        False,
    ),
]


@pytest.mark.parametrize(("when", "fits", "other", "other_holds"), CONDITIONS)
def test_a_condition_holds_for_what_it_names(when, fits, other, other_holds):
    assert holds(when, fits)
    assert holds(when, other) == other_holds


def test_another_action_than_the_call_of_a_tool_never_holds():
    assert not holds("{action: execution.complete}", a_call())


GLOBS = [
    ("web.*", "web.a.b", True),
    ("web.*", "web.", True),
    ("web.*", "web.a/b", False),
    ("web.*", "xweb.a", False),
    ("*", "", True),
    ("*", "a/b", False),
    ("**b", "ab", True),
    ("*.*.c", "a.b.c", True),
    ("*ab", "aab", True),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("a?c", "aéc", True),
    ("[a-c]x", "bx", True),
    ("[a-c]x", "dx", False),
    ("[^a-c]x", "dx", True),
    ("[^a-c]x", "ax", False),
    ("[^a]x", "/x", True),
    (r"a\*", "a*", True),
    (r"a\*", "ab", False),
    (r"[\]]", "]", True),
    ("KB", "kb", False),
    ("", "", True),
    ("", "a", False),
    # a star takes as little as it can and never reconsiders, as in Go
    ("*[^b]*", "a/", False),
]
MALFORMED = ["[", "[]", "[]a]", "[a", "[a-]", "[-a]", "[^]", "a\\", "*["]


@pytest.mark.parametrize(("pattern", "text", "matches"), GLOBS)
def test_a_glob_matches_the_whole_text_as_go_does(pattern, text, matches):
    assert Glob.of(pattern).matches(text) is matches


@pytest.mark.parametrize("pattern", MALFORMED)
def test_a_malformed_glob_matches_itself_and_nothing_else(pattern):
    assert Glob.of(pattern).matches(pattern)
    assert not Glob.of(pattern).matches("a")


PREDICATES = [
    ("field: a, pattern: '^b'", {"a": "bc"}, {"a": "cb"}),
    ("field: a, pattern: 'b'", {"a": "abc"}, {"a": "ac"}),
    ("field: a, pattern: '.'", {"a": "1"}, {"a": 1}),
    ("field: a, pattern: '^$'", {"a": ""}, {"a": None}),
    ("field: a, pattern: b", {"b": "x"}, {"a": "x"}),
    ("field: a, one_of: [x, y]", {"a": "y"}, {"a": "z"}),
    ("field: a, one_of: ['1']", {"a": "1"}, {"a": 1}),
    ("field: a, min: 1", {"a": 1}, {"a": 0.99}),
    ("field: a, max: 2.5", {"a": 2.5}, {"a": 3}),
    ("field: a, min: 0", {"a": 10**400}, {"a": -(10**400)}),
    ("field: a, min: 0", {"a": 1}, {"a": True}),
    ("field: a, min: 0", {"a": 1}, {"a": "1"}),
    ("field: a, max: 0", {}, {"a": None}),
    ("field: a, max_length: 2", {"a": "éé"}, {"a": "abc"}),
    ("field: a, max_length: 2", {"a": ""}, {"a": [1]}),
    ("field: a, required: true", {"a": None}, {}),
    ("field: a, required: true", {"a": 0}, {"a": ""}),
    ("field: a, required: true, max: 5", {"a": 5}, {}),
    ("field: a, required: true, pattern: x", {"a": "x"}, {"a": ""}),
    ("field: a, required: false, max: 5", {}, {"a": 6}),
]


@pytest.mark.parametrize(("predicate", "fits", "other"), PREDICATES)
def test_a_predicate_holds_for_what_it_asks(predicate, fits, other):
    when = f"{{arguments: [{{{predicate}}}]}}"

    assert holds(when, a_call(arguments=fits))
    assert not holds(when, a_call(arguments=other))


def test_arguments_that_are_null_count_as_an_empty_object_and_absent_ones_as_none():
    optional, required = "{arguments: [{field: a, max: 1}]}", "{arguments: [{field: a, required: true}]}"

    assert holds(optional, a_call(arguments=None))
    assert not holds(required, a_call(arguments=None))
    assert not holds(optional, a_call())
    for other in ([], "a", 5, True):
        assert not holds(optional, a_call(arguments=other))


def test_all_predicates_of_a_rule_must_hold():
    when = "{arguments: [{field: a, max: 1}, {field: b, max: 1}]}"

    assert holds(when, a_call(arguments={"a": 1, "b": 1}))
    assert not holds(when, a_call(arguments={"a": 1, "b": 2}))


SCHEDULES = [
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-02T08:00:00+00:00", True),  # Monday 09:00 there
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-02T07:59:59+00:00", False),
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-02T15:59:59+00:00", True),
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-02T16:00:00+00:00", False),
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-30T07:00:00+00:00", True),  # summer time since the day before
    ("Mon-Fri 09:00-17:00 Europe/Zurich", "2026-03-07T10:00:00+00:00", False),  # Saturday
    ("Mon,Wed 00:00-23:59 UTC", "2026-03-04T12:00:00+00:00", True),
    ("Mon,Wed 00:00-23:59 UTC", "2026-03-03T12:00:00+00:00", False),
    ("Fri-Mon 00:00-23:59 UTC", "2026-03-08T12:00:00+00:00", True),  # Sunday
    ("Fri-Mon 00:00-23:59 UTC", "2026-03-04T12:00:00+00:00", False),
    ("Sat 00:00-23:59 Asia/Tokyo", "2026-03-06T15:00:00+00:00", True),  # Saturday there already
    ("Mon-Tue,Thu 10:00-11:00 UTC", "2026-03-05T10:00:00+00:00", True),
    # a night: both halves belong to the weekday of the moment itself
    ("Mon 22:00-06:00 UTC", "2026-03-02T23:00:00+00:00", True),
    ("Mon 22:00-06:00 UTC", "2026-03-03T01:00:00+00:00", False),
    ("Mon 22:00-06:00 UTC", "2026-03-02T01:00:00+00:00", True),
    ("Mon 22:00-06:00 UTC", "2026-03-02T06:00:00+00:00", False),
    # the hour that does not exist, and the one that comes twice
    ("Sun 02:00-03:00 Europe/Zurich", "2026-03-29T01:00:00+00:00", False),
    ("Sun 03:00-04:00 Europe/Zurich", "2026-03-29T01:00:00+00:00", True),
    ("Sun 02:00-03:00 Europe/Zurich", "2026-10-25T00:30:00+00:00", True),
    ("Sun 02:00-03:00 Europe/Zurich", "2026-10-25T01:30:00+00:00", True),
]


@pytest.mark.parametrize(("text", "moment", "inside"), SCHEDULES)
def test_a_schedule_follows_the_clocks_of_its_zone(text, moment, inside):
    assert Schedule.of(text).holds(at(moment)) is inside


@pytest.mark.parametrize("now_ms", [10**18, -(10**18), 10**400])
def test_no_schedule_holds_beyond_the_calendar(now_ms):
    assert not Schedule.of("Mon-Sun 00:00-23:59 UTC").holds(now_ms)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30s", 30_000),
        ("1m", 60_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        ("250ms", 250),
        ("1ns", 1),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, milliseconds):
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "0s", "0", "5", "-1s", "1d", "1 s", "s", ".s", "1h 30m", "1" * 30 + "h", "1s" * 60]
)
def test_a_duration_that_go_would_not_read_or_that_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        duration_ms(text)
