"""Section 11, verify: policies, hashes, numbers, odd candidates."""

import json
from typing import Final

from local.conformance.target import (
    POLICY_HASHES,
    Json,
    Target,
    a_binding,
    a_candidate,
    a_reference,
    expect,
    refused,
    without,
)

ONLY: Final = "vp.schema_only.v1"
THRESHOLDS: Final = "vp.schema_thresholds.v1"
CROSSCHECK: Final = "vp.crosscheck.v1"
OBJECT: Final = {"type": "object"}
# policy, output, params → passed, score, codes in order
VECTORS: Final[tuple[tuple[str, Json, Json, bool, float, list[int]], ...]] = (
    (ONLY, {}, {}, True, 1.0, [100]),
    (ONLY, [], {}, False, 0.0, [101]),
    (THRESHOLDS, {"confidence": 0.8}, {"min_confidence": 0.8}, True, 1.0, [100]),
    (THRESHOLDS, {}, {"min_confidence": 0.8}, False, 0.2, [100, 102]),
    (THRESHOLDS, {"confidence": "0.9"}, {"min_confidence": 0.0}, True, 1.0, [100]),
    (THRESHOLDS, {"a": "xx"}, {"max_len": 10}, True, 1.0, [100]),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": 10}, False, 0.2, [100, 103]),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": 10.0}, True, 1.0, [100]),
    (THRESHOLDS, {"a": "xxx"}, {"max_len": -1}, True, 1.0, [100]),
    (THRESHOLDS, [1], {"max_len": 1, "min_confidence": 0.8}, False, 0.2, [101, 102, 103]),
    (CROSSCHECK, {"check_summary": "ok"}, {}, True, 0.9, [100]),
    (CROSSCHECK, {"check_summary": "  "}, {}, False, 0.3, [100, 104]),
    (CROSSCHECK, {"check_summary": "ok"}, {"min_score": 0.9}, True, 0.9, [100]),
    (CROSSCHECK, {"check_summary": "ok"}, {"min_score": 0.95}, False, 0.9, [100, 105]),
    (CROSSCHECK, {}, {"min_score": 0.5}, False, 0.3, [100, 104, 105]),
    (CROSSCHECK, 5, {"min_score": 0.5}, False, 0.3, [101, 104, 105]),
)
# SHA-256 of the policy id and the canonical params
DOCS_HASHES: Final[tuple[tuple[str, Json, str], ...]] = (
    (ONLY, {}, "02bc5d4afd9f63f48473bd7b5136fd4537b364dfdb054015477bdd8901f75394"),
    (THRESHOLDS, {}, "b66303f2a1fed3910c6e826c485bbd7e2c444ac424a3bdac6afd8e923e85fab7"),
    (CROSSCHECK, {}, "0ae2746d36ebdfb755934f34d0e110a24457f30129f0ea5689f6eb9e2969d2b1"),
    (CROSSCHECK, {"min_score": 0.9}, "37cd9986a99a0fd6c5f0691842a8b6588e443f107edabdf356022342abeb81e0"),
)
FIELDS: Final = {
    "passed",
    "score",
    "reason_codes",
    "verification_status",
    "verifier_result_hash",
    "provider_family",
    "model_id",
}
INTEGERS: Final = (
    ("1", True),
    ("1.0", False),
    ("1e2", False),
    ("-0", False),
    ("9007199254740993", True),
    ("18446744073709551615", True),
    ("18446744073709551616", False),
    ("-9223372036854775808", True),
)
TEXTS: Final = (("1e-5", 7), ("1e-7", 4), ("1e16", 5), ("1.50", 4), ("1e-07", 5), ("100000.0", 8))


def _written(body: Json, number: str) -> bytes:
    """The body with a number written exactly so in place of "@"."""
    return json.dumps(body).replace('"@"', number).encode()


def _passes(target: Target, output: Json, params: Json, number: str) -> bool:
    policy = a_binding(THRESHOLDS, params)
    return bool(target.verify(_written(a_candidate(output, policy=policy), number))["passed"])


def policy_vectors(target: Target) -> None:
    for policy_id, output, params, passed, score, codes in VECTORS:
        verdict = target.verify(a_candidate(output, schema=OBJECT, policy=a_binding(policy_id, params)))
        seen = (verdict["passed"], verdict["score"], verdict["reason_codes"], verdict["verification_status"])
        wanted = (passed, score, codes, "passed" if passed else "failed")
        expect(seen == wanted, f"{policy_id} {output} {params}: {seen}, not {wanted}")
    target.verify(a_candidate({"check_summary": "ok"}, policy=a_binding(CROSSCHECK) | {"policy_params": None}))


