"""POST /verify as it arrives (runtime specification 2.6), read without pydantic if all is well.

`models` is the authority. It is imported only for a request that does not look right at once; it then decides and names
the members to change. A test checks that both readings agree.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from piecework.jsons import Json
from piecework.values import dataclass

if TYPE_CHECKING:
    from piecework.runtime.verify.flow import VerifyRequest

CANDIDATE_TEXTS: Final = ("candidate_id", "execution_id")
POLICY_TEXTS: Final = ("policy_id", "policy_version", "policy_hash")
EVIDENCE: Final = ("evidence_inline", "evidence_refs")


@dataclass(frozen=True, slots=True)
class Candidate:
    """The candidate to verify."""

    candidate_id: str
    execution_id: str
    output_ref: Mapping[str, Json]
    output: Json
    evidence_inline: Sequence[Mapping[str, Json]]
    evidence_refs: Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """The verifier policy and its parameters."""

    policy_id: str
    policy_version: str
    policy_hash: str
    policy_params: Json


@dataclass(frozen=True, slots=True)
class Request:
    """POST /verify."""

    candidate: Candidate
    output_schema: Json
    policy: PolicyBinding


def read_request(body: dict[str, Json]) -> "VerifyRequest":
    """Read a VerifyRequest from parsed JSON.

    Raises:
        Unprocessable: members are missing or of the wrong type; the message names them, never their values.
    """
    if not _is_request(body):
        from piecework.runtime.messages import parse
        from piecework.runtime.verify import models

        return parse(models.VerifyRequest, body)
    candidate, policy = body["candidate"], body["policy"]
    return Request(
        Candidate(
            *(candidate["candidate_id"], candidate["execution_id"], candidate["output_ref"], candidate.get("output")),
            *(candidate["evidence_inline"], candidate["evidence_refs"]),
        ),
        body["output_schema"],
        PolicyBinding(policy["policy_id"], policy["policy_version"], policy["policy_hash"], policy["policy_params"]),
    )


def log_fields(request: "VerifyRequest") -> dict[str, str | None]:
    """What the outcome's line says of a request: its ids and the digest that it states, but not what was made."""
    candidate, digest = request.candidate, request.candidate.output_ref.get("digest")
    return {
        "candidate_id": candidate.candidate_id,
        "execution_id": candidate.execution_id,
        "output_digest": digest if isinstance(digest, str) else None,
        "policy_id": request.policy.policy_id,
    }


def _is_request(body: Mapping[str, Json]) -> bool:
    candidate, policy = body.get("candidate"), body.get("policy")
    if type(candidate) is not dict or type(policy) is not dict or "output_schema" not in body:
        return False
    return (
        all(type(candidate.get(name)) is str for name in CANDIDATE_TEXTS)
        and type(candidate.get("output_ref")) is dict
        and all(_are_objects(candidate.get(name)) for name in EVIDENCE)
        and all(type(policy.get(name)) is str for name in POLICY_TEXTS)
        and "policy_params" in policy
    )


def _are_objects(value: Any) -> bool:
    return type(value) is list and all(type(item) is dict for item in value)
