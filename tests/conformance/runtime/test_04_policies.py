"""Runtime specification, section 4 and cases 37-39, 42-48, 51: policies and their bindings, through the handler."""

import json

import pytest

from piecework.jsons import canonical as canonical_form
from piecework.jsons import loads
from tests.support.runtime.verification import (
    CROSSCHECK,
    KERNEL_HASHES,
    SCHEMA_ONLY,
    THRESHOLDS,
    Verifier,
    a_binding,
    a_candidate,
    a_reference,
    a_verify_body,
    canonical,
    summary,
)

DOCS_HASHES = {  # SHA-256 of the policy id and empty params
    SCHEMA_ONLY: "02bc5d4afd9f63f48473bd7b5136fd4537b364dfdb054015477bdd8901f75394",
    THRESHOLDS: "b66303f2a1fed3910c6e826c485bbd7e2c444ac424a3bdac6afd8e923e85fab7",
    CROSSCHECK: "0ae2746d36ebdfb755934f34d0e110a24457f30129f0ea5689f6eb9e2969d2b1",
}
POLICY_VECTORS = [
    (SCHEMA_ONLY, {}, {}, (True, 1.0, [100])),
    (SCHEMA_ONLY, {}, {"min_confidence": 1}, (True, 1.0, [100])),
    (SCHEMA_ONLY, [1], {}, (False, 0.0, [101])),
    (THRESHOLDS, {"confidence": 0.8}, {"min_confidence": 0.8}, (True, 1.0, [100])),
    (THRESHOLDS, {}, {"min_confidence": 0.8}, (False, 0.2, [100, 102])),
    (THRESHOLDS, {"confidence": "0.9"}, {"min_confidence": 0.0}, (True, 1.0, [100])),
    (THRESHOLDS, {"a": "xx"}, {"max_len": 10}, (True, 1.0, [100])),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": 10}, (False, 0.2, [100, 103])),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": 10.0}, (True, 1.0, [100])),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": -1}, (True, 1.0, [100])),
    (THRESHOLDS, [1], {"max_len": 1, "min_confidence": 0.8}, (False, 0.2, [101, 102, 103])),
    (THRESHOLDS, {}, None, (True, 1.0, [100])),
    (THRESHOLDS, {}, [], (True, 1.0, [100])),
    (CROSSCHECK, {"check_summary": "ok"}, {}, (True, 0.9, [100])),
    (CROSSCHECK, {"check_summary": "ok"}, None, (True, 0.9, [100])),
    (CROSSCHECK, {"check_summary": "  "}, {}, (False, 0.3, [100, 104])),
    (CROSSCHECK, {"check_summary": "ok"}, {"min_score": 0.9}, (True, 0.9, [100])),
    (CROSSCHECK, {"check_summary": "ok"}, {"min_score": 0.95}, (False, 0.9, [100, 105])),
    (CROSSCHECK, {}, {"min_score": 0.5}, (False, 0.3, [100, 104, 105])),
    (CROSSCHECK, 5, {"min_score": 0.5}, (False, 0.3, [101, 104, 105])),
]


def bound(verifier, policy_id=SCHEMA_ONLY, params=None, **changed):
    """Status and body for an output that passes every policy."""
    policy = a_binding(policy_id, params or {}, **changed)
    return verifier.post(a_verify_body({"check_summary": "ok", "confidence": 1}, policy=policy))


def test_policy_vectors(verifier):
    for policy_id, output, params, expected in POLICY_VECTORS:
        verdict = verifier.verdict(output, policy_id=policy_id, params=params)

        assert summary(verdict) == expected, (policy_id, output, params)
        assert verdict["verification_status"] == ("passed" if expected[0] else "failed")


