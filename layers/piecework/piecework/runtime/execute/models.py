"""The models of POST /execute (runtime specification 2.2 to 2.4): they are published, and they explain a refusal.

A right request is read without them (`messages`), because importing pydantic takes a fifth of a cold start.
"""

from typing import Any

from pydantic import Field

from piecework.runtime.execute.defaults import INLINE_EVIDENCE_BYTES, MIMES
from piecework.runtime.messages import Count, Id, Message


class EvidencePolicy(Message):
    """The inline evidence that the contract admits."""

    max_inline_evidence_bytes: Count = INLINE_EVIDENCE_BYTES
    inline_mime_allowlist: list[str] = Field(default=list(MIMES))


class Budget(Message):
    """The one budget figure that bounds an answer: each distinct reference costs a unit at verification."""

    verify_cost_units: Count | None = None


class Contract(Message):
    """The members of a TaskContract that shape an answer; the rest reaches the executor unchanged (2.3)."""

    output_schema: Any
    evidence_policy: EvidencePolicy = EvidencePolicy()
    budget: Budget = Budget()


class ExecuteRequest(Message):
    """POST /execute."""

    task_id: Id
    execution_id: Id
    task_type: str
    inputs: Any
    profile: str
    task_contract: dict[str, Any]
    stage: str
    attempt_id: Id
    seed_bundle: dict[str, Any] | None = None
