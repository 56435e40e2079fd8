"""Verification policies of your own, under the public name: see `piecework.extend.policies`."""

from piecework.extend.policies import (
    CHECK_SUMMARY_MISSING,
    COMMON_CODES,
    CONFIDENCE_TOO_LOW,
    CUSTOM_ERROR,
    EVIDENCE_AUTH_DENIED,
    EVIDENCE_DIGEST_MISMATCH,
    EVIDENCE_TIMEOUT,
    EVIDENCE_UNREACHABLE,
    OUTPUT_TOO_LARGE,
    SCHEMA_INVALID,
    SCHEMA_OK,
    SCORE_TOO_LOW,
    Candidate,
    Policy,
    Verdict,
    policy,
)

__all__ = [
    "CHECK_SUMMARY_MISSING",
    "COMMON_CODES",
    "CONFIDENCE_TOO_LOW",
    "CUSTOM_ERROR",
    "EVIDENCE_AUTH_DENIED",
    "EVIDENCE_DIGEST_MISMATCH",
    "EVIDENCE_TIMEOUT",
    "EVIDENCE_UNREACHABLE",
    "OUTPUT_TOO_LARGE",
    "SCHEMA_INVALID",
    "SCHEMA_OK",
    "SCORE_TOO_LOW",
    "Candidate",
    "Policy",
    "Verdict",
    "policy",
]
