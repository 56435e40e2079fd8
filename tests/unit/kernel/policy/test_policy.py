"""The kernel's policy: the examples, the order of rules, directories, defaults, and any input at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.kernel.policy.loading import load_directory
from piecework.kernel.policy.reading import PolicyInvalid
from piecework.kernel.policy.rules import PERMISSIVE, SECURE, explained, longest_wait_ms
from piecework.kernel.policy.verdicts import Decision, OnTimeout, RateLimit, Verdict, Wait
from tests.support.kernel.policies import a_call, a_policy

EXAMPLE_A = """
# A: read-only helpers, slow exports, nothing else
rules:
  - {id: read-tools, priority: 10, when: {tool_ids: ["kb.*", "geo.lookup"]}, then: {decision: allow, timeout_ms: 20000}}
  - id: export-in-qa
    priority: 20
    when: {tool_id: report.export, labels: {env: qa}, arguments: [{field: rows, min: 1, max: 5000}]}
    then: {decision: allow, timeout_ms: 600000}
default: {decision: deny, reason: tool not on the list}
"""
EXAMPLE_B = r"""
# B: guard rails first, then money needs a person, mail is throttled
rules:
  - {id: runaway, priority: 1, when: {min_step_count: 40}, then: {decision: deny, reason: too many steps}}
  - id: small-refund
    priority: 10
    when: {tool_id: pay.refund, arguments: [{field: cents, required: true, max: 2000}]}
    then: {decision: allow}
  - id: refund
    priority: 11
    when: {tool_id: pay.refund}
    then: {decision: require_approval, reason: refunds above 20 need a person}
  - id: mail
    priority: 20
    when: {tool_id: "mail.send", arguments: [{field: to, pattern: "@example\\.com$", required: true}]}
    then: {decision: allow}
    rate_limit: {max: 5, window: 1m}
"""
EXAMPLE_C = """
# C: interop suite
rules:
  - id: interop-ok
    priority: 10
    when: {tool_ids: [interop_upper, interop_sum, interop_flaky, interop_boom]}
    then: {decision: allow, timeout_ms: 60000}
  - id: interop-gate
    priority: 20
    when: {tool_id: interop_gated}
    then: {decision: require_approval, reason: a human must look}
