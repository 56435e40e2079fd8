"""Policy hashes and verdict hashes against the specification's vectors."""

import pytest

from piecework.runtime.hashes import docs_policy_hash, kernel_policy_hash, verifier_result_hash
from piecework.runtime.verify.policies import BUILT_IN
from tests.support.runtime.verification import CROSSCHECK, KERNEL_HASHES, SCHEMA_ONLY, THRESHOLDS

DOCS_VECTORS = [
    (SCHEMA_ONLY, {}, "02bc5d4afd9f63f48473bd7b5136fd4537b364dfdb054015477bdd8901f75394"),
    (THRESHOLDS, {}, "b66303f2a1fed3910c6e826c485bbd7e2c444ac424a3bdac6afd8e923e85fab7"),
    (CROSSCHECK, {}, "0ae2746d36ebdfb755934f34d0e110a24457f30129f0ea5689f6eb9e2969d2b1"),
    (
        THRESHOLDS,
        {"min_confidence": 0.8, "max_len": 4096},
        "0c07f5cf7a05c248e8a9b4ae62c476dcaa4f647cac17fc191750bae4562ef194",
    ),
    (CROSSCHECK, {"min_score": 0.9}, "37cd9986a99a0fd6c5f0691842a8b6588e443f107edabdf356022342abeb81e0"),
]


@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda policy: policy.policy_id)
def test_a_built_in_policy_hashes_as_the_kernel_hashes_it(policy):
    assert kernel_policy_hash(policy) == KERNEL_HASHES[policy.policy_id]


@pytest.mark.parametrize(("policy_id", "params", "expected"), DOCS_VECTORS)
def test_the_documented_formula_covers_id_and_params(policy_id, params, expected):
    assert docs_policy_hash(policy_id, params) == expected


def test_a_whole_score_is_hashed_as_a_double():
    stated = {
        "candidate_id": "cand-exec-p-0001",
        "execution_id": "exec-p-0001",
        "model_id": "demo-model-1",
        "passed": True,
        "policy_hash": KERNEL_HASHES[SCHEMA_ONLY],
        "provider_family": "demo-family",
        "reason_codes": [100],
    }

    with_integer = verifier_result_hash(**stated, score=1)

    assert with_integer == "a4ae211c839e551115f090208a3dea55c8599c1cea298f6a1e3007607c8b6098"
    assert with_integer == verifier_result_hash(**stated, score=1.0)


def test_a_bindings_hash_is_taken_as_newer_and_as_older_kernels_write_its_numbers():
    import hashlib

    from piecework import jsons
    from piecework.runtime.verify.models import PolicyBinding
    from piecework.runtime.verify.policies import BindingRules

    params = getattr(jsons, "loads_exact", jsons.loads)('{"min_confidence":0.80}')
    for written in ('{"min_confidence":0.80}', '{"min_confidence":0.8}'):
        stated = hashlib.sha256(f"vp.schema_thresholds.v1{written}".encode()).hexdigest()
        binding = PolicyBinding(
            policy_id="vp.schema_thresholds.v1", policy_version="1", policy_hash=stated, policy_params=params
        )
        assert BindingRules().bind(binding).rule == "docs"
