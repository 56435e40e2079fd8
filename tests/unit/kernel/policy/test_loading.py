"""What a policy file must not hold, where policies come from, and `piecework policy check`."""

import re
import shlex
from pathlib import Path

import pytest

from piecework.errors import SettingsError
from piecework.kernel.policy.loading import load_directory, load_file
from piecework.kernel.policy.reading import PolicyInvalid, read_document
from piecework.kernel.policy.rules import PERMISSIVE, SECURE
from piecework.kernel.policy.sources import PolicySettings, policy_from
from piecework_cli.main import main
from tests.support.kernel.policies import a_call, a_policy

ALLOW = "then: {decision: allow}"


def with_rule(rest):
    return f"rules: [{{id: r1, {rest}}}]"


def with_when(when):
    return with_rule(f"when: {{{when}}}, {ALLOW}")


def with_predicate(predicate):
    return with_when(f"arguments: [{{{predicate}}}]")


def with_limit(limit):
    return with_rule(f"{ALLOW}, rate_limit: {limit}")


def with_gate(keys):
    return with_rule(f"then: {{decision: require_approval, {keys}}}")


LOAD_ERRORS = [
    (f"rules: [{{{ALLOW}}}]", "rule number 1: `id` must be text"),
    (f"rules: [{{id: '', {ALLOW}}}]", "rule number 1: `id` must have 1 to"),
    (f"rules: [{{id: 5, {ALLOW}}}]", "rule number 1: `id` must be text; put it in quotes"),
    (f"rules: [{{id: a, {ALLOW}}}, {{id: a, priority: 1, {ALLOW}}}]", "rule a: another rule has this `id`"),
    (f"rules: [{{id: a, {ALLOW}}}, {{id: b, {ALLOW}}}]", "rule b: `priority` 0 is that of rule a"),
    (with_rule(f"priority: 1.5, {ALLOW}"), "rule r1: `priority` must be a whole number"),
    (with_rule(f"priority: true, {ALLOW}"), "rule r1: `priority` must be a whole number"),
    (with_rule("then: {decision: permit}"), "rule r1: then: `decision` must be one of allow, deny, require_approval"),
    (with_rule("then: {reason: x}"), "rule r1: then: `decision` must be one of"),
    (with_rule("when: {}"), "rule r1: then must be a mapping"),
    (with_rule("then: {decision: allow, timeout_ms: -1}"), "then: `timeout_ms` must be a whole number, 0 or more"),
    (with_rule("then: {decision: allow, timeout_ms: 1s}"), "then: `timeout_ms` must be a whole number"),
    (with_gate("timeout: 6d"), "then: `timeout` is not a duration such as 30s"),
    (with_gate("timeout: 0s"), "then: `timeout` is not a duration"),
    (with_gate("timeout: 3600"), "then: `timeout` must be text; put it in quotes"),
    (with_gate("timeout: 8785h"), "then: `timeout` must be 366 days (8784h) or less"),
    (with_gate("on_timeout: deny"), "then: `on_timeout` needs `timeout`"),
    (with_gate("timeout: 1h, on_timeout: allow"), "then: `on_timeout` must be one of deny, fail"),
    (with_gate("timeout: 1h, on_timeout: null"), "then: `on_timeout` must be one of deny, fail"),
    (with_gate("notify: a b"), "then: `notify` must be a name of 1 to 64 letters"),
    (with_gate("notify: ''"), "then: `notify` must have 1 to"),
    (with_gate("notify: 'webhook:'"), "then: `notify` must be a name of 1 to 64 letters"),
    (with_gate("notify: 'webhook:a b'"), "digits, `_` and `-`, or `webhook:` and such a name"),
    (with_gate("notify: 'hook:desk'"), "then: `notify` must be a name of 1 to 64 letters"),
    (with_gate("notify: https://hooks.example.com/a"), "then: `notify` must name a webhook, as `webhook:NAME`"),
    (with_gate("notify: {webhook: desk}"), "then: `notify` must be text"),
    (with_gate("private: 'yes'"), "then: `private` must be true or false"),
    (with_rule("then: {decision: allow, notify: finance}"), "then: `notify` needs `decision: require_approval`"),
    (with_rule("then: {decision: deny, private: true}"), "then: `private` needs `decision: require_approval`"),
    (with_gate("timout: 1h"), "then: unknown key `timout`; did you mean `timeout`?"),
    (with_rule("then: {decision: allow, timeout: 1h}"), "then: `timeout` needs `decision: require_approval`; a tool's"),
    (with_rule("then: {decision: deny, on_timeout: fail}"), "then: `on_timeout` needs `decision: require_approval`"),
    ("default: {decision: require_approval, timeout: 1h}", "default: unknown key `timeout`"),
    (with_rule("then: {decision: deny, reason: 5}"), "then: `reason` must be text; put it in quotes"),
    (with_rule("then: {decision: deny, reason: ok, resaon: x}"), "then: unknown key `resaon`; did you mean `reason`?"),
    (with_rule(f"{ALLOW}, wehn: {{tool_id: a}}"), "rule r1: unknown key `wehn`; did you mean `when`?"),
    (with_when("tool: a"), "rule r1: when: unknown key `tool`; did you mean"),
    (with_when("zzz: a"), "when: unknown key `zzz`; known are action, agent_id, agent_ids, arguments"),
    (with_rule(f"when: [], {ALLOW}"), "rule r1: when must be a mapping"),
    (with_rule(f"when: [1], {ALLOW}"), "rule r1: when must be a mapping"),
    (with_when("tool_id: ''"), "when: `tool_id` must have 1 to"),
    (with_when("tool_id: null"), "when: `tool_id` must be text"),
    (with_when("tool_ids: []"), "when: `tool_ids` must be a list, and not empty"),
    (with_when("tool_ids: a"), "when: `tool_ids` must be a list, and not empty"),
    (with_when("tool_ids: [a, 5]"), "when: `tool_ids` must be text; put it in quotes"),
    (with_when("agent_id: []"), "when: `agent_id` must be text"),
    (with_when("agent_ids: {}"), "when: `agent_ids` must be a list, and not empty"),
    (with_when("labels: {}"), "when: `labels` must be a mapping, and not empty"),
    (with_when("labels: [a]"), "when: `labels` must be a mapping, and not empty"),
    (with_when("labels: {a: 5}"), "when: `labels` holds `a`, whose value is not text; put it in quotes"),
    (with_when("action: 5"), "when: `action` must be text"),
    (with_when("min_step_count: -1"), "when: `min_step_count` must be a whole number, 0 or more"),
    (with_when("min_step_count: '3'"), "when: `min_step_count` must be a whole number, 0 or more"),
    (with_when("min_duration_ms: 0"), "when: `min_duration_ms` must be a whole number, 1 or more"),
    (with_when("min_duration_ms: -5"), "when: `min_duration_ms` must be a whole number, 1 or more"),
    (with_when("arguments: []"), "when: `arguments` must be a list, and not empty"),
    (with_when("arguments: {field: a, max: 1}"), "when: `arguments` must be a list, and not empty"),
    (with_when("arguments: [a]"), "when.arguments[0] must be a mapping"),
    (with_predicate("max: 1"), "when.arguments[0]: `field` is missing"),
    (with_predicate("field: '', max: 1"), "when.arguments[0]: `field` must have 1 to"),
    (with_predicate("field: a"), "when.arguments[0]: asks nothing"),
    (with_predicate("field: a, required: false"), "when.arguments[0]: asks nothing"),
    (with_predicate("field: a, required: 1"), "`required` must be true or false"),
    (with_predicate("field: a, pattern: '('"), "`pattern` is not a pattern of RE2: missing ) at `(`"),
    (with_predicate("field: a, pattern: ''"), "`pattern` must have 1 to"),
    (with_predicate("field: a, one_of: []"), "`one_of` must be a list, and not empty"),
    (with_predicate("field: a, one_of: [1]"), "`one_of` must be text; put it in quotes"),
    (with_predicate("field: a, min: x"), "`min` must be a number"),
    (with_predicate("field: a, min: true"), "`min` must be a number"),
    (with_predicate("field: a, max: null"), "`max` must be a number"),
    (with_predicate("field: a, min: 2, max: 1"), "`min` is larger than `max`"),
    (with_predicate("field: a, max_length: -1"), "`max_length` must be a whole number, 0 or more"),
    (with_predicate("field: a, maximum: 1"), "unknown key `maximum`; did you mean `max`?"),
    (with_when("schedule: Mon 09:00-17:00"), "when: `schedule` must read"),
    (with_when("schedule: mon 09:00-17:00 UTC"), "when: `schedule` days are Mon, Tue"),
    (with_when("schedule: Mon- 09:00-17:00 UTC"), "when: `schedule` days are"),
    (with_when("schedule: 'Mon, 09:00-17:00 UTC'"), "when: `schedule` days are"),
    (with_when("schedule: Mon 9:00-17:00 UTC"), "when: `schedule` must read"),
    (with_when("schedule: Mon 09:00-24:00 UTC"), "when: `schedule` must read"),
    (with_when("schedule: Mon 09:00-09:00 UTC"), "when: `schedule` starts and ends at the same minute"),
    (with_when("schedule: Mon 09:00-17:00 Europe/Zuerich"), "no time zone is called Europe/Zuerich"),
    (with_when("schedule: Mon 09:00-17:00 Europe"), "no time zone is called Europe"),
    (with_when("schedule: Mon 09:00-17:00 ../UTC"), "no time zone is called ../UTC"),
    (with_limit("{max: 0, window: 1m}"), "rate_limit: `max` must be a whole number, 1 or more"),
    (with_limit("{max: 10001, window: 1m}"), "rate_limit: `max` must be 10000 or less"),
    (with_limit("{window: 1m}"), "rate_limit: `max` must be a whole number"),
    (with_limit("{max: 1}"), "rate_limit: `window` must be text"),
    (with_limit("{max: 1, window: 60}"), "rate_limit: `window` must be text"),
    (with_limit("{max: 1, window: 1d}"), "rate_limit: `window` is not a duration such as 30s"),
    (with_limit("{max: 1, window: 0s}"), "rate_limit: `window` is not a duration"),
    (with_limit("{max: 1, window: 1m, per: agent}"), "rate_limit: unknown key `per`"),
    (with_limit("null"), "rate_limit must be a mapping"),
    ("default: {decision: maybe}", "default: `decision` must be one of"),
    ("default: {decision: allow, timeout_ms: 5}", "default: unknown key `timeout_ms`"),
    ("default:", "default must be a mapping"),
    ("rule: []", "unknown key `rule`; did you mean `rules`?"),
    ("rules: {}", "`rules` must be a list"),
    ("rules: {a: 1}", "`rules` must be a list"),
    ("rules: [a]", "rule number 1 must be a mapping"),
    ("", "must be a mapping"),
    ("[]", "must be a mapping"),
    ("{}", "holds neither `rules` nor `default`"),
]


