"""POST /verify: judge a candidate under its policy and state the verdict (specification 2.7, 4, 5).

Pure but for `check_evidence`: nothing is stored, and a repeated request gets the same answer. Two schema checks must
both pass: the kernel's minimal one, because the kernel refuses a verdict that its own evaluation contradicts, and full
JSON Schema, because the caller wrote one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from piecework.extend.policies import (
    EVIDENCE_AUTH_DENIED,
    EVIDENCE_DIGEST_MISMATCH,
    EVIDENCE_TIMEOUT,
    EVIDENCE_UNREACHABLE,
    SCHEMA_OK,
    Candidate,
    Verdict,
)
from piecework.jsons import Json
from piecework.runtime.hashes import verifier_result_hash
from piecework.runtime.verify.policies import Binding, BindingRules
from piecework.schemas import SchemaRejected, compile_schema, minimal_ok
from piecework.values import dataclass, replace

INCONCLUSIVE_CODES: Final = frozenset({EVIDENCE_UNREACHABLE, EVIDENCE_TIMEOUT, EVIDENCE_AUTH_DENIED})


class VerifyRequest(Protocol):
    """The candidate to judge, and the policy to judge it by."""

    @property
    def candidate(self) -> Candidate: ...
    @property
    def output_schema(self) -> Json: ...
    @property
    def policy(self) -> Binding: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """The provider and model that state a verdict; kernels keep reputation under the pair."""

    provider_family: str
    model_id: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of the evidence check: reason codes, empty when the evidence holds; `notes` go to the log."""

    codes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


MOST_LOGGED: Final = 20  # reasons, and notes, in a line; your own policy may give any number
NOTE_CHARACTERS: Final = 200
NOTHING_FOUND: Final = Findings()
NOT_HERE: Final = Verdict(False, 0.0, (EVIDENCE_UNREACHABLE,), ("the output was not sent with its reference",))
NULL_DIGEST: Final = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"  # SHA-256 of `null`


class Fit(NamedTuple):
    """Whether an output fits its schema, None when that cannot be told, and a note for the log."""

    passes: bool
    findings: Findings = NOTHING_FOUND


CheckEvidence = Callable[[Sequence[Mapping[str, Json]]], Findings]


def no_evidence_check(references: Sequence[Mapping[str, Json]]) -> Findings:
    """Accept all evidence without a check."""
    return NOTHING_FOUND


@dataclass(frozen=True, slots=True)
class StatedVerdict:
    """A verdict with its identity and the hash that a vote signs; `hash_rule` and `notes` go to the log."""

    verification_status: str
    passed: bool
    score: float
    reason_codes: tuple[int, ...]
    verifier_result_hash: str
    provider_family: str
    model_id: str
    hash_rule: str
    notes: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The seven members of the answer."""
        return {
            "verification_status": self.verification_status,
            "passed": self.passed,
            "score": self.score,
            "reason_codes": list(self.reason_codes),
            "verifier_result_hash": self.verifier_result_hash,
            "provider_family": self.provider_family,
            "model_id": self.model_id,
        }

    def log_fields(self) -> dict[str, Any]:
        """The facts of the outcome line."""
        return {
            "verification_status": self.verification_status,
            "reason_codes": list(self.reason_codes[:MOST_LOGGED]),
            "score": self.score,
            "verifier_result_hash": self.verifier_result_hash,
            "policy_hash_rule": self.hash_rule,
            "notes": [note[:NOTE_CHARACTERS] for note in self.notes[:MOST_LOGGED]],
        }


def verify(
    request: VerifyRequest,
    binding_rules: BindingRules,
    identity: Identity,
    check_evidence: CheckEvidence = no_evidence_check,
    *,
    empty_reason_codes_on_pass: bool = False,
) -> StatedVerdict:
    """Judge the candidate. `empty_reason_codes_on_pass` serves readers of the documentation; kernels refuse it.

    Raises:
        PolicyBindingInvalid: the policy, its version or its hash is not accepted.
    """
    candidate, binding = request.candidate, request.policy
    bound = binding_rules.bind(binding)
    verdict = NOT_HERE
    if not is_elsewhere(candidate):
        fit = fit_of(request.output_schema, candidate.output)
        verdict = weigh(bound.policy.evaluate(candidate, binding.policy_params, fit.passes), fit.findings)
    if verdict.passed and candidate.evidence_refs:  # a definite failure outweighs any evidence
        verdict = weigh(verdict, check_evidence(candidate.evidence_refs))
    if verdict.passed and empty_reason_codes_on_pass:
        verdict = replace(verdict, reason_codes=())
    return state(verdict, request, identity, bound.rule)


def state(verdict: Verdict, request: VerifyRequest, identity: Identity, hash_rule: str) -> StatedVerdict:
    """The verdict with its identity and result hash."""
    return StatedVerdict(
        verification_status=_status(verdict),
        passed=verdict.passed,
        score=verdict.score,
        reason_codes=verdict.reason_codes,
        verifier_result_hash=verifier_result_hash(
            candidate_id=request.candidate.candidate_id,
            execution_id=request.candidate.execution_id,
            model_id=identity.model_id,
            passed=verdict.passed,
            policy_hash=request.policy.policy_hash,
            provider_family=identity.provider_family,
            reason_codes=verdict.reason_codes,
            score=verdict.score,
        ),
        provider_family=identity.provider_family,
        model_id=identity.model_id,
        hash_rule=hash_rule,
        notes=verdict.notes,
    )


def is_elsewhere(candidate: Candidate) -> bool:
    """Whether the output was not sent but its reference names one, which the node may still fetch."""
    stated = candidate.output_ref.get("digest") if candidate.output is None else None
    return isinstance(stated, str) and bool(stated.strip()) and stated.removeprefix("sha256:") != NULL_DIGEST


def fit_of(schema: Json, output: Json) -> Fit:
    """Whether both schema checks pass; a null output never fits.

    A schema that we cannot evaluate is not the candidate's fault, so then the kernel's own check decides. A candidate
    that is too costly to check is left open, because somebody may have made it so.
    """
    if output is None or not minimal_ok(schema, output):
        return Fit(False)
    try:
        checker = compile_schema(schema)
    except SchemaRejected as reason:
        return Fit(True, Findings(notes=(f"checked only by type, required and properties: {reason.message}",)))
    try:
        return Fit(checker.is_valid(output))
    except SchemaRejected as reason:
        return Fit(True, Findings((EVIDENCE_UNREACHABLE,), (f"not checked: {reason.message}",)))


def weigh(verdict: Verdict, findings: Findings) -> Verdict:
    """A passing verdict after the evidence check: wrong bytes fail it, unreachable bytes leave it open."""
    if not verdict.passed:
        return replace(verdict, notes=verdict.notes + findings.notes)
    notes = verdict.notes + findings.notes
    if EVIDENCE_DIGEST_MISMATCH in findings.codes:
        return Verdict(False, 0.0, (EVIDENCE_DIGEST_MISMATCH,), notes)
    if findings.codes:
        return Verdict(False, 0.0, tuple(sorted(set(findings.codes))), notes)
    return Verdict(verdict.passed, verdict.score, verdict.reason_codes, notes)


def _status(verdict: Verdict) -> str:
    if verdict.passed:
        return "passed"
    against = INCONCLUSIVE_CODES.union((SCHEMA_OK,))
    unclear = not INCONCLUSIVE_CODES.isdisjoint(verdict.reason_codes)
    return "inconclusive" if unclear and against.issuperset(verdict.reason_codes) else "failed"
