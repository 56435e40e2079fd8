"""The verdict on a candidate: both schema checks, the policy, the evidence, in this order of weight."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import PolicyBindingInvalid
from piecework.extend.policies import COMMON_CODES, Policy, Verdict
from piecework.jsons import canonical, loads
from piecework.runtime.verify.flow import Findings, Identity, StatedVerdict, verify, weigh
from piecework.runtime.verify.messages import log_fields
from piecework.runtime.verify.policies import BindingRules
from piecework.values import replace
from tests.support.runtime.verification import (
    CROSSCHECK,
    KERNEL_HASHES,
    THRESHOLDS,
    Verifier,
    a_binding,
    a_candidate,
    a_reference,
    a_verify_request,
)

IDENTITY = Identity("demo-family", "demo-model-1")
RULES = BindingRules()
PASSING = Verdict(True, 1.0, (100,), ("noted",))


def judge(request, check_evidence=None, rules=RULES, **switches):
    checks = [check_evidence] if check_evidence else []
    return verify(request, rules, IDENTITY, *checks, **switches)


def finding(*codes, notes=()):
    return lambda references: Findings(codes, notes)


def with_reference(output, **named):
    return a_verify_request(candidate=a_candidate(output, evidence_refs=[a_reference("x")]), **named)


def test_the_wire_has_exactly_the_seven_members():
    stated = judge(a_verify_request({}))

    assert set(stated.to_wire()) == {field.name for field in fields(StatedVerdict)} - {"hash_rule", "notes"}
    assert stated.log_fields()["policy_hash_rule"] == "kernel"


def test_the_line_of_a_verdict_is_bounded_and_holds_nothing_of_the_candidate(capsys):
    stated = replace(judge(a_verify_request({})), reason_codes=(101,) * 99, notes=("n" * 999,) * 99)
    ids = {"candidate_id": "c" * 999, "execution_id": "e" * 999}
    ref = a_reference("https://secret", digest="d" * 999, producer="secret")
    request = a_verify_request(candidate=a_candidate("secret", output_ref=ref, **ids))

    LambdaTelemetry({}).outcome("verify", {**log_fields(request), **stated.log_fields()}, {})

    line = json.loads(capsys.readouterr().out)
    assert len(json.dumps(line)) < 6_000 and "secret" not in json.dumps(line)
    assert [line[name] for name in ("candidate_id", "execution_id", "output_digest")] == [x * 200 for x in "ced"]
    assert (len(line["reason_codes"]), [len(note) for note in line["notes"]]) == (20, [200] * 20)
    assert (line["score"], line["verifier_result_hash"]) == (1.0, stated.verifier_result_hash)
    assert (
        log_fields(a_verify_request(candidate=a_candidate({}, output_ref={"digest": {"a": 1}})))["output_digest"]
        is None
    )


def test_the_same_request_gets_the_same_verdict():
    assert judge(a_verify_request({})) == judge(a_verify_request({}))


@pytest.mark.parametrize(
    ("schema", "output", "fitting"),
    [
        ({"type": "object"}, {}, True),
        ({"type": "object", "properties": {"a": {"enum": ["x"]}}}, {"a": "y"}, False),  # full check alone
        ({"required": []}, "x", False),  # minimal check alone
        ({"type": "number"}, 1.0, True),
        ({"type": "integer"}, 1.0, False),
        ({}, {"any": 1}, True),
        (True, {}, False),
        ("x", {}, False),
        (None, {}, False),
        ({"type": "foo"}, {}, False),  # no such type to the kernel either
    ],
)
def test_an_output_fits_only_when_both_checks_pass(schema, output, fitting):
    stated = judge(a_verify_request(output, schema=schema))

    assert (stated.passed, stated.reason_codes) == (fitting, (100,) if fitting else (101,))


NOT_EVALUATED = [
    {"$ref": "http://127.0.0.1/schema"},
    {"$schema": "https://example.com/own", "type": "object"},
    {"type": "object", "properties": 5},
    {"type": "object", "patternProperties": {"(?=x)": {}}},
    {"type": "object", "required": ["a"], "anyOf": 7},
]


@pytest.mark.parametrize("schema", NOT_EVALUATED)
def test_a_schema_that_is_not_evaluated_fails_nothing_that_the_kernels_own_check_passes(schema):
    stated = judge(a_verify_request({"a": 1}, schema=schema))

    assert (stated.verification_status, stated.reason_codes) == ("passed", (100,))
    assert "only by type, required and properties" in stated.notes[0]


def test_a_schema_that_is_not_evaluated_still_fails_what_the_kernels_own_check_fails():
    stated = judge(a_verify_request({}, schema=NOT_EVALUATED[-1]))

    assert (stated.verification_status, stated.reason_codes) == ("failed", (101,))


def test_a_policy_that_fails_outweighs_a_schema_that_is_not_evaluated():
    strict = a_binding(THRESHOLDS, {"min_confidence": 0.9})

    assert judge(a_verify_request({}, schema=NOT_EVALUATED[0], policy=strict)).reason_codes == (100, 102)


def test_a_candidate_too_costly_to_check_is_left_open_and_not_passed():
    step = {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}, "minItems": 9}]}
    output = []
    for _ in range(30):
        output = [output]
    stated = judge(a_verify_request(output, schema=step))

    assert (stated.verification_status, stated.passed, stated.reason_codes) == ("inconclusive", False, (200,))
    assert "too many steps" in stated.notes[0]


def test_evidence_that_speaks_against_nothing_leaves_the_verdict():
    assert weigh(PASSING, Findings()) == PASSING
    assert weigh(PASSING, Findings((), ("more",))).notes == ("noted", "more")


@pytest.mark.parametrize(
    ("codes", "status", "expected"),
    [
        ((200,), "inconclusive", (200,)),
        ((201,), "inconclusive", (201,)),
        ((202, 200), "inconclusive", (200, 202)),
        ((203,), "failed", (203,)),
        ((200, 203), "failed", (203,)),
    ],
)
def test_other_bytes_fail_and_missing_bytes_leave_open(codes, status, expected):
    stated = judge(with_reference({}), finding(*codes))

    assert (stated.verification_status, stated.passed, stated.score) == (status, False, 0.0)
    assert stated.reason_codes == expected


@pytest.mark.parametrize("codes", [(200,), (203,)])
def test_evidence_is_not_even_looked_at_after_a_definite_failure(codes):
    def never(references):
        raise AssertionError("looked")

    by_schema = judge(with_reference(5), never)
    by_policy = judge(with_reference({}, policy=a_binding(THRESHOLDS, {"min_confidence": 0.5})), never)

    assert (by_schema.verification_status, by_schema.reason_codes) == ("failed", (101,))
    assert (by_policy.verification_status, by_policy.reason_codes) == ("failed", (100, 102))


def test_a_candidate_without_references_needs_no_check():
    def never(references):
        raise AssertionError("looked")

    assert judge(a_verify_request({}), never).passed


def test_empty_codes_need_the_switch_and_a_clean_pass():
    clean, failing = a_verify_request({}), a_verify_request(5)

    assert judge(clean).reason_codes == (100,)
    assert judge(clean, empty_reason_codes_on_pass=True).reason_codes == ()
    assert judge(failing, empty_reason_codes_on_pass=True).reason_codes == (101,)
    assert judge(clean).verifier_result_hash != judge(clean, empty_reason_codes_on_pass=True).verifier_result_hash


def test_the_received_policy_hash_enters_the_result_hash_unchanged():
    bare = a_verify_request({})
    prefixed = a_verify_request({}, policy=a_binding(policy_hash=f"sha256:{bare.policy.policy_hash}"))

    assert judge(bare).verifier_result_hash != judge(prefixed).verifier_result_hash


@pytest.mark.parametrize(
    ("codes", "status"), [((100, 200), "inconclusive"), ((100, 201, 999), "failed"), ((100, 203), "failed")]
)
def test_an_own_policy_may_be_inconclusive_but_not_over_a_failure(codes, status):
    own = Policy("vp.mine.v1", "1", {}, COMMON_CODES, "mine", lambda *_: Verdict(False, 0.0, codes))
    rules = BindingRules("both", {"vp.mine.v1": {"0" * 64}}, [own])

    stated = judge(a_verify_request({}, policy_id="vp.mine.v1"), rules=rules)

    assert stated.verification_status == status


def test_notes_reach_the_log_and_not_the_caller():
    stated = judge(with_reference({}, policy=a_binding(THRESHOLDS, {"speed": 5})), finding(notes=("5 skipped",)))

    assert stated.log_fields()["notes"] == ["unmatched parameter speed", "5 skipped"]
    assert "notes" not in stated.to_wire()


def test_a_wrong_binding_is_refused_before_anything_is_judged():
    with pytest.raises(PolicyBindingInvalid, match=r"^policy binding invalid: "):
        judge(a_verify_request({}, policy=a_binding(CROSSCHECK, policy_version="2")))


def test_the_documented_request_gets_the_documented_verdict():
    page = (Path(__file__).parents[3] / "docs" / "runtime" / "verify.md").read_text("utf-8")
    request, verdict = (loads(block.split("```")[0]) for block in page.split("```json\n")[1:3])

    assert Verifier().post(request) == (200, verdict)


def kernel_fits(schema, value):
    """The kernel's schema subset (specification 4.2), written a second time from its text."""
    kinds = {
        "object": lambda v: isinstance(v, dict),
        "array": lambda v: isinstance(v, list),
        "string": lambda v: isinstance(v, str),
        "boolean": lambda v: isinstance(v, bool),
        "null": lambda v: v is None,
        "integer": lambda v: type(v) is int,
        "number": lambda v: type(v) in (int, float),
    }

    def is_kind(name, v):
        return name in kinds and kinds[name](v)

    if not isinstance(schema, dict) or (isinstance(schema.get("type"), str) and not is_kind(schema["type"], value)):
        return False
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and not (isinstance(value, dict) and all(key in value for key in required)):
        return False
    if not isinstance(properties, dict) or not isinstance(value, dict):
        return True
    typed = [(sub["type"], value[key]) for key, sub in properties.items() if key in value and "type" in sub]
    return all(is_kind(name, v) for name, v in typed if isinstance(name, str))