@pytest.mark.parametrize(("text", "told"), LOAD_ERRORS)
def test_a_mistake_in_a_file_stops_the_start_and_says_where_it_is(text, told):
    with pytest.raises(PolicyInvalid) as refused:
        a_policy(text, "support.yaml")

    assert refused.value.message.startswith("support.yaml")
    assert told in refused.value.message


UNREADABLE = [
    (b"rules: [", "line "),
    (b"rules: []\nrules: []", "line 2: `rules` occurs twice"),
    (b"rules: &a []\ndefault: *a", "aliases are not taken"),
    (b"a: &a {<<: *a}", "aliases are not taken"),
    (b"rules: !!python/object:os.system []", "tags are not taken"),
    (b"rules: !!binary aGk=", "tags are not taken"),
    (b"? [a]\n: b", "a key must be text"),
    (b"rules: []\n---\nrules: []", "more than one document"),
    (b"[" * 13 + b"]" * 13, "nests more than 12 levels"),
    (b"[" * 100_000, "nest"),
    (b"a: " + b"9" * 41, "a number is longer than 40 characters"),
    (b"a: 1e999", "a number is too large"),
    (b"\xff\xfe\xff", "is not UTF-8"),
    (b"a: \x00", "character"),
    (b"a: " + b"x" * 262_144, "is larger than 262144 bytes"),
]


