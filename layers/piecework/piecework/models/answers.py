"""From a model's text to an output that fits: what is tried before the model is asked again."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from piecework.errors import BadRequest
from piecework.executors import Task
from piecework.jsons import Json, loads
from piecework.models.chat import Reply

NOT_JSON: Final = "it is not one JSON document"
CUT: Final = "it is cut off before its end; write a shorter one"
REFERENCE_CONFIDENCE: Final = 0.93  # what the reference states for an answer that is only text (specification 2.5)
WHOLE_DOUBLES: Final = 2.0**53  # below this a double without a fraction is an integer

_THOUGHTS: Final = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE: Final = "```"
_STARTS: Final = ("{", "[")


@dataclass(frozen=True, slots=True)
class Fit:
    """An output that fits, or why none does."""

    output: Json
    problem: str | None


def read_answer(task: Task, reply: Reply) -> Fit:
    """The first reading of the reply that fits the task; else the most telling problem."""
    problem = None
    for candidate in _candidates(task, reply.text):
        for output in (candidate, whole_numbers(candidate)):
            found = task.problem(output)
            if found is None:
                return Fit(output, None)
            problem = problem or found
    return Fit(None, CUT if reply.is_cut else problem or NOT_JSON)


def whole_numbers(value: Json) -> Json:
    """The value with `3.0` written as `3`, which is what the kernel takes for an integer."""
    if isinstance(value, dict):
        return {name: whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE_DOUBLES:
        return int(value)
    return value


def _candidates(task: Task, text: str) -> Iterator[Json]:
    """Readings of the text: as JSON, as a fenced block, as JSON inside prose, and, of prose alone, the text itself."""
    bare = _THOUGHTS.sub("", text).strip()
    start = min((at for mark in _STARTS if (at := bare.find(mark)) >= 0), default=len(bare))
    end = max(bare.rfind("}"), bare.rfind("]")) + 1
    for part in (bare, _fenced(bare), bare[start:end]):
        try:
            yield loads(part)
        except BadRequest:
            continue
    if bare and start == len(bare):
        yield _reference_output(task, bare)
        yield bare


def _fenced(text: str) -> str:
    """What stands in the first Markdown fence; empty when there is none."""
    _, _, after = text.partition(_FENCE)
    _, _, block = after.partition("\n")
    return block.partition(_FENCE)[0]


def _reference_output(task: Task, text: str) -> Json:
    """Prose as the reference answers it: the text in `answer`, and the two members beside it where they are named."""
    schema = task.output_schema if isinstance(task.output_schema, dict) else {}
    named = schema.get("properties")
    summary = f"stage={task.raw_stage} attempt={task.attempt_id}"
    members = {"confidence": REFERENCE_CONFIDENCE, "check_summary": summary}
    return {"answer": text} | {name: members[name] for name in members if isinstance(named, dict) and name in named}