def test_policy_hash_kernel_and_docs(verifier):
    for policy_id, kernel in KERNEL_HASHES.items():
        docs = DOCS_HASHES[policy_id]
        for accepted in (kernel, f"sha256:{kernel}", docs, f"sha256:{docs}"):
            assert bound(verifier, policy_id, policy_hash=accepted)[0] == 200
        flipped = ("0" if kernel[0] != "0" else "1") + kernel[1:]
        for refused in (flipped, kernel.upper(), f"SHA256:{kernel}", kernel[:-1], f"{kernel}0", "", "sha256:", " "):
            status, body = bound(verifier, policy_id, policy_hash=refused)
            assert (status, body["error"][:22]) == (400, "policy binding invalid")

    params, documented = {"min_score": 0.9}, "sha256:37cd9986a99a0fd6c5f0691842a8b6588e443f107edabdf356022342abeb81e0"
    assert bound(verifier, CROSSCHECK, params, policy_hash=documented)[0] == 200
    assert bound(verifier, CROSSCHECK, {"min_score": 0.8}, policy_hash=documented)[0] == 400
    assert bound(verifier, CROSSCHECK, params)[0] == 200  # the kernel's hash does not cover the params


@pytest.mark.inside("starts a door that is cold, or is set otherwise")
def test_policy_hash_kernel_and_not_docs_where_the_door_is_strict():
    strict = Verifier(POLICY_HASH_MODE="strict")
    for policy_id, docs in DOCS_HASHES.items():
        assert bound(strict, policy_id)[0] == 200
        assert bound(strict, policy_id, policy_hash=docs)[0] == 400


def test_unknown_policy_or_version_400(verifier):
    cases = {
        "missing in registry": {"policy_id": "vp.other.v1"},
        "version mismatch": {"policy_version": "2"},
        "hash mismatch": {"policy_hash": "0" * 64},
    }
    for reason, changed in cases.items():
        status, body = verifier.post(a_verify_body({}, policy={**a_binding(), **changed}))

        assert (status, body.get("code", "policy_binding_invalid")) == (400, "policy_binding_invalid")
        assert body["error"].startswith("policy binding invalid")
        assert reason in body["error"]


