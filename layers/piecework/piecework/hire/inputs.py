"""A task's input: the digest that makes two bodies the same one, and its check against the contract (1.2, 1.5)."""

import hashlib
import re
from typing import Any, Final

from piecework.hire.contract_schema import compile_task_schema
from piecework.hire.contracts import ContractRecord
from piecework.hire.errors import WorkerError
from piecework.jsons import Json
from piecework.schemas import SchemaRejected

_START: Final = "output"  # what the shared checker calls the value it looks at
_PROBLEM: Final = re.compile(r"output((?:\.[^.\[\]\s]+|\[[0-9]+\])*) (.*)", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_MISSING: Final = re.compile(r'lacks the required member "([^"]+)"')
_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def body_digest(body: Json, raw: bytes) -> str:
    """SHA-256 of the input's RFC 8785 form, so that the order of keys does not count; else of its bytes."""
    import rfc8785

    try:
        form = rfc8785.dumps(body)
    except rfc8785.CanonicalizationError:
        form = raw
    return hashlib.sha256(form).hexdigest()


def check_input(contract: ContractRecord, body: Json) -> None:
    """Pass if the contract's schema takes this input.

    Raises:
        WorkerError: INVALID_INPUT, with the place in `details`.
    """
    try:
        problem = compile_task_schema(contract.input_schema).explain(body)
    except SchemaRejected as error:
        raise WorkerError("INVALID_INPUT", f"the input could not be checked: {error.message}") from None
    if problem is not None:
        raise WorkerError("INVALID_INPUT", problem.replace(_START, "input", 1), details_of(problem, body))


def details_of(problem: str, body: Json) -> dict[str, Json]:
    """Where and what: `field` as in `colors[0]`, `path` as a JSON pointer, `expected` and `received` where known."""
    found = _PROBLEM.fullmatch(problem)
    if not found:
        return {}
    steps: list[str | int] = [name or int(index) for name, index in _STEP.findall(found[1])]
    complaint, missing = found[2], _MISSING.fullmatch(found[2])
    if missing:
        steps, complaint = [*steps, missing[1]], "a value"
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
    expected = complaint.removeprefix("is not of type ").removeprefix("does not satisfy ")
    return {"field": field, "path": pointer, "expected": expected, "received": _received(body, steps)}


def _received(body: Any, steps: list[str | int]) -> str:
    value = body
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    return "null" if value is None else _TYPES.get(type(value), "nothing")
