"""The models of POST /verify (runtime specification 2.6): they are published, and they explain a refusal.

A right request is read without them (`messages`), because importing pydantic takes two thirds of a cold start.
"""

from typing import Any

from piecework.runtime.messages import Message


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
