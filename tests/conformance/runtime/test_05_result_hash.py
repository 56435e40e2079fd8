"""Runtime specification, section 5 and case 40: the hash that a verifier signs into its vote."""

import hashlib

import pytest

from piecework.jsons import canonical
from tests.support.runtime.verification import (
    CROSSCHECK,
    KERNEL_HASHES,
    SCHEMA_ONLY,
    THRESHOLDS,
    Verifier,
    a_candidate,
    a_reference,
    summary,
)

VECTOR_1 = (
    b'{"candidate_id":"cand-exec-p-0001","execution_id":"exec-p-0001","model_id":"demo-model-1","passed":true,'
    b'"policy_hash":"a52d250d216f425973eb5a13c392d4dbc172357181b683e86caa4a5c64db94a7",'
    b'"provider_family":"demo-family","reason_codes":[100],"score":1.0}'
)
WITH_INTEGER_SCORE = "8a0f53d6c8977b5a44dfb29c275dd04b2da1c6625832af3393febeb19809349e"
VECTORS = [
    # policy, output, params, number of the ids, (passed, score, codes), hash
    (SCHEMA_ONLY, {}, {}, 1, (True, 1.0, [100]), "a4ae211c839e551115f090208a3dea55c8599c1cea298f6a1e3007607c8b6098"),
    (SCHEMA_ONLY, 5, {}, 1, (False, 0.0, [101]), "c7330c3e09b5f796e53deedcb8698edd2fb2d34208cf96e7380899ba1031b123"),
    (
        THRESHOLDS,
        {"a": "xxx"},
        {"min_confidence": 0.5, "max_len": 1},
        2,
        (False, 0.2, [100, 102, 103]),
        "ee4e777dd86eca255edc9f7810ef64cafa87a76e60841655999e465e8ffa43fd",
    ),
    (
        CROSSCHECK,
        {"check_summary": "ok"},
        {"min_score": 0.95},
        3,
        (False, 0.9, [100, 105]),
        "9b1d3dd2b227ace587b0e26d996130f7b3cc2b299efec2cf87fc5f0e51efacf4",
    ),
]


def test_result_hash_vectors_by_the_doors_own_name(verifier):
    for policy, output, params, number, expected, _ in VECTORS:
        candidate = a_candidate(output, candidate_id=f"cand-exec-p-000{number}", execution_id=f"exec-p-000{number}")
        assert summary(verifier.verdict(candidate=candidate, policy_id=policy, params=params)) == expected


@pytest.mark.inside("gives the door the vectors' provider and model")
def test_result_hash_vectors():
    verifier = Verifier()
    for policy_id, output, params, number, expected, stated in VECTORS:
        candidate = a_candidate(output, candidate_id=f"cand-exec-p-000{number}", execution_id=f"exec-p-000{number}")

        verdict = verifier.verdict(candidate=candidate, policy_id=policy_id, params=params)

        assert (summary(verdict), verdict["verifier_result_hash"]) == (expected, stated)

    unreachable = a_candidate(
        {}, candidate_id="cand-ü-1", execution_id="exec-日本😀", evidence_refs=[a_reference("file:///x")]
    )
    fifth = Verifier(MODEL_ID="m/é", FETCH_EVIDENCE="all").verdict(candidate=unreachable)
    assert (summary(fifth), fifth["model_id"]) == ((False, 0.0, [200]), "m/é")
    assert fifth["verifier_result_hash"] == "cf59c2e95447596211651b296827c8c528d7545b68f0cd853cc06533f99d3685"

    assert hashlib.sha256(VECTOR_1).hexdigest() == VECTORS[0][-1]
    assert hashlib.sha256(VECTOR_1.replace(b"1.0}", b"1}")).hexdigest() == WITH_INTEGER_SCORE
    members = {"candidate_id": "cand-exec-p-0001", "execution_id": "exec-p-0001", "model_id": "demo-model-1"}
    rest = {"policy_hash": KERNEL_HASHES[SCHEMA_ONLY], "provider_family": "demo-family"}
    assert canonical({**members, **rest, "passed": True, "reason_codes": [100], "score": 1.0}) == VECTOR_1