@pytest.mark.parametrize(("data", "told"), UNREADABLE)
def test_yaml_beyond_what_policies_need_is_refused(data, told):
    with pytest.raises(PolicyInvalid, match=r"^p\.yaml: ") as refused:
        load_file(data, "p.yaml")

    assert told in refused.value.message


def test_scalars_are_those_of_todays_yaml():
    text = (
        b"[on, no, 12:30, 010, 0x1F, 0o17, 1.5, -3, +4, .5, 1e3, true, FALSE, ~, null, '5', 'true', 2026-01-01, .inf]"
    )
    others = ["on", "no", "12:30", 10, 31, 15, 1.5, -3, 4, 0.5, 1000.0, True, False, None, None]

    assert read_document(text, "p.yaml") == [*others, "5", "true", "2026-01-01", ".inf"]


def test_json_is_read_as_well():
    assert a_policy('{"rules": [{"id": "a", "then": {"decision": "allow"}}]}').decide(a_call()).rule_id == "a"


def test_a_directory_over_its_bounds_is_refused():
    rules = "rules: [" + ", ".join(f"{{id: r{n}, priority: {n}, {ALLOW}}}" for n in range(1_001)) + "]"
    others = "rules: [" + ", ".join(f"{{id: r{n}, priority: -{n + 1}, {ALLOW}}}" for n in range(1_000)) + "]"

    with pytest.raises(PolicyInvalid, match="more than 2000 rules"):
        load_directory({"a.yaml": rules.encode(), "_global.yaml": others.encode()})
    with pytest.raises(PolicyInvalid, match="1001 files"):
        load_directory({f"a{n}.yaml": b"rules: []" for n in range(1_001)})


