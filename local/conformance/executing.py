"""Section 11, execute: stages, schemas, limits of output and evidence, idempotency."""

import hashlib
import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry

from local.conformance.target import (
    ALWAYS_FORBIDDEN,
    SCHEMA,
    Json,
    Target,
    a_task,
    canonical,
    expect,
    refused,
)

OUTPUT_BYTES: Final = 65_536
INLINE_BYTES: Final = 65_536
EVIDENCE_BYTES: Final = 120_000
RACERS: Final = 20
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
PNG: Final = f"data:image/png;base64,iVBORw0KGgo{'A' * 80}"
UNSATISFIABLE: Final[Json] = {"type": "object", "required": ["x"], "properties": {"x": {"enum": []}}}


def _valid(schema: Json, output: Json) -> None:
    problems = list(Draft202012Validator(schema, registry=Registry[Any]()).iter_errors(output))
    expect(not problems, f"the output fails its schema: {problems[:1]}")


def kernel_stages(target: Target) -> None:
    for stage in ("EXPLORE", "DECIDE", "DIVERGE_MODE", "explore", "verify", "finalize", "EXECUTE", "banana"):
        _valid(SCHEMA, target.execute(a_task(stage=stage))["candidate_output"])


def decide_reuses_exact_hit(target: Target) -> None:
    for payload in ({"answer": "earlier", "confidence": 0.7}, {"answer": 5}):
        hit = {
            "hit_type": "Exact",
            "decision_ref": {"task_id": "t", "epoch": 1, "final_commit_hash": "h"},
            "reuse_payload": payload,
            "evidence_digests": [],
            "reason_codes_summary": {"reason_codes": [100]},
            "confidence_hint": 1.0,
        }
        limits: Json = {"must_consider_claims": [], "must_avoid_blacklist_candidate_hashes": []}
        seed = {"seed_type": "SIMILAR_HITS_V1", "hits": [hit], "constraints": limits}
        _valid(SCHEMA, target.execute(a_task(stage="DECIDE", seed_bundle=seed))["candidate_output"])


def output_valid_under_both_checks(target: Target) -> None:
    whole = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 3}}}
    chosen = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["b", "c"]}}}
    nested = {"type": "object", "required": ["in"], "properties": {"in": whole}}
    schemas: tuple[Json, ...] = (whole, chosen, nested)
    for schema in schemas:
        answer = target.post("/execute", a_task(output_schema=schema))
        expect(answer.status_code in (200, 400), answer.text)  # an executor may be unable to, but then says so
        if answer.status_code == 200:
            output = answer.json()["candidate_output"]
            _valid(schema, output)
            number = output.get("n", output.get("in", {}).get("n", 0) if isinstance(output.get("in"), dict) else 0)
            expect(isinstance(number, int), f"an integer was written as {number!r}")


def unsatisfiable_schema_400(target: Target) -> None:
    refused(target.post("/execute", a_task(output_schema=UNSATISFIABLE)), 400)


def odd_schemas(target: Target) -> None:
    hostile = {"type": "object", "properties": {"answer": {"type": "string", "pattern": "^(a+)+$"}}}
    remote = {"$ref": "http://169.254.169.254/latest/meta-data"}
    listed = {"type": ["object", "null"]}
    odd: tuple[Json, ...] = ({}, True, "x", {"type": "foo"}, listed, {"$ref": "#"}, hostile, remote, {"not": {}})
    for schema in odd:
        answer = target.post("/execute", a_task(output_schema=schema))
        expect(answer.status_code < 500, f"{schema}: {answer.status_code} {answer.text}")
        expect(answer.elapsed.total_seconds() < 25, f"{schema}: took {answer.elapsed}")


def candidate_size_limit(target: Target) -> None:
    for prompt in ("x" * 70_000, "é" * 40_000, "\u2028" * 30_000):
        answer = target.post("/execute", a_task(inputs={"prompt": prompt}))
        expect(answer.status_code in (200, 400), answer.text)
        if answer.status_code == 200:
            size = len(canonical(answer.json()["candidate_output"]))
            expect(size <= OUTPUT_BYTES, f"the output has {size} bytes")


def inline_limits(target: Target) -> None:
    for prompt in ("x" * 60_000, "😀" * 15_000, '"' * 30_000):
        answer = target.post("/execute", a_task(inputs={"prompt": prompt}))
        expect(answer.status_code in (200, 400), answer.text)
        if answer.status_code == 200:
            made = answer.json()
            sizes = [len(item["content"].encode()) for item in made["evidence_inline"]]
            expect(all(size <= INLINE_BYTES for size in sizes), f"inline evidence of {sizes} bytes")
            whole = json.dumps([made["evidence_inline"], made["evidence_refs"]], ensure_ascii=False)
            expect(len(whole.encode()) <= EVIDENCE_BYTES, "evidence over 120000 bytes in all")


