"""From a model's text to an output that fits: the readings that are tried before the model is asked again."""

from collections.abc import Iterator
from typing import Final

from piecework.errors import BadRequest
from piecework.extend.executors import Task
from piecework.extend.outgoing import Unsendable, sendable
from piecework.jsons import Json, loads_exact
from piecework.models.chat import Reply
from piecework.models.documents import documents
from piecework.models.thoughts import after_thoughts
from piecework.values import dataclass

NOT_JSON: Final = "it is not a JSON document"
CUT: Final = "it was cut off before its end; write a shorter one"
REFERENCE_CONFIDENCE: Final = 0.93  # the reference's value for an answer that is only text (specification 2.5)
WHOLE_DOUBLES: Final = 2.0**53  # below this a double without a fraction is an integer

_FENCE: Final = "```"
_BRACKETS: Final = ("{", "[")


@dataclass(frozen=True, slots=True)
class Fit:
    """An output that fits, or the reason why the reply does not."""

    output: Json
    problem: str | None


def read_answer(task: Task, reply: Reply) -> Fit:
    """The first reading of the reply that fits the task; else the most useful problem.

    A reply that is cut off is not read, because its documents may be drafts.
    """
    if reply.is_cut:
        return Fit(None, CUT)
    problem = None
    for reading in _candidates(task, after_thoughts(reply.text)):
        try:
            candidate, _ = sendable(reading)  # its exact numbers, not the nearest doubles
        except Unsendable as reason:
            problem = problem or str(reason)
            continue
        for output in (candidate, whole_numbers(candidate)):
            found = task.problem(output)
            if found is None:
                return Fit(output, None)
            problem = problem or found
    return Fit(None, problem or NOT_JSON)


def whole_numbers(value: Json) -> Json:
    """The value with `3.0` written as `3`, which the kernel counts as an integer."""
    if isinstance(value, dict):
        return {name: whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE_DOUBLES:
        return int(value)
    return value


def _candidates(task: Task, text: str) -> Iterator[Json]:
    """Readings of an answer: the whole text, its documents and its fences (the last ones first), then its prose."""
    yield from _readings(text)
    found = [document.value for document in documents(text)]
    yield from reversed(found)
    for block in _fenced(text):
        yield from _readings(block)
    if text and not found and not any(bracket in text for bracket in _BRACKETS):
        yield _reference_output(task, text)
        yield text


def _readings(text: str) -> Iterator[Json]:
    """A text as one JSON document; if that is a string, also the document inside the string."""
    try:
        value = loads_exact(text)
        yield value
        while isinstance(value, str):
            value = loads_exact(value)
            yield value
    except BadRequest:
        return


def _fenced(text: str) -> list[str]:
    """The texts in Markdown fences, the last first, without the language name behind an opening mark."""
    blocks = text.split(_FENCE)[1::2]
    return [block.partition("\n")[2].strip() for block in reversed(blocks)]


def _reference_output(task: Task, text: str) -> Json:
    """Prose as the reference answers it: the text in `answer`, with the two other members if the schema names them."""
    schema = task.output_schema if isinstance(task.output_schema, dict) else {}
    named = schema.get("properties")
    summary = f"stage={task.raw_stage} attempt={task.attempt_id}"
    members = {"confidence": REFERENCE_CONFIDENCE, "check_summary": summary}
    return {"answer": text} | {name: members[name] for name in members if isinstance(named, dict) and name in named}
