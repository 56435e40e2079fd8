"""The runtime door's three built-in policies and the check that a request's binding names one (specification 4)."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final, Protocol, Self

from piecework.errors import PolicyBindingInvalid, SettingsError
from piecework.extend.policies import (
    CHECK_SUMMARY_MISSING,
    COMMON_CODES,
    CONFIDENCE_TOO_LOW,
    CUSTOM_ERROR,
    OUTPUT_TOO_LARGE,
    SCHEMA_FAILED,
    SCHEMA_INVALID,
    SCHEMA_OK,
    SCORE_TOO_LOW,
    Candidate,
    Policy,
    Verdict,
)
from piecework.jsons import Json, canonical, older_canonical
from piecework.jsons.numerals import WrittenFloat, as_decimal, holds_written
from piecework.runtime.hashes import docs_policy_hashes, kernel_policy_hash
from piecework.runtime.verify.peers import disagrees_with_peers
from piecework.settings import PolicyHashMode
from piecework.values import dataclass

PREFIX: Final = "sha256:"
LONGEST_SHOWN: Final = 64  # characters of a caller's own text in an error or a log line
MOST_NOTES: Final = 16
# Unicode White_Space, which the kernel trims; Python's own strip() would also remove U+001C to U+001F.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_KERNEL_THRESHOLDS: Final = frozenset({"min_confidence", "max_len"})
SCHEMA_PASSED: Final = Verdict(passed=True, score=1.0, reason_codes=(SCHEMA_OK,))


class Binding(Protocol):
    """The policy a request names."""

    @property
    def policy_id(self) -> str: ...
    @property
    def policy_version(self) -> str: ...
    @property
    def policy_hash(self) -> str: ...
    @property
    def policy_params(self) -> Json: ...


def schema_only(candidate: Candidate, params: Json, schema_ok: bool) -> Verdict:
    """`vp.schema_only.v1`: the output fits its schema."""
    return SCHEMA_PASSED if schema_ok else SCHEMA_FAILED


def schema_thresholds(candidate: Candidate, params: Json, schema_ok: bool) -> Verdict:
    """`vp.schema_thresholds.v1`: the kernel's two thresholds, and ours for any other numeric member."""
    codes = [SCHEMA_OK if schema_ok else SCHEMA_INVALID]
    known = params if isinstance(params, dict) else {}
    output = candidate.output
    least, longest = _double(known.get("min_confidence")), _unsigned(known.get("max_len"))
    if least is not None and _confidence(output) < least:
        codes.append(CONFIDENCE_TOO_LOW)
    if longest is not None and _longest_form(output) > longest:
        codes.append(OUTPUT_TOO_LARGE)
    within, unmatched = _within_bounds(output, known)
    if not within:
        codes.append(CUSTOM_ERROR)
    passed = codes == [SCHEMA_OK]
    return Verdict(passed, 1.0 if passed else 0.2, tuple(codes), unmatched)


def crosscheck(candidate: Candidate, params: Json, schema_ok: bool) -> Verdict:
    """`vp.crosscheck.v1`: a check_summary and a least score as the kernel has them, and agreement with peers."""
    codes = [SCHEMA_OK if schema_ok else SCHEMA_INVALID]
    output = candidate.output
    summary = output.get("check_summary") if isinstance(output, dict) else None
    if not isinstance(summary, str) or not summary.strip(WHITE_SPACE):
        codes.append(CHECK_SUMMARY_MISSING)
    score = 0.9 if codes == [SCHEMA_OK] else 0.3  # fixed before the comparison with the least score, as in the kernel
    least = _double(params.get("min_score")) if isinstance(params, dict) else None
    if least is not None and least > score:
        codes.append(SCORE_TOO_LOW)
    if candidate.evidence_inline and disagrees_with_peers(candidate):
        codes.append(CUSTOM_ERROR)
        score = 0.3
    return Verdict(codes == [SCHEMA_OK], score, tuple(codes))


