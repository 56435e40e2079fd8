"""Verification policies: their form, their reason codes, and how to register your own.

    @policy("vp.mine.v1", version="1", params_schema={"type": "object"}, reason_codes=COMMON_CODES, io_contract="…")
    def mine(candidate: Candidate, params: Json) -> Verdict: ...

Your own policy gets only candidates that fit the caller's schema; the others have already failed. A policy must be a
pure function of its arguments, because verification may be repeated and is not stored.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from piecework.errors import Internal, SettingsError
from piecework.jsons import Json
from piecework.values import dataclass

# Runtime specification, section 7.
SCHEMA_OK: Final = 100
SCHEMA_INVALID: Final = 101
CONFIDENCE_TOO_LOW: Final = 102
OUTPUT_TOO_LARGE: Final = 103
CHECK_SUMMARY_MISSING: Final = 104
SCORE_TOO_LOW: Final = 105
EVIDENCE_UNREACHABLE: Final = 200
EVIDENCE_TIMEOUT: Final = 201
EVIDENCE_AUTH_DENIED: Final = 202
EVIDENCE_DIGEST_MISMATCH: Final = 203
CUSTOM_ERROR: Final = 999

COMMON_CODES: Final = (
    SCHEMA_OK,
    SCHEMA_INVALID,
    EVIDENCE_UNREACHABLE,
    EVIDENCE_TIMEOUT,
    EVIDENCE_AUTH_DENIED,
    EVIDENCE_DIGEST_MISMATCH,
)  # the door itself gives these codes, so every policy must declare them
ALWAYS_ALLOWED: Final = frozenset({0, CUSTOM_ERROR})


class Candidate(Protocol):
    """One candidate, as a policy reads it."""

    @property
    def candidate_id(self) -> str: ...
    @property
    def execution_id(self) -> str: ...
    @property
    def output_ref(self) -> Mapping[str, Json]: ...
    @property
    def output(self) -> Json: ...
    @property
    def evidence_inline(self) -> Sequence[Mapping[str, Json]]: ...
    @property
    def evidence_refs(self) -> Sequence[Mapping[str, Json]]: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """A policy's judgement; `notes` go only to the log."""

    passed: bool
    score: float
    reason_codes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


PolicyFunction = Callable[[Candidate, Json], Verdict]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with the members that callers name and hash; `evaluate` takes candidate, params and whether it fits."""

    policy_id: str
    version: str
    params_schema: Mapping[str, Json]
    reason_codes: tuple[int, ...]
    io_contract: str
    evaluate: Callable[[Candidate, Json, bool], Verdict]


SCHEMA_FAILED: Final = Verdict(passed=False, score=0.0, reason_codes=(SCHEMA_INVALID,))

_registered: dict[str, Policy] = {}


def policy(
    policy_id: str,
    *,
    version: str,
    params_schema: Mapping[str, Json],
    reason_codes: Sequence[int],
    io_contract: str,
) -> Callable[[PolicyFunction], PolicyFunction]:
    """Register a function as the policy `policy_id`; the function itself stays callable.

    Raises:
        SettingsError: a code of `COMMON_CODES` is not declared, or the id is taken by another module.
    """
    if missing := [code for code in COMMON_CODES if code not in reason_codes]:
        raise SettingsError(f"policy {policy_id} must declare the reason codes {missing}")

    def register(function: PolicyFunction) -> PolicyFunction:
        taken = _registered.get(policy_id)
        if taken is not None and taken.evaluate.__module__ != function.__module__:
            raise SettingsError(f"two policies are named {policy_id}")
        evaluate = _guarded(policy_id, function, ALWAYS_ALLOWED.union(reason_codes))
        _registered[policy_id] = Policy(
            policy_id, version, MappingProxyType(dict(params_schema)), tuple(reason_codes), io_contract, evaluate
        )
        return function

    return register


def registered() -> Mapping[str, Policy]:
    """All policies whose modules have been imported, by id."""
    return MappingProxyType(_registered)


def _guarded(policy_id: str, function: PolicyFunction, allowed: frozenset[int]) -> Callable[..., Verdict]:
    def evaluate(candidate: Candidate, params: Json, schema_ok: bool) -> Verdict:
        if not schema_ok:
            return SCHEMA_FAILED
        verdict = function(candidate, params)
        if not 0.0 <= verdict.score <= 1.0:
            raise Internal(f"policy {policy_id} gave a score outside 0 to 1")
        if not allowed.issuperset(verdict.reason_codes):
            raise Internal(f"policy {policy_id} gave a reason code that it does not declare")
        return Verdict(verdict.passed, float(verdict.score), _complete(verdict), verdict.notes)

    evaluate.__module__ = function.__module__
    return evaluate


def _complete(verdict: Verdict) -> tuple[int, ...]:
    """The codes with `SCHEMA_OK` in front; a failure always has a reason."""
    others = tuple(code for code in verdict.reason_codes if code != SCHEMA_OK)
    if not verdict.passed and not others:
        others = (CUSTOM_ERROR,)
    return (SCHEMA_OK, *others)
