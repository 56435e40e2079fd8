"""Hashes that the runtime door exchanges with kernels: of policies (specification 4.3) and of verdicts (section 5)."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress

from piecework.extend.policies import Policy
from piecework.jsons import Json, canonical, older_canonical


def kernel_policy_hash(policy: Policy) -> str:
    """The kernel's hash of a policy: over its record in declaration order, without the params of a binding."""
    members = (
        ("policy_id", policy.policy_id),
        ("policy_version", policy.version),
        ("params_schema", dict(policy.params_schema)),
        ("reason_codes", list(policy.reason_codes)),
        ("io_contract", policy.io_contract),
    )
    record = b",".join(b'"%s":%s' % (name.encode(), canonical(value)) for name, value in members)
    return hashlib.sha256(b"{%s}" % record).hexdigest()


def docs_policy_hash(policy_id: str, params: Json) -> str:
    """The public documentation's hash of a binding: the id directly followed by the params."""
    return hashlib.sha256(policy_id.encode() + canonical(params)).hexdigest()


def docs_policy_hashes(policy_id: str, params: Json) -> set[str]:
    """The documentation's hash as newer and as older kernels write the numbers of the params."""
    hashes = {docs_policy_hash(policy_id, params)}
    with suppress(ValueError):  # a number beyond a double does not have an older form
        hashes.add(hashlib.sha256(policy_id.encode() + older_canonical(params)).hexdigest())
    return hashes


def verifier_result_hash(
    *,
    candidate_id: str,
    execution_id: str,
    model_id: str,
    passed: bool,
    policy_hash: str,
    provider_family: str,
    reason_codes: Sequence[int],
    score: float,
) -> str:
    """The hash a verifier signs into its vote; `policy_hash` is the received text, unchanged."""
    stated = {
        "candidate_id": candidate_id,
        "execution_id": execution_id,
        "model_id": model_id,
        "passed": passed,
        "policy_hash": policy_hash,
        "provider_family": provider_family,
        "reason_codes": reason_codes,
        "score": float(score),  # a double even when whole: `1.0`, never `1`
    }
    return hashlib.sha256(canonical(stated)).hexdigest()