def inline_mime_from_contract(target: Target) -> None:
    for mimes in ([], ["text/markdown"], ["application/json", "text/plain"]):
        inline = target.execute(a_task(mimes=mimes))["evidence_inline"]
        expect(all(item["mime"] in mimes for item in inline), f"{inline} under {mimes}")


def inline_media_never_emitted(target: Target) -> None:
    for prompt in (PNG, "/9j/" + "A" * 80, "SUQz" + "A" * 80):
        made = target.execute(a_task(inputs={"prompt": prompt}))
        text = " ".join(item["content"] for item in made["evidence_inline"])
        expect("data:image/" not in text.lower() and prompt not in text, "media in inline evidence")


def artifact_ref_integers(target: Target) -> None:
    for reference in target.execute(a_task())["evidence_refs"]:
        expect(type(reference["size_bytes"]) is int and type(reference["created_at"]) is int, reference)
        expect(DIGEST.fullmatch(reference["digest"]), reference)
        if reference["uri"].startswith("http"):
            data = target.http.get(reference["uri"]).content
            expect(reference["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}", "the bytes are others")
            expect(reference["size_bytes"] == len(data), "the size is another")


def duplicate_after_completion(target: Target) -> None:
    body = a_task()
    first = target.post("/execute", body)
    again = target.post("/execute", body)
    reordered = target.post("/execute", json.dumps(dict(reversed(body.items())), indent=1).encode())
    expect(first.status_code == 200, first.text)
    expect(first.content == again.content == reordered.content, "a duplicate got another answer")


def n_way_race(target: Target) -> None:
    body = a_task()
    with ThreadPoolExecutor(RACERS) as threads:
        answers = list(threads.map(lambda _: target.post("/execute", body), range(RACERS)))
    expect({answer.status_code for answer in answers} == {200}, [answer.status_code for answer in answers])
    expect(len({answer.content for answer in answers}) == 1, "racers got different answers")


def key_parts(target: Target) -> None:
    shared = f"attempt-{uuid.uuid4()}"
    first = a_task(attempt_id=shared)
    target.execute(first)
    for changed in ({"task_id": "other"}, {"execution_id": "other"}):
        made = target.execute({**first, **{name: f"{value}-{shared}" for name, value in changed.items()}})
        expect(made["candidate_output"] is not None, "no answer of its own")


def key_reuse_conflict_409(target: Target) -> None:
    body = a_task()
    first = target.post("/execute", body)
    refused(target.post("/execute", {**body, "inputs": {"prompt": "another"}}), 409)
    expect(target.post("/execute", body).content == first.content, "the stored answer was touched")


def ambiguous_ids(target: Target) -> None:
    mark = str(uuid.uuid4())
    odd = [(f"a|b{mark}", "c"), (f"a{mark}", "b|c"), ("x" * 10_000 + mark, "y"), (f"n\n/#😀{mark}", "é")]
    for task_id, execution_id in odd:
        target.execute(a_task(task_id=task_id, execution_id=execution_id, attempt_id="1"))


def unknown_task_type_served(target: Target) -> None:
    """By the default executor where the operator has named one; refused, and not answered by another, where not."""
    answer = target.post("/execute", a_task(task_type="operator-made"))
    if answer.status_code == 200:
        _valid(SCHEMA, answer.json()["candidate_output"])
        return
    refused(answer, 422)
    expect(answer.json().get("code") == "task_type_unknown", f"the code is {answer.json().get('code')}")


def unknown_profile_422(target: Target) -> None:
    refused(target.post("/execute", a_task(profile="no-such-profile")), 422)


def a2a_invoke_answers(target: Target) -> None:
    inputs = {"request_id": "r", "target_agent_id": "a", "capability": "c", "payload": {}, "protocol": "google_a2a"}
    made = target.execute(a_task(task_type="a2a_invoke", inputs=inputs))
    expect(isinstance(made["candidate_output"]["answer"], str), made)


def error_text_hygiene(target: Target) -> None:
    secret = f"secret-{uuid.uuid4()}"
    answer = target.post("/execute", a_task(inputs={"prompt": secret}, output_schema=UNSATISFIABLE))
    refused(answer, 400)
    expect(secret not in answer.text, "the error shows the prompt")


def aggregation_fields(target: Target) -> None:
    schema = {"type": "object", "properties": {"decision": {"type": "string"}, "confidence": {"type": "number"}}}
    output = target.execute(a_task(output_schema=schema))["candidate_output"]
    expect(isinstance(output.get("decision"), str), output)
    expect(0 <= output.get("confidence", -1) <= 1, output)


def never_429(target: Target) -> None:
    with ThreadPoolExecutor(RACERS) as threads:
        list(threads.map(lambda _: target.post("/execute", a_task()), range(RACERS * 2)))
    expect(not set(target.statuses) & set(ALWAYS_FORBIDDEN), "a 408 or 429 was seen")
