"""POST /execute as it arrives (runtime specification 2.2 to 2.4).

Of the contract only what a runtime needs is modelled (2.3, last line); the rest reaches the executor as it came.
"""

from typing import Any, Final

from pydantic import Field

from piecework.wattswarm.messages import Count, Message

INLINE_EVIDENCE_BYTES: Final = 65_536  # the only value the kernel accepts in a contract (2.3)
MIMES: Final = ("application/json", "text/plain", "text/markdown", "text/csv")


class EvidencePolicy(Message):
    """What inline evidence the contract admits."""

    max_inline_evidence_bytes: Count = INLINE_EVIDENCE_BYTES
    inline_mime_allowlist: list[str] = Field(default=list(MIMES))


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