def number(verifier, text):
    """Whether a literally written number passes as a property of type integer."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    body = canonical(a_verify_body({"n": "HERE"}, schema)).replace(b'"HERE"', text.encode())
    status, verdict = verifier.post(body)
    assert status == 200
    return verdict["passed"]


def test_integer_edge(verifier):
    passing = ["1", "0", "-1", str(2**53 + 1), str(2**64 - 1), str(-(2**63))]
    failing = ["1.0", "1e2", "-0", str(2**64), str(-(2**63) - 1), "null", "true", '"1"']

    assert [text for text in passing + failing if number(verifier, text)] == passing


@pytest.mark.inside("looks into the door's own code")
def test_bigint_not_rounded_by_the_codec():
    assert canonical_form(loads(b'{"n":9007199254740993}')) == b'{"n":9007199254740993}'
    assert canonical_form(loads(b"18446744073709551616")) == b"1.8446744073709552e+19"


def test_bigint_not_rounded(verifier):
    schema = {"type": "object", "properties": {"n": {"const": 9007199254740993}}}
    assert verifier.verdict({"n": 9007199254740993}, schema)["passed"]
    assert not verifier.verdict({"n": 9007199254740992}, schema)["passed"]


def test_float_text(verifier):
    # The text itself, as newer kernels count it, or the double's form where that is longer, as older ones do.
    written = {"1e-5": "0.00001", "1e-7": "1e-7", "1e16": "1e+16", "1.50": "1.50", "100000.0": "100000.0"}
    for sent, counted in written.items():
        size = len('{"n":}') + len(counted)
        for limit, expected in ((size, [100]), (size - 1, [100, 103])):
            body = canonical(a_verify_body({"n": "HERE"}, policy_id=THRESHOLDS, params={"max_len": limit}))
            status, verdict = verifier.post(body.replace(b'"HERE"', sent.encode()))
            assert (status, verdict["reason_codes"]) == (200, expected), (sent, limit)


def test_confidence_types(verifier):
    params = {"min_confidence": 0.0001}
    for output in ({"confidence": "0.9"}, {"confidence": None}, {"confidence": True}, {}, {"confidence": [1]}):
        assert verifier.verdict(output, policy_id=THRESHOLDS, params=params)["reason_codes"] == [100, 102]
        assert verifier.verdict(output, policy_id=THRESHOLDS, params={"min_confidence": 0})["passed"]
    assert verifier.verdict({"confidence": 1}, policy_id=THRESHOLDS, params={"min_confidence": 1.0})["passed"]
    assert not verifier.verdict({"confidence": 1}, policy_id=THRESHOLDS, params={"min_confidence": 1.1})["passed"]


@pytest.mark.parametrize("schema", [{"type": "object"}, {}, {"type": "null"}, True])
@pytest.mark.parametrize("policy_id", [SCHEMA_ONLY, THRESHOLDS, CROSSCHECK])
def test_null_or_missing_output(verifier, schema, policy_id):
    for candidate in (a_candidate(), a_candidate(None)):
        verdict = verifier.verdict(schema=schema, candidate=candidate, policy_id=policy_id)

        assert summary(verdict) == (False, 0.0, [200])  # its reference says that there is one
        assert verdict["verification_status"] == "inconclusive"


@pytest.mark.parametrize("reference", [{}, {"digest": " "}, {"digest": None}, a_reference("x", b"null")])
def test_an_output_that_is_null_by_its_own_reference_fails(verifier, reference):
    verdict = verifier.verdict(candidate=a_candidate(None, output_ref=reference))

    assert summary(verdict) == (False, 0.0, [101])
    assert verdict["verification_status"] == "failed"


def test_stricter_only(verifier):
    kernel_fails = [
        ({"required": []}, "x"),
        ({"type": "integer"}, 1.0),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1.0}),
        ({"type": "foo"}, {}),
        (True, {}),
        ("x", {}),
    ]
    only_full_fails = [
        ({"enum": ["a"]}, "b"),
        ({"type": ["string", "null"]}, 5),
        ({"type": "object", "properties": {"a": {"minimum": 3}}}, {"a": 2}),
        ({"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}}, {"a": {}}),
        ({"type": "object", "additionalProperties": False}, {"a": 1}),
    ]
    for schema, output in kernel_fails + only_full_fails:
        for policy_id in KERNEL_HASHES:
            verdict = verifier.verdict(output, schema, policy_id)
            assert not verdict["passed"], (schema, output)
            assert verdict["reason_codes"][0] == 101
    bounded = verifier.verdict({"novelty": 0.1}, policy_id=THRESHOLDS, params={"min_novelty": 0.5})
    assert summary(bounded) == (False, 0.2, [100, 999])


def test_tolerates_placeholder_digests(verifier):
    candidate = a_candidate(
        {"answer": "Three material risks.", "confidence": 0.91},
        output_ref=a_reference("https://runtime.local/task-abc-001/exec-4f2a9c", digest="sha256:a3f1d8c2..."),
        evidence_inline=[{"mime": "text/plain", "content": "trace:attempt-001"}],
        evidence_refs=[a_reference("https://runtime.local/e/1", digest="sha256:...", size_bytes=0)],
    )
    placeholder = a_binding(policy_hash="sha256:b9e2c1...")
    body = a_verify_body(candidate=candidate, policy=placeholder)

    assert verifier.post(body)[0] == 400
    assert verifier.post({**body, "policy": a_binding()})[1]["passed"]


@pytest.mark.inside("starts a door that is cold, or is set otherwise")
def test_tolerates_placeholder_digests_in_the_binding_where_the_door_is_lenient():
    body = a_verify_body({}, policy=a_binding(policy_hash="sha256:b9e2c1..."))

    status, verdict = Verifier(POLICY_HASH_MODE="lenient").post(body)

    assert (status, summary(verdict)) == (200, (True, 1.0, [100]))


def test_unicode(verifier):
    nfc, nfd = "caf\u00e9", "cafe\u0301"
    for text in (nfc, nfd, "\u202eabc", "שלום", "😀", "a\u0000b", "line\u2028end", "日本"):
        candidate = a_candidate({"answer": text}, candidate_id=f"cand-{text}", execution_id=text)
        size = len(canonical({"answer": text}))
        verdict = verifier.verdict(candidate=candidate, policy_id=THRESHOLDS, params={"max_len": size})

        assert verdict["passed"]
    schema = {"type": "object", "properties": {"answer": {"const": nfc}}}
    assert verifier.verdict({"answer": nfc}, schema)["passed"]
    assert not verifier.verdict({"answer": nfd}, schema)["passed"]
    escaped = json.dumps(a_verify_body({"answer": "é😀"})).encode()
    assert verifier.post(escaped) == verifier.post(a_verify_body({"answer": "é😀"}))
