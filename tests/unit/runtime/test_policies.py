"""Policies: the three built-in ones, own ones, and which bindings are accepted."""

import json

import pytest

from piecework.errors import Internal, PolicyBindingInvalid, SettingsError
from piecework.extend import policies as own
from piecework.extend.policies import COMMON_CODES, Policy, Verdict, policy
from piecework.runtime.verify.models import PolicyBinding
from piecework.runtime.verify.peers import MARKER
from piecework.runtime.verify.policies import BindingRules, crosscheck, schema_thresholds
from tests.support.runtime.verification import (
    CROSSCHECK,
    KERNEL_HASHES,
    SCHEMA_ONLY,
    THRESHOLDS,
    a_binding,
    a_candidate,
    a_verify_request,
)


def candidate(output, **changed):
    return a_verify_request(candidate=a_candidate(output, **changed)).candidate


def binding(*arguments, **named):
    return PolicyBinding(**a_binding(*arguments, **named))


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(own, "_registered", {})


@pytest.mark.parametrize(
    ("params", "output", "passed"),
    [
        ({"min_novelty": 0.5}, {"novelty": 0.5}, True),
        ({"min_novelty": 0.5}, {"novelty": 0.4}, False),
        ({"min_novelty": 0.5}, {}, False),
        ({"min_novelty": 0.5}, {"novelty": "0.9"}, False),
        ({"min_novelty": 0.5}, {"novelty": True}, False),
        ({"min_novelty": 0.5}, [1], False),
        ({"max_cost": 3}, {"cost": 3}, True),
        ({"max_cost": 3}, {"cost": 3.5}, False),
        ({"min_len": 2, "max_len": 100}, {"len": 2}, True),
        ({"max_confidence": 0.5}, {"confidence": 0.6}, False),
        ({"min_": 5, "min": 5, "max_x": "5", "other": 5, "max_y": None}, {}, True),
    ],
)
def test_any_numeric_member_can_be_bounded(params, output, passed):
    verdict = schema_thresholds(candidate(output), params, schema_ok=True)

    assert (verdict.passed, verdict.score) == ((True, 1.0) if passed else (False, 0.2))
    assert verdict.reason_codes == ((100,) if passed else (100, 999))


def test_parameters_that_bound_nothing_are_noted_for_the_log():
    params = {"threshold": 5, "max_len": 10.0, "min_confidence": 0.1, "min_cost": 1}

    verdict = schema_thresholds(candidate({"confidence": 1, "cost": 2}), params, schema_ok=True)

    assert verdict.passed
    assert verdict.notes == ("unmatched parameter threshold", "unmatched parameter max_len")


def test_notes_of_hostile_parameters_stay_few_and_short():
    params = {f"{'x' * 500}\n{number}": 1 for number in range(1_000)}

    verdict = schema_thresholds(candidate({}), params, schema_ok=True)

    assert len(verdict.notes) == 16
    assert all(len(note) < 100 and note.isprintable() for note in verdict.notes)


@pytest.mark.parametrize("space", ["", " ", "\t\n\x0b\x0c\r", "\x85\xa0\u1680\u2003\u2028\u3000"])
def test_a_check_summary_of_white_space_is_none(space):
    assert crosscheck(candidate({"check_summary": space}), {}, schema_ok=True).reason_codes == (100, 104)


@pytest.mark.parametrize("sign", ["\x1c", "\x1f", "\u200b", "."])
def test_other_signs_are_a_check_summary(sign):
    assert crosscheck(candidate({"check_summary": sign}), {}, schema_ok=True).passed


def peers(*outputs, ids=None):
    stated = [
        {"candidate_id": ids[number] if ids else f"cand-peer-{number}", "output": output}
        for number, output in enumerate(outputs)
    ]
    return [{"mime": "application/json", "content": json.dumps({MARKER: stated})}]


@pytest.mark.parametrize(
    ("output", "evidence", "passed"),
    [
        ({"decision": "accept"}, peers({"decision": " ACCEPT "}, {"decision": "Accept"}, {"decision": "no"}), True),
        ({"decision": "no"}, peers({"decision": "ACCEPT"}, {"decision": "Accept"}, {"decision": "no"}), False),
        ({"decision": "no"}, peers({"decision": "a"}, {"decision": "b"}), True),  # no majority, no objection
        ({"decision": "no"}, peers({"answer": "a"}, {"answer": "a"}), True),  # peers without a decision abstain
        ({"answer": "x"}, peers({"answer": "y"}), False),
        ({"answer": "x", "decision": " "}, peers({"answer": "X"}), True),
        ({"n": 1}, peers({"n": 1, "check_summary": "ok"}), True),
        ({"n": 1}, peers({"n": 2}), False),
        ({"answer": "x"}, peers({"answer": "y"}, ids=["cand-exec-p-0001"]), True),  # oneself is not a peer
        ({"answer": "x"}, peers({"answer": "x"}, {"answer": "y"}, {"answer": "y"}, ids=["a", "b", "b"]), True),
        ({"answer": "x"}, [], True),
        ({"answer": "x"}, [{"mime": "text/plain", "content": json.dumps({MARKER: []})}], True),
        ({"answer": "x"}, [{"mime": "application/json", "content": f'{{"{MARKER}": '}], True),
        ({"answer": "x"}, [{"mime": "application/json", "content": json.dumps([MARKER])}], True),
        ({"answer": "x"}, [{"mime": "application/json", "content": json.dumps({MARKER: {"a": 1}})}], True),
        (
            {"answer": "x"},
            [{"mime": "application/json", "content": json.dumps({MARKER: [1, {}, {"output": 1}]})}],
            True,
        ),
        ({"answer": "x"}, [{"mime": 5, "content": None}, {}], True),
    ],
)
def test_a_candidate_must_not_contradict_the_majority_of_its_peers(output, evidence, passed):
    full = {"check_summary": "ok", **output}

    verdict = crosscheck(candidate(full, evidence_inline=evidence), {}, schema_ok=True)

    assert verdict == (Verdict(True, 0.9, (100,)) if passed else Verdict(False, 0.3, (100, 999)))