default: {decision: deny, reason: interop default deny}
"""
ALLOW, DENY, ASK = Decision.ALLOW, Decision.DENY, Decision.REQUIRE_APPROVAL
NO_RULE = Verdict(DENY, "No explicit allow rule matched", "default")
NOT_LISTED = Verdict(DENY, "tool not on the list", "default")
QA = {"env": "qa"}

EXAMPLES = [
    (EXAMPLE_A, a_call("kb.search"), Verdict(ALLOW, "", "read-tools", 20_000)),
    (EXAMPLE_A, a_call("kb.a.b"), Verdict(ALLOW, "", "read-tools", 20_000)),
    (EXAMPLE_A, a_call("geo.lookup"), Verdict(ALLOW, "", "read-tools", 20_000)),
    (EXAMPLE_A, a_call("geo.other"), NOT_LISTED),
    (
        EXAMPLE_A,
        a_call("report.export", labels=QA, arguments={"rows": 5_000}),
        Verdict(ALLOW, "", "export-in-qa", 600_000),
    ),
    (EXAMPLE_A, a_call("report.export", labels=QA, arguments={}), Verdict(ALLOW, "", "export-in-qa", 600_000)),
    (EXAMPLE_A, a_call("report.export", labels=QA, arguments={"rows": 5_001}), NOT_LISTED),
    (EXAMPLE_A, a_call("report.export", labels=QA), NOT_LISTED),
    (EXAMPLE_A, a_call("report.export", labels={"env": "live"}, arguments={"rows": 1}), NOT_LISTED),
    (EXAMPLE_B, a_call("pay.refund", arguments={"cents": 2_000}), Verdict(ALLOW, "", "small-refund")),
    (
        EXAMPLE_B,
        a_call("pay.refund", arguments={"cents": 2_001}),
        Verdict(ASK, "refunds above 20 need a person", "refund"),
    ),
    (EXAMPLE_B, a_call("pay.refund"), Verdict(ASK, "refunds above 20 need a person", "refund")),
    (
        EXAMPLE_B,
        a_call("pay.refund", arguments={"cents": 1}, step_count=40),
        Verdict(DENY, "too many steps", "runaway"),
    ),
    (
        EXAMPLE_B,
        a_call("mail.send", arguments={"to": "a@example.com"}),
        Verdict(ALLOW, "", "mail", None, RateLimit(5, 60_000, "1m")),
    ),
    (EXAMPLE_B, a_call("mail.send", arguments={"to": "a@example.com.org"}), NO_RULE),
    (EXAMPLE_B, a_call("mail.send", arguments={}), NO_RULE),
    (EXAMPLE_C, a_call("interop_sum"), Verdict(ALLOW, "", "interop-ok", 60_000)),
    (EXAMPLE_C, a_call("interop_gated"), Verdict(ASK, "a human must look", "interop-gate")),
    (EXAMPLE_C, a_call("interop_other"), Verdict(DENY, "interop default deny", "default")),
]


@pytest.mark.parametrize(("text", "call", "verdict"), EXAMPLES)
def test_the_examples_decide_as_their_comments_say(text, call, verdict):
    assert a_policy(text).decide(call) == verdict


def test_without_any_policy_the_server_denies_and_the_local_machine_allows():
    assert SECURE.decide(a_call()) == Verdict(DENY, "No policy engine configured", "secure-default")
    assert PERMISSIVE.decide(a_call()) == Verdict(ALLOW, "", "permissive-default")


def test_the_lowest_priority_is_tried_first_wherever_it_stands_in_the_file():
    policy = a_policy("""
        rules:
          - {id: later, then: {decision: allow}}
          - {id: first, priority: -5, then: {decision: deny, reason: no}}
    """)

    assert policy.decide(a_call()) == Verdict(DENY, "no", "first")


def test_conditions_of_one_rule_must_all_hold():
    policy = a_policy("rules: [{id: both, when: {tool_id: a, agent_id: x}, then: {decision: allow}}]")

    assert policy.decide(a_call("a", agent_id="x")).rule_id == "both"
    assert policy.decide(a_call("a", agent_id="y")) == NO_RULE
    assert policy.decide(a_call("b", agent_id="x")) == NO_RULE


def test_a_rule_without_conditions_matches_everything():
    for when in ("", "when: {}, "):
        policy = a_policy(f"rules: [{{id: all, {when}then: {{decision: allow}}}}]")
        assert policy.decide(a_call("whatever/ever")).rule_id == "all"


def test_no_file_with_only_a_default_or_no_rules_allows_by_accident():
    assert a_policy("default: {decision: require_approval}").decide(a_call()) == Verdict(ASK, "", "default")
    assert a_policy("rules: []").decide(a_call()) == NO_RULE


def test_time_and_rate_limits_go_with_calls_that_are_allowed_at_once():
    policy = a_policy("""
        rules:
          - id: ask
            when: {tool_id: a}
            then: {decision: require_approval, timeout_ms: 5}
            rate_limit: {max: 1, window: 1s}
          - {id: plain, priority: 1, then: {decision: allow, timeout_ms: 0}}
    """)

    assert policy.decide(a_call("a")) == Verdict(ASK, "", "ask")
    assert policy.decide(a_call("b")) == Verdict(ALLOW, "", "plain")


def test_a_rule_says_how_long_a_person_is_waited_for():
    policy = a_policy("""
        rules:
          - {id: brief, when: {tool_id: a}, then: {decision: require_approval, timeout: 1h30m}}
          - {id: long, priority: 1, then: {decision: require_approval, timeout: 144h, on_timeout: fail}}
    """)

    assert policy.decide(a_call("a")).wait == Wait(5_400_000, OnTimeout.DENY, "1h30m")
    assert policy.decide(a_call("b")).wait == Wait(518_400_000, OnTimeout.FAIL, "144h")
    assert longest_wait_ms(policy, "support") == 518_400_000
    assert longest_wait_ms(SECURE, "support") == 0


def test_a_refusal_names_the_limit_and_the_window_as_they_were_written():
    assert RateLimit(5, 60_000, "1m").refusal("mail") == "rate limit exceeded: max 5 per 1m (rule: mail)"


def test_an_explanation_ends_with_the_rule_that_matches():
    found = list(explained(a_policy(EXAMPLE_B), a_call("pay.refund", arguments={"cents": 2_500})))

    assert [(rule.id, [key for key, _ in problems]) for rule, problems in found] == [
        ("runaway", ["min_step_count"]),
        ("small-refund", ["arguments"]),
        ("refund", []),
    ]


OWN = b"""
rules: [{id: own, priority: 5, when: {tool_id: kb.*}, then: {decision: allow}}]
default: {decision: require_approval, reason: ask}
"""
NO_DEFAULT = b"rules: [{id: own, priority: 5, when: {tool_id: kb.*}, then: {decision: allow}}]"
EVERYONES = b"""
rules: [{id: stop, priority: 1, when: {min_step_count: 9}, then: {decision: deny, reason: enough}}]
default: {decision: allow}
"""


def test_a_directory_joins_an_agents_rules_with_everyones():
    policy = load_directory({"support.yaml": OWN, "_global.yml": EVERYONES})

    assert policy.decide(a_call()).rule_id == "own"
    assert policy.decide(a_call(step_count=9)) == Verdict(DENY, "enough", "stop")
    assert policy.decide(a_call("other")) == Verdict(ASK, "ask", "default")


def test_an_agent_whose_file_has_no_default_does_not_get_everyones():
    policy = load_directory({"support.yml": NO_DEFAULT, "_global.yaml": EVERYONES})

    assert policy.decide(a_call("other")) == NO_RULE


def test_an_agent_without_a_file_gets_everyones_rules_and_default():
    policy = load_directory({"support.yaml": OWN, "_global.yaml": EVERYONES})

    assert policy.decide(a_call(agent_id="x")) == Verdict(ALLOW, "", "default")
    assert policy.decide(a_call(agent_id="x", step_count=9)).rule_id == "stop"
    assert load_directory({"_global.yaml": b"rules: []"}).decide(a_call()) == NO_RULE


def test_an_agent_without_a_file_is_denied_where_there_is_none_for_everyone():
    policy = load_directory({"support.yaml": OWN})

    assert policy.decide(a_call(agent_id="x")) == Verdict(DENY, 'no policy configured for agent "x"', "agent-default")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "0 files"),
        ({"a.yaml": OWN, "a.yml": OWN}, "a.yml: a.yaml is there as well"),
        ({"a.yaml": OWN, "_global.yaml": OWN}, "a.yaml: rule own: `priority` 5 is that of rule own"),
        ({"a.yaml": OWN, "a.yamll": OWN}, "a.yamll: a policy file is called"),
        ({".yaml": OWN}, ".yaml: a policy file is called"),
        ({"a.yaml": b"rules: 5"}, "a.yaml: `rules` must be a list"),
    ],
)
def test_a_directory_that_could_be_a_mistake_is_refused(files, told):
    with pytest.raises(PolicyInvalid) as refused:
        load_directory(files)

    assert told in refused.value.message


EVERY_CONDITION = a_policy(r"""
rules:
  - {id: g, priority: 1, when: {tool_id: "[a-c]?*\\x", action: tool.invoke}, then: {decision: allow}}
  - {id: bad, priority: 2, when: {tool_ids: ["[", "web.*"]}, then: {decision: allow}}
  - {id: who, priority: 3, when: {agent_id: a, labels: {k: v}}, then: {decision: deny}}
  - {id: old, priority: 4, when: {min_duration_ms: 1, min_step_count: 3, agent_ids: [a, b]}, then: {decision: deny}}
  - {id: hours, priority: 5, when: {schedule: "Fri-Mon 22:00-06:00 Europe/Zurich"}, then: {decision: deny}}
  - id: arguments
    priority: 6
    when:
      arguments:
        - {field: text, pattern: "(?i)^[[:alpha:]]+\\b", one_of: [a, ""], max_length: 3, required: true}
        - {field: number, min: -1.5, max: 10}
    then: {decision: allow, timeout_ms: 1}
    rate_limit: {max: 1, window: 1h30m}
