"""What an executor made, as HIRE's output object, checked against the contract's schema (specification 1.6).

The stored form is that of the answer, except that a file carries its `key`: links are signed for each answer anew.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from piecework.extend.executors import Artifact
from piecework.extend.outgoing import Unsendable, sendable
from piecework.jsons import Json, canonical
from piecework.schemas import Problem, SchemaRejected
from piecework.values import dataclass, field
from piecework.worker.answer.deliverables import FILE_LIMIT, MOST_FILES, StoredFile
from piecework.worker.contract.inputs import pointer_to
from piecework.worker.contract.schema import compile_task_schema

INLINE_BYTES: Final = 1_048_576
MOST_ITEMS: Final = 100
ANYTHING: Final[tuple[Json, ...]] = ({}, True)


class OutputRefused(Exception):
    """The output breaks the contract's schema or the limits; the text says where, never what, and is for the log."""

    def __init__(self, text: str, problem: Problem | None = None) -> None:
        super().__init__(text)
        self.facts = {"path": pointer_to(problem.path), "keyword": problem.keyword} if problem else {}


@dataclass(frozen=True, slots=True)
class Output:
    """A checked output: the files to store, and the content beside them, if any."""

    files: Sequence[Artifact]
    content: Mapping[str, Json] | None = field(default=None, repr=False)

    def stored(self, files: Sequence[StoredFile]) -> dict[str, Json]:
        """The output object with its files in their places."""
        items = [file.as_item() for file in files] + ([dict(self.content)] if self.content else [])
        return items[0] if len(items) == 1 else {"type": "multiple", "items": items}


def output_of(made: Json, files: Sequence[Artifact], schema: Json, inline_bytes: int = INLINE_BYTES) -> Output:
    """The output object of what was made.

    Raises:
        OutputRefused: it must not be delivered.
    """
    if any(len(file.data) > FILE_LIMIT for file in files) or len(files) > MOST_FILES:
        raise OutputRefused(f"more than {MOST_FILES} files, or one over {FILE_LIMIT} bytes")
    content = _plain(made)
    if content is None and files:
        if schema not in ANYTHING:
            raise OutputRefused("output is files alone, which no schema can describe")
        return Output(files)
    _check(content, schema)
    is_text = isinstance(content, str) and (not files or schema in ANYTHING)
    raw = content.encode("utf-8") if is_text else canonical(content)
    if len(raw) > inline_bytes:
        return _limited(Output([*files, _as_file(raw, is_text)]))
    return _limited(Output(files, {"type": "text" if is_text else "json", "content": content}))


def problem_of(content: Json, schema: Json) -> str | None:
    """Why this content cannot be delivered under the contract's schema, or None."""
    try:
        return compile_task_schema(schema).explain(sendable(content)[0])
    except Unsendable as reason:
        return str(reason)
    except SchemaRejected as error:
        return f"output could not be checked: {error.message}"


def _check(content: Json, schema: Json) -> None:
    try:
        problem = compile_task_schema(schema).problem(content)
    except SchemaRejected as error:
        raise OutputRefused(f"output could not be checked: {error.message}") from None
    if problem is not None:
        raise OutputRefused(problem.text, problem)


def items_of(output: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The items of an output object, itself if it is not a `multiple`."""
    return list(output["items"]) if output["type"] == "multiple" else [dict(output)]


def _as_file(raw: bytes, is_text: bool) -> Artifact:
    if is_text:
        return Artifact("output.txt", raw, "text/plain; charset=utf-8")
    return Artifact("output.json", raw, "application/json")


def _limited(output: Output) -> Output:
    if len(output.files) + (output.content is not None) > MOST_ITEMS:
        raise OutputRefused(f"more than {MOST_ITEMS} items")
    return output


def _plain(made: Json) -> Json:
    """The value as it will be read back: tuples become lists."""
    try:
        return sendable(made)[0]
    except Unsendable as reason:
        raise OutputRefused(str(reason).removeprefix("the ")) from None