def _double(value: Json) -> float | None:
    """A number as the kernel compares it, or None; a number beyond a double does not count."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        made = float(value)
    except OverflowError:
        return None
    return made if isfinite(made) else None


def _unsigned(value: Json) -> int | None:
    """An unsigned integer of 64 bits, or None; newer kernels count `-0`, older ones do not."""
    if isinstance(value, WrittenFloat) and value.text == "0":
        return 0
    return value if type(value) is int and value >= 0 else None


def _longest_form(output: Json) -> int:
    """Bytes of the output in canonical form; newer and older kernels write numbers differently: the larger counts."""
    size = len(canonical(output))
    if not holds_written(output):
        return size
    try:
        return max(size, len(older_canonical(output)))
    except ValueError:  # a number beyond a double: older kernels cannot hold this output
        return size


def _confidence(output: Json) -> float:
    return _double(output.get("confidence") if isinstance(output, dict) else None) or 0.0


def _within_bounds(output: Json, params: Mapping[str, Json]) -> tuple[bool, tuple[str, ...]]:
    """Whether each `min_<member>`/`max_<member>` holds, and the parameters that match no member."""
    within, unmatched = True, list[str]()
    for name, bound in params.items():
        side, _, member = name.partition("_")
        if name in _KERNEL_THRESHOLDS:
            used = (_double(bound) if side == "min" else _unsigned(bound)) is not None
        else:
            used = side in ("min", "max") and bool(member) and _double(bound) is not None
            if used and not _bounded(output, member, bound, side):
                within = False
        if not used and len(unmatched) < MOST_NOTES:
            unmatched.append(f"unmatched parameter {_shown(name)}")
    return within, tuple(unmatched)


def _bounded(output: Json, member: str, bound: int | float, side: str) -> bool:
    value: Json = output.get(member) if isinstance(output, dict) else None
    if value is None or _double(value) is None:
        return False
    stated, allowed = as_decimal(value), as_decimal(bound)
    return stated >= allowed if side == "min" else stated <= allowed


def _built_in(
    policy_id: str, params: dict[str, str], codes: tuple[int, ...], io_contract: str, evaluate: Any
) -> Policy:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in params.items()}}
    return Policy(policy_id, "1", schema, tuple(sorted((*COMMON_CODES, *codes))), io_contract, evaluate)


BUILT_IN: Final = (
    _built_in("vp.schema_only.v1", {}, (), "validate candidate output against output_schema", schema_only),
    _built_in(
        "vp.schema_thresholds.v1",
        {"min_confidence": "number", "max_len": "integer"},
        (CONFIDENCE_TOO_LOW, OUTPUT_TOO_LARGE),
        "schema + generic thresholds",
        schema_thresholds,
    ),
    _built_in(
        "vp.crosscheck.v1",
        {"min_score": "number"},
        (CHECK_SUMMARY_MISSING, SCORE_TOO_LOW),
        "cross-check output and enforce check_summary",
        crosscheck,
    ),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The policy that a binding names, and the rule that accepted its hash: kernel, extra, docs or lenient."""

    policy: Policy
    rule: str


class BindingRules:
    """The policies, versions and hashes that this deployment accepts."""

    def __init__(
        self,
        mode: PolicyHashMode = "both",
        extra: Mapping[str, set[str]] | None = None,
        own: Iterable[Policy] = (),
    ) -> None:
        self._mode = mode
        self._policies = {policy.policy_id: policy for policy in BUILT_IN}
        for policy in own:
            if policy.policy_id in self._policies:
                raise SettingsError(f"policy {policy.policy_id} is built in; give your own policy another id")
            self._policies[policy.policy_id] = policy
        self._kernel = {policy_id: kernel_policy_hash(policy) for policy_id, policy in self._policies.items()}
        self._extra = extra or {}

    @classmethod
    def of(cls, mode: PolicyHashMode, extra: str, own: Iterable[Policy] = ()) -> Self:
        """Rules from settings; `extra` is a comma list of `policy_id=hash`.

        Raises:
            SettingsError: an entry of the list has no `=`, or an own policy takes a built-in id.
        """
        return cls(mode, _extra_hashes(extra), own)

    def bind(self, binding: Binding) -> Bound:
        """The policy to evaluate.

        Raises:
            PolicyBindingInvalid: its id, version or hash is not accepted, checked in this order.
        """
        policy = self._policies.get(binding.policy_id)
        if policy is None:
            raise _invalid(f"policy {_shown(binding.policy_id)} missing in registry")
        if binding.policy_version != policy.version:
            raise _invalid(f'policy version mismatch, this runtime evaluates version "{policy.version}"')
        rule = self._accepting_rule(binding)
        if rule is None:
            raise _invalid("policy hash mismatch")
        return Bound(policy, rule)

    def _accepting_rule(self, binding: Binding) -> str | None:
        policy_id, received = binding.policy_id, binding.policy_hash
        strict = self._mode == "strict"  # exactly the kernel's rule, which does not accept a prefix
        bare = received if strict else received.removeprefix(PREFIX)
        if bare == self._kernel[policy_id]:
            return "kernel"
        if bare in self._extra.get(policy_id, ()):
            return "extra"
        if not strict and bare in docs_policy_hashes(policy_id, binding.policy_params):
            return "docs"
        return "lenient" if self._mode == "lenient" else None


def _extra_hashes(listed: str) -> dict[str, set[str]]:
    hashes: dict[str, set[str]] = {}
    for entry in filter(None, map(str.strip, listed.split(","))):
        policy_id, _, accepted = entry.partition("=")
        if not policy_id or not accepted:
            raise SettingsError("each extra policy hash must have the form policy_id=hash")
        hashes.setdefault(policy_id, set()).update((accepted, accepted.removeprefix(PREFIX)))
    return hashes


def _invalid(reason: str) -> PolicyBindingInvalid:
    return PolicyBindingInvalid(f"policy binding invalid: {reason}")


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_SHOWN])
