"""The members of POST /execute that we use (runtime specification 2.2 to 2.4), read without pydantic if all is well.

`models` is the authority. It is imported only for a request that does not look right at once; it then decides and names
the members to change. A test checks that both readings agree.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from piecework.jsons import U64_MAX, Json
from piecework.runtime.execute.defaults import INLINE_EVIDENCE_BYTES, MIMES
from piecework.values import dataclass

IDS: Final = (
    "task_id",
    "execution_id",
    "attempt_id",
)  # together they name a piece, so an empty one would name many pieces
TEXTS: Final = (*IDS, "task_type", "profile", "stage")


@dataclass(frozen=True, slots=True)
class EvidencePolicy:
    """The inline evidence that the contract admits."""

    max_inline_evidence_bytes: int = INLINE_EVIDENCE_BYTES
    inline_mime_allowlist: Sequence[str] = MIMES


@dataclass(frozen=True, slots=True)
class Contract:
    """The members of a TaskContract that shape an answer."""

    output_schema: Json
    evidence_policy: EvidencePolicy
    verify_cost_units: int | None


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """POST /execute; `task_contract` is the whole contract, unchanged."""

    task_id: str
    execution_id: str
    task_type: str
    inputs: Json
    profile: str
    task_contract: dict[str, Json]
    stage: str
    attempt_id: str
    seed_bundle: dict[str, Json] | None


def read_request(body: dict[str, Json]) -> ExecuteRequest:
    """Read an ExecuteRequest from parsed JSON.

    Raises:
        Unprocessable: members are missing or of the wrong type; the message names them, never their values.
    """
    source: Any = body.get
    if not _is_request(body):
        source = _explained("ExecuteRequest", body)
    return ExecuteRequest(
        *(source("task_id"), source("execution_id"), source("task_type"), source("inputs"), source("profile")),
        *(source("task_contract"), source("stage"), source("attempt_id"), source("seed_bundle")),
    )


def read_contract(contract: dict[str, Json]) -> Contract:
    """Read the members of a TaskContract that shape an answer.

    Raises:
        Unprocessable: members are missing or of the wrong type; the message names them, never their values.
    """
    if not _is_contract(contract):
        _explained("Contract", contract, under="task_contract")
    policy: Mapping[str, Json] = contract.get("evidence_policy", {})
    return Contract(
        contract["output_schema"],
        EvidencePolicy(
            policy.get("max_inline_evidence_bytes", INLINE_EVIDENCE_BYTES),
            policy.get("inline_mime_allowlist", MIMES),
        ),
        contract.get("budget", {}).get("verify_cost_units"),
    )


def _is_request(body: Mapping[str, Json]) -> bool:
    texts = all(type(body.get(name)) is str for name in TEXTS)
    seed = body.get("seed_bundle")
    parts = type(body.get("task_contract")) is dict and (seed is None or type(seed) is dict)
    return texts and all(body[name] for name in IDS) and parts and "inputs" in body


def _is_contract(contract: Mapping[str, Json]) -> bool:
    policy, budget = contract.get("evidence_policy", {}), contract.get("budget", {})
    if "output_schema" not in contract or type(policy) is not dict or type(budget) is not dict:
        return False
    mimes, units = policy.get("inline_mime_allowlist", []), budget.get("verify_cost_units")
    return (
        _is_count(policy.get("max_inline_evidence_bytes", 0))
        and (units is None or _is_count(units))
        and type(mimes) is list
        and all(type(mime) is str for mime in mimes)
    )


def _is_count(value: Json) -> bool:
    return type(value) is int and 0 <= value <= U64_MAX


def _explained(model: str, value: dict[str, Json], under: str = "") -> Any:
    """Read a value that did not look right by the models, which raise or return it."""
    from piecework.runtime.execute import models
    from piecework.runtime.messages import parse

    message = parse(getattr(models, model), value, under)
    return lambda name: getattr(message, name)