default: {decision: require_approval}
""")
TEXT = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = JSON | st.fixed_dictionaries({}, optional={"text": JSON, "number": JSON})


@given(
    tool_id=TEXT | st.sampled_from(["abc\\x", "[", "web.a.b"]),
    agent_id=TEXT | st.sampled_from(["a", "b"]),
    labels=st.dictionaries(TEXT, TEXT, max_size=2) | st.just({"k": "v"}),
    arguments=ARGUMENTS,
    has_arguments=st.booleans(),
    numbers=st.tuples(st.integers(), st.integers(), st.integers() | st.integers(0, 2**41)),
)
def test_every_call_gets_an_answer(tool_id, agent_id, labels, arguments, has_arguments, numbers):
    call = a_call(
        tool_id, agent_id=agent_id, labels=labels, step_count=numbers[0], age_ms=numbers[1], now_ms=numbers[2]
    )
    if has_arguments:
        call = a_call(tool_id, agent_id=agent_id, labels=labels, arguments=arguments, now_ms=numbers[2])

    verdict = EVERY_CONDITION.decide(call)

    assert verdict.rule_id in {"g", "bad", "who", "old", "hours", "arguments", "default"}
    matching = [rule.id for rule in EVERY_CONDITION.rules if rule.matches(call)]
    assert verdict.rule_id == (matching or ["default"])[0]