def kernel_passes(policy_id, schema, output, params):
    """The kernel's evaluation (specification 4.1), written a second time from its text."""
    fitting, members = kernel_fits(schema, output), output if isinstance(output, dict) else {}
    known = params if isinstance(params, dict) else {}
    if policy_id == THRESHOLDS:
        least, longest, stated = known.get("min_confidence"), known.get("max_len"), members.get("confidence")
        confidence = stated if type(stated) in (int, float) else 0.0
        low = type(least) in (int, float) and confidence < least
        long = type(longest) is int and longest >= 0 and len(canonical(output)) > longest
        return fitting and not low and not long
    if policy_id == CROSSCHECK:
        summary = members.get("check_summary")
        good = fitting and isinstance(summary, str) and bool(summary.strip())
        return good and not (type(known.get("min_score")) in (int, float) and known["min_score"] > 0.9)
    return fitting


KINDS = st.sampled_from(["object", "string", "integer", "number", "boolean", "null", "array", "foo"])
NAMES = st.sampled_from(["confidence", "check_summary", "answer"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 0.5, 1.0, "", " ", "ok"]))
OUTPUTS = st.one_of(VALUES, st.lists(VALUES, max_size=2), st.dictionaries(NAMES, VALUES))
SUBSCHEMAS = st.fixed_dictionaries({}, optional={"type": KINDS, "minimum": st.just(0), "enum": st.just([1, "ok"])})
SCHEMAS = st.fixed_dictionaries(
    {}, optional={"type": KINDS, "required": st.lists(NAMES), "properties": st.dictionaries(NAMES, SUBSCHEMAS)}
)
BOUNDS = st.sampled_from(["min_confidence", "max_len", "min_score", "max_confidence", "min_answer"])
PARAMS = st.one_of(VALUES, st.dictionaries(BOUNDS, st.one_of(VALUES, st.sampled_from([0.9, 0.95, 20, 20.0]))))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KERNEL_HASHES)), SCHEMAS, OUTPUTS, PARAMS)
def test_nothing_passes_that_the_kernel_fails(policy_id, schema, output, params):
    verdict = judge(a_verify_request(output, schema, policy_id, params))

    assert not verdict.passed or kernel_passes(policy_id, schema, output, params)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(KERNEL_HASHES)), st.dictionaries(NAMES, VALUES), st.dictionaries(BOUNDS, VALUES))
def test_without_our_extras_the_verdict_is_the_kernels(policy_id, output, params):
    # Under thresholds min_score would bound a member named score, which the kernel does not do.
    known = {"min_confidence", "max_len"} if policy_id == THRESHOLDS else {"min_score"}
    kernel_params = {name: value for name, value in params.items() if name in known}

    verdict = judge(a_verify_request(output, {"type": "object"}, policy_id, kernel_params))

    assert verdict.passed is kernel_passes(policy_id, {"type": "object"}, output, kernel_params)