def policy_hash_kernel_and_docs(target: Target) -> None:
    known: list[tuple[str, Json, str]] = [(policy_id, {}, digest) for policy_id, digest in POLICY_HASHES.items()]
    for policy_id, params, digest in [*known, *DOCS_HASHES]:
        for text in (digest, f"sha256:{digest}"):
            target.verify(a_candidate({"check_summary": "ok"}, policy=a_binding(policy_id, params, text)))
        changed = ("0" if digest[0] != "0" else "1") + digest[1:]
        for text in (changed, digest.upper(), ""):
            answer = target.post("/verify", a_candidate({}, policy=a_binding(policy_id, params, text)))
            refused(answer, 400, saying="policy binding invalid")
    other = a_binding(CROSSCHECK, {"min_score": 0.8}, DOCS_HASHES[3][2])
    refused(target.post("/verify", a_candidate({}, policy=other)), 400)


def unknown_policy_or_version_400(target: Target) -> None:
    for policy in (a_binding("vp.other.v1"), a_binding(ONLY, version="2")):
        answer = target.post("/verify", a_candidate({}, policy=policy))
        refused(answer, 400)
        expect(answer.json()["error"].startswith("policy binding invalid"), answer.text)


def result_hash_vectors(target: Target) -> None:
    outputs: tuple[Json, ...] = ({}, 5)
    for candidate_id, execution_id in (("cand-exec-p-0001", "exec-p-0001"), ("cand-ü-1", "exec-日本😀")):
        for output in outputs:
            target.verify(a_candidate(output, candidate_id=candidate_id, execution_id=execution_id))


def clean_pass_has_code_100(target: Target) -> None:
    outputs: tuple[Json, ...] = ({}, "no object")
    for output in outputs:
        verdict = target.verify(a_candidate(output))
        expect(set(verdict) == FIELDS, f"members are {sorted(verdict)}")
        expect(verdict["verification_status"] == ("passed" if verdict["passed"] else "failed"), verdict)
        expect(0 <= verdict["score"] <= 1 and verdict["reason_codes"], verdict)
        expect(verdict["passed"] is (verdict["reason_codes"] == [100]), verdict)


def integer_edge(target: Target) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for number, passed in INTEGERS:
        verdict = target.verify(_written(a_candidate({"n": "@"}, schema=schema), number))
        expect(verdict["passed"] is passed, f"{number} as integer: passed is {verdict['passed']}")


def bigint_not_rounded(target: Target) -> None:
    for number, length in (("9007199254740993", 16), ("18446744073709551616", 22)):
        expect(_passes(target, {"n": "@"}, {"max_len": length + 6}, number), f"{number} is longer")
        expect(not _passes(target, {"n": "@"}, {"max_len": length + 5}, number), f"{number} is shorter")


def float_text(target: Target) -> None:
    for number, length in TEXTS:
        expect(_passes(target, {"n": "@"}, {"max_len": length + 6}, number), f"{number} is longer")
        expect(not _passes(target, {"n": "@"}, {"max_len": length + 5}, number), f"{number} is shorter")


def confidence_types(target: Target) -> None:
    for output, codes in (
        ({"confidence": "0.9"}, [100, 102]),
        ({"confidence": None}, [100, 102]),
        ({"confidence": True}, [100, 102]),
        ({}, [100, 102]),
        ({"confidence": 1}, [100]),
    ):
        verdict = target.verify(a_candidate(output, policy=a_binding(THRESHOLDS, {"min_confidence": 0.5})))
        expect(verdict["reason_codes"] == codes, f"{output}: {verdict['reason_codes']}")


def null_or_missing_output(target: Target) -> None:
    body = a_candidate(None)
    for request in (body, {**body, "candidate": without(body["candidate"], "output")}):
        verdict = target.verify(request)
        expect((verdict["verification_status"], verdict["reason_codes"]) == ("inconclusive", [200]), verdict)


def stricter_only(target: Target) -> None:
    for schema, output in (
        ({"required": []}, "text"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1.0}),
        (True, {}),
    ):
        answer = target.post("/verify", a_candidate(output, schema=schema))
        expect(answer.status_code == 200 and not answer.json()["passed"], f"{schema} with {output}: {answer.text}")


def tolerates_placeholder_digests(target: Target) -> None:
    odd = a_reference("https://runtime.local/task-1/exec-1", "sha256:a3f1d8c2...")
    target.verify(a_candidate({}, output_ref=odd))
    truncated = a_candidate({}, output_ref=odd, policy=a_binding(ONLY, policy_hash="sha256:8f2c..."))
    answer = target.post("/verify", truncated)
    if answer.status_code != 200:  # 200 is the lenient mode's answer
        refused(answer, 400, saying="policy binding invalid")


def unicode(target: Target) -> None:
    for text in ("e\u0301", "\u00e9", "\u202eabc", "😀", "\u0000", "\u2028"):
        request = a_candidate({"answer": text}, candidate_id=f"cand-{text}", execution_id=f"exec-{text}")
        expect(target.verify(request)["passed"], f"{text!r} did not pass")


def many_refs(target: Target) -> None:
    refs = [a_reference(f"artifact://reference/{number}", f"sha256:{number:064x}") for number in range(450)]
    expect(target.post("/verify", a_candidate({}, evidence_refs=refs)).status_code == 200, "450 refs are refused")
