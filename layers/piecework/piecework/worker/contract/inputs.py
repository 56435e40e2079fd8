"""A task's input: the digest that makes two bodies the same one, and its check against the contract (1.2, 1.5)."""

import hashlib
from collections.abc import Sequence
from typing import Final

from piecework.jsons import Json
from piecework.schemas import Problem, SchemaRejected
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.contract.schema import compile_task_schema
from piecework.worker.errors import WorkerError

SHOWN_CHARACTERS: Final = 2_000  # of a path; names are the seeker's own, and may be as long as its body
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
        problem = compile_task_schema(contract.input_schema).problem(body, "input")
    except SchemaRejected as error:
        raise WorkerError("INVALID_INPUT", f"the input could not be checked: {error.message}") from None
    if problem is not None:
        raise WorkerError("INVALID_INPUT", problem.text, details_of(problem, body))


def details_of(problem: Problem, body: Json) -> dict[str, Json]:
    """Where and what: `field` as in `colors[0]`, `path` as a JSON pointer, `expected` and `received` where known.

    `path` is exact for every name; `field` is for people and lies beside names that hold dots or brackets.
    """
    if not problem.keyword or sum(len(str(part)) for part in problem.path) > SHOWN_CHARACTERS:
        return {}
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.path).removeprefix(".")
    return {
        "field": field,
        "path": pointer_to(problem.path),
        "expected": problem.expected,
        "received": _received(body, problem.path),
    }


def pointer_to(path: Sequence[str | int]) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _received(body: Json, path: Sequence[str | int]) -> str:
    value = body
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    return "null" if value is None else _TYPES.get(type(value), "nothing")