def test_disagreement_does_not_move_the_kernels_own_codes():
    evidence = peers({"answer": "y"})

    verdict = crosscheck(candidate({"answer": "x"}, evidence_inline=evidence), {"min_score": 0.95}, schema_ok=False)

    assert verdict == Verdict(False, 0.3, (101, 104, 105, 999))


def test_extra_hashes_are_accepted_for_their_policy_alone():
    rules = BindingRules.of("both", f"{SCHEMA_ONLY}=abc, {SCHEMA_ONLY}=sha256:def")

    for accepted in ("abc", "sha256:abc", "def", "sha256:def"):
        assert rules.bind(binding(policy_hash=accepted)).rule == "extra"
    with pytest.raises(PolicyBindingInvalid):
        rules.bind(binding(THRESHOLDS, policy_hash="abc"))


@pytest.mark.parametrize("listed", ["abc", "=abc", f"{SCHEMA_ONLY}=", "a=b,c"])
def test_a_malformed_list_of_extra_hashes_is_refused_at_start(listed):
    with pytest.raises(SettingsError):
        BindingRules.of("both", listed)


def test_strict_mode_takes_the_kernels_bare_hash_and_configured_ones_alone():
    rules = BindingRules.of("strict", f"{CROSSCHECK}=sha256:def")

    assert rules.bind(binding()).rule == "kernel"
    assert rules.bind(binding(CROSSCHECK, policy_hash="sha256:def")).rule == "extra"
    with pytest.raises(PolicyBindingInvalid):
        rules.bind(binding(policy_hash=f"sha256:{KERNEL_HASHES[SCHEMA_ONLY]}"))


def test_lenient_mode_says_which_rule_let_a_hash_pass():
    rules = BindingRules.of("lenient", "")

    assert rules.bind(binding(policy_hash="sha256:b9e2c1...")).rule == "lenient"
    assert rules.bind(binding()).rule == "kernel"


def test_an_error_never_carries_a_long_or_unprintable_id():
    with pytest.raises(PolicyBindingInvalid) as refused:
        BindingRules().bind(binding(f"vp.\n{'x' * 10_000}"))

    assert refused.value.message.startswith("policy binding invalid: policy vp.?xxx")
    assert len(refused.value.message) < 200


def register_mine(verdict, policy_id="vp.mine.v1", reason_codes=(*COMMON_CODES, 104)):
    @policy(policy_id, version="3", params_schema={"type": "object"}, reason_codes=reason_codes, io_contract="mine")
    def mine(candidate, params):
        return verdict

    return own.registered()[policy_id]


def test_an_own_policy_is_bound_by_its_kernel_hash_and_version(registry):
    mine = register_mine(Verdict(True, 1))
    rules = BindingRules.of("both", f"vp.mine.v1={'1' * 64}", own.registered().values())

    bound = rules.bind(binding("vp.mine.v1", policy_version="3", policy_hash="1" * 64))

    assert bound.policy is mine
    with pytest.raises(PolicyBindingInvalid, match="version mismatch"):
        rules.bind(binding("vp.mine.v1", policy_hash="1" * 64))


@pytest.mark.parametrize(
    ("given", "schema_ok", "expected"),
    [
        (Verdict(True, 1), True, Verdict(True, 1.0, (100,))),
        (Verdict(True, 0.5, (100,)), True, Verdict(True, 0.5, (100,))),
        (Verdict(False, 0.1, (104,)), True, Verdict(False, 0.1, (100, 104))),
        (Verdict(False, 0.1), True, Verdict(False, 0.1, (100, 999))),
        (Verdict(True, 1), False, Verdict(False, 0.0, (101,))),
    ],
)
def test_an_own_policy_judges_only_what_fits_and_always_gives_reasons(registry, given, schema_ok, expected):
    mine = register_mine(given)

    assert mine.evaluate(candidate({}), {}, schema_ok) == expected


@pytest.mark.parametrize("given", [Verdict(True, 1.5), Verdict(True, float("nan")), Verdict(False, 0.0, (300,))])
def test_an_own_policy_that_breaks_its_word_is_a_bug(registry, given):
    mine = register_mine(given)

    with pytest.raises(Internal):
        mine.evaluate(candidate({}), {}, True)


def test_an_own_policy_must_declare_the_codes_the_door_gives(registry):
    with pytest.raises(SettingsError, match="200"):
        register_mine(Verdict(True, 1), reason_codes=(100, 101))


def test_a_built_in_id_cannot_be_taken(registry):
    mine: Policy = register_mine(Verdict(True, 1), policy_id=SCHEMA_ONLY)

    with pytest.raises(SettingsError, match="built in"):
        BindingRules(own=[mine])


def test_two_modules_cannot_register_one_id(registry):
    register_mine(Verdict(True, 1))
    register_mine(Verdict(True, 1))  # the same module again, as a reload does

    def foreign(candidate, params):
        return Verdict(True, 1)

    foreign.__module__ = "executors.another"
    with pytest.raises(SettingsError, match="two policies"):
        policy("vp.mine.v1", version="1", params_schema={}, reason_codes=COMMON_CODES, io_contract="x")(foreign)
