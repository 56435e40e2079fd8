"""The runtime door's requests (runtime specification 2). Members nobody asked for are ignored, as the kernel's are.

Models are few and small because each costs milliseconds of a cold start; of the contract only what a runtime needs is
modelled (2.3, last line), the rest reaches the executor as it came.
"""

from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.errors import Unprocessable
from piecework.jsons import Json

INLINE_EVIDENCE_BYTES: Final = 65_536  # the only value the kernel accepts in a contract (2.3)
MIMES: Final = ("application/json", "text/plain", "text/markdown", "text/csv")
NAMED_PROBLEMS: Final = 5  # members named in one message; it must stay under 512 characters

Count = Annotated[int, Field(ge=0, lt=2**64)]


class Message(BaseModel):
    """Strict types, unknown members ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class EvidencePolicy(Message):
    """What inline evidence the contract admits."""

    max_inline_evidence_bytes: Count = INLINE_EVIDENCE_BYTES
    inline_mime_allowlist: list[str] = list(MIMES)


class Budget(Message):
    """The one budget figure that bounds an answer: each distinct reference costs a unit at verification."""

    verify_cost_units: Count | None = None


class Contract(Message):
    """The members of a TaskContract that shape an answer."""

    output_schema: Any
    evidence_policy: EvidencePolicy = EvidencePolicy()
    budget: Budget = Budget()


class ExecuteRequest(Message):
    """POST /execute (2.2)."""

    task_id: str
    execution_id: str
    task_type: str
    inputs: Any
    profile: str
    task_contract: dict[str, Any]
    stage: str
    attempt_id: str
    seed_bundle: dict[str, Any] | None = None


class Candidate(Message):
    """The candidate to verify (2.6)."""

    candidate_id: str
    execution_id: str
    output_ref: dict[str, Any]
    output: Any = None
    evidence_inline: list[dict[str, Any]]
    evidence_refs: list[dict[str, Any]]


class PolicyBinding(Message):
    """The verifier policy and its parameters."""

    policy_id: str
    policy_version: str
    policy_hash: str
    policy_params: Any


class VerifyRequest(Message):
    """POST /verify (2.6)."""

    candidate: Candidate
    output_schema: Any
    policy: PolicyBinding


M = TypeVar("M", bound=Message)


def parse(model: type[M], value: dict[str, Json], under: str = "") -> M:
    """Read a message from parsed JSON.

    Raises:
        Unprocessable: members are missing or of the wrong type; the message names them, never their values.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    named = [f"{_path(under, problem['loc'])}: {problem['msg'].lower()}" for problem in problems[:NAMED_PROBLEMS]]
    raise Unprocessable("; ".join(named))


def _path(under: str, loc: tuple[int | str, ...]) -> str:
    return ".".join(filter(None, (under, *map(str, loc))))