FILE = "rules: [{id: %s, then: {decision: allow}}]"


@pytest.fixture
def layer(tmp_path):
    folder = tmp_path / "executors"
    folder.mkdir()
    return folder


def no_objects(bucket, place):
    raise AssertionError("nothing is read from S3")


def from_env(layer, objects=no_objects, **variables):
    return policy_from(PolicySettings.from_env(variables), objects, layer)


def test_without_any_policy_everything_is_denied_unless_the_settings_say_else(layer):
    assert from_env(layer) is SECURE
    assert from_env(layer, PIECEWORK_POLICY_DEFAULT="permissive") is PERMISSIVE


def test_the_policy_beside_the_executors_is_found_as_a_file_or_a_directory(layer):
    (layer / "policy").mkdir()
    (layer / "policy/support.yaml").write_text(FILE % "folder")
    assert from_env(layer, PIECEWORK_POLICY_DEFAULT="permissive").decide(a_call()).rule_id == "folder"

    (layer / "policy.yaml").write_text(FILE % "file")
    assert from_env(layer).decide(a_call()).rule_id == "file"


def test_the_executors_that_are_installed_come_without_a_policy():
    assert policy_from(PolicySettings(), no_objects) is SECURE


def test_a_path_goes_before_s3_and_s3_before_the_layer(layer, tmp_path):
    (layer / "policy.yaml").write_text(FILE % "layer")
    (tmp_path / "own.yml").write_text(FILE % "path")
    s3 = {"PIECEWORK_POLICY_S3": "s3://bucket-1/a/b.yaml"}

    def objects(bucket, place):
        assert (bucket, place) == ("bucket-1", "a/b.yaml")
        return {"b.yaml": (FILE % "s3").encode()}

    assert from_env(layer, objects, **s3).decide(a_call()).rule_id == "s3"
    path = str(tmp_path / "own.yml")
    assert from_env(layer, objects, **s3, PIECEWORK_POLICY=path).decide(a_call()).rule_id == "path"


def test_an_s3_place_that_is_no_yaml_file_is_a_folder(layer):
    def objects(bucket, place):
        assert place == "a/"
        return {"support.yaml": (FILE % "s3").encode()}

    for address in ("s3://bucket-1/a", "s3://bucket-1/a/"):
        assert from_env(layer, objects, PIECEWORK_POLICY_S3=address).decide(a_call()).rule_id == "s3"


def test_a_directory_may_hold_notes_hidden_files_and_folders(layer, tmp_path):
    (tmp_path / "p/.git").mkdir(parents=True)
    for name, text in [("support.yaml", FILE % "own"), (".hidden", "x"), ("README.md", "x"), (".git/a.yaml", "x")]:
        (tmp_path / "p" / name).write_text(text)

    assert from_env(layer, PIECEWORK_POLICY=str(tmp_path / "p")).decide(a_call()).rule_id == "own"


@pytest.mark.parametrize(
    "variables",
    [
        {"PIECEWORK_POLICY": "/nowhere/policy.yaml"},
        {"PIECEWORK_POLICY_S3": "bucket/key"},
        {"PIECEWORK_POLICY_S3": "s3://bucket-1"},
        {"PIECEWORK_POLICY_DEFAULT": "open"},
    ],
)
def test_a_place_without_a_policy_stops_the_start(layer, variables):
    with pytest.raises(SettingsError):
        from_env(layer, **variables)


def test_an_empty_directory_stops_the_start(layer, tmp_path):
    (tmp_path / "p").mkdir()

    with pytest.raises(SettingsError, match="holds 0 files"):
        from_env(layer, PIECEWORK_POLICY=str(tmp_path / "p"))


REFUNDS = r"""
rules:
  - {id: runaway, priority: 1, when: {min_step_count: 40}, then: {decision: deny, reason: too many steps}}
  - {id: small, priority: 2, when: {tool_id: pay.*, labels: {env: qa}, arguments: [{field: cents, max: 2000}]},
     then: {decision: allow, timeout_ms: 1000}, rate_limit: {max: 5, window: 1m}}
  - {id: large, priority: 4, when: {tool_id: pay.large},
     then: {decision: require_approval, reason: money, timeout: 144h, on_timeout: fail}}
  - {id: night, priority: 3, when: {schedule: "Mon-Sun 22:00-06:00 UTC"}, then: {decision: deny}}
"""


@pytest.fixture
def refunds(tmp_path):
    file = tmp_path / "refunds.yaml"
    file.write_text(REFUNDS)
    return str(file)


def test_check_says_that_a_policy_loads(refunds, tmp_path, capsys):
    assert main(["policy", "check", refunds]) == 0
    assert capsys.readouterr().out == f"{refunds} loads: 4 rules\n"

    (tmp_path / "p").mkdir()
    (tmp_path / "p/support.yaml").write_text(REFUNDS)
    assert main(["policy", "check", str(tmp_path / "p")]) == 0
    assert capsys.readouterr().out.endswith("loads: 4 rules for support, no rules for other agents\n")


def test_check_explains_a_decision_rule_by_rule(refunds, capsys):
    about = ["--tool", "pay.refund", "--arguments", '{"cents": 2500}', "--steps", "3", "--at", "2026-03-01T23:00:00Z"]

    assert main(["policy", "check", refunds, *about]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "     1  runaway: min_step_count does not hold, 3 steps are fewer than 40",
        "     2  small: labels does not hold, another label env; arguments does not hold, cents is not 2000 or less",
        "     3  night: schedule: holds",
        "=> deny by night",
    ]


def test_check_says_what_goes_with_an_allowed_call(refunds, capsys):
    about = ["--tool", "pay.refund", "--arguments", "null", "--label", "env=qa", "--agent", "a", "--age-ms", "5"]

    assert main(["policy", "check", refunds, *about]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "=> allow by small; step timeout 1000 ms; at most 5 per 1m"


def test_check_says_how_long_a_person_is_waited_for(refunds, capsys):
    assert main(["policy", "check", refunds, "--tool", "pay.large", "--at", "2026-03-01T12:00:00Z"]) == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "=> require_approval by large: money; 144h for an answer, then the execution fails"


def test_check_names_the_webhooks_that_rules_need(tmp_path, capsys):
    for name, webhook in (("_global", "webhook:night"), ("desk", "webhook:day"), ("till", "finance")):
        text = (
            f"rules: [{{id: {name}, priority: {len(name)}, then: {{decision: require_approval, notify: '{webhook}'}}}}]"
        )
        (tmp_path / f"{name}.yaml").write_text(text)

    assert main(["policy", "check", str(tmp_path)]) == 0
    assert main(["policy", "check", str(tmp_path), "--tool", "pay", "--agent", "desk"]) == 0

    _, needed, *_, verdict = capsys.readouterr().out.splitlines()
    assert needed == "webhooks that the door must list: day, night"
    assert verdict == "=> require_approval by desk; told under webhook:day"


@pytest.mark.parametrize(
    ("about", "told"),
    [
        (["--steps", "0"], "--steps: name the called tool with --tool"),
        (["--tool", "a", "--label", "env"], "a label has the form NAME=VALUE"),
        (["--tool", "a", "--at", "yesterday"], "--at has the form"),
        (["--tool", "a", "--at", "2026-03-01T23:00:00"], "--at has the form"),
        (["--tool", "a", "--arguments", "{"], "not valid JSON"),
    ],
)
def test_check_refuses_a_call_that_makes_no_sense(refunds, capsys, about, told):
    assert main(["policy", "check", refunds, *about]) == 1
    assert told in capsys.readouterr().err


def test_check_ends_with_1_for_a_policy_that_does_not_load(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text("rules: [{id: a, whne: {}, then: {decision: allow}}]")

    assert main(["policy", "check", str(file)]) == 1
    assert "bad.yaml: rule a: unknown key `whne`; did you mean `when`?" in capsys.readouterr().err
    assert main(["policy", "check", str(tmp_path / "none.yaml")]) == 1


PAGE = (Path(__file__).parents[4] / "docs/kernel/policy.md").read_text("utf-8")


def test_the_page_shows_what_check_says_about_the_policy_it_shows(tmp_path, capsys):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (policy,) = (text for kind, text in blocks if kind == "yaml")
    (commands,) = (text for kind, text in blocks if kind == "bash")
    (shown,) = (text for kind, text in blocks if kind == "")
    (tmp_path / "policy.yaml").write_text(policy)
    _, *about = shlex.split(commands.splitlines()[-1].replace("policy.yaml", str(tmp_path / "policy.yaml")))

    assert main(about) == 0
    assert capsys.readouterr().out == shown
