"""The default executor: deterministic, offline, and able to answer any schema for which it finds a value.

Ordinary schemas get the reference answer: `<profile>::<prompt>`, a confidence, a check summary, and a decision if the
schema allows one (a kernel repeats a round without decisions). Other schemas get a filled, typed value.
"""

import re
from collections.abc import Iterator
from typing import Final

from piecework.executors import Outcome, Refused, Run, Task, executor
from piecework.jsons import Json, canonical
from piecework.schemas import SchemaRejected

CONFIDENCE: Final = 0.93
DECISION: Final = "ACCEPT"
MAX_PROMPT_BYTES: Final = 48_000  # of the prompt as JSON; a whole output may have 65,536
PROFILE_MARK: Final = re.compile(r"([A-Za-z0-9_.-]+)::")  # the beginning of each of our answers
UNFIT: Final = "this executor did not find an output that fits the schema; one may still exist"


@executor("echo", task_types=("swarm", "a2a_invoke"), profiles={"default": {}, "fast": {}}, expected_ms=500)
def echo(task: Task, run: Run) -> Outcome:
    """Answer with the prompt, in the form that the schema requires.

    Raises:
        Refused: a value that fits the schema was not found.
    """
    answer = _answer(task)
    try:
        output = _output(task, answer)
    except SchemaRejected as error:
        raise Refused(f"{UNFIT}: {error}") from None
    named = output.get("answer") if isinstance(output, dict) else None
    record = f"{task.task_id}|{task.execution_id}|{named if isinstance(named, str) else answer}"
    run.evidence(f"trace:{task.attempt_id}")
    run.artifact("answer", record.encode("utf-8"), "application/json")
    return Outcome(output=output)


def _answer(task: Task) -> str:
    prompt = _cut(task.prompt) if task.prompt is not None else "no-prompt"
    return f"{task.profile}::{prompt}" + ("::diverged" if task.stage == "diverge" else "")


def _cut(text: str) -> str:
    while (size := len(canonical(text))) > MAX_PROMPT_BYTES:
        text = text[: len(text) * MAX_PROMPT_BYTES // size]
    return text


def _output(task: Task, answer: str) -> Json:
    for candidate in (*_earlier_answers(task), *_reference_answers(task, answer)):
        if task.problem(candidate) is None:
            return candidate
    return _filled(task, answer)


def _filled(task: Task, answer: str) -> Json:
    from piecework.samples import ANY_TEXT, CannotFill, fill  # an ordinary schema does without it

    hints = {**_reference(task, answer), ANY_TEXT: answer.partition("::")[2]}
    try:
        filled = fill(task.output_schema, hints)
    except CannotFill as error:
        raise Refused(f"{UNFIT}: {error}") from None
    problem = task.problem(filled)
    if problem is not None:
        raise Refused(f"{UNFIT}: {problem}")
    return filled


def _earlier_answers(task: Task) -> Iterator[Json]:
    """At the decide stage, the answers that won before on exactly this task, unless another profile made them."""
    hits = task.seed.get("hits") if task.stage == "decide" and task.seed else None
    for hit in hits if isinstance(hits, list) else []:
        earlier = hit.get("reuse_payload") if isinstance(hit, dict) and hit.get("hit_type") == "Exact" else None
        if earlier is not None and not _is_of_another_profile(earlier, task.profile):
            yield earlier


def _is_of_another_profile(earlier: Json, profile: str) -> bool:
    """Whether an answer begins with another profile's name; a kernel offers a task's answers under any profile."""
    answer = earlier.get("answer") if isinstance(earlier, dict) else earlier
    named = PROFILE_MARK.match(answer) if isinstance(answer, str) else None
    return named is not None and named[1] != profile


def _reference_answers(task: Task, answer: str) -> Iterator[dict[str, Json]]:
    """The reference answer, then the same without members that a closed schema does not name."""
    whole = _reference(task, answer)
    named = task.output_schema.get("properties") if isinstance(task.output_schema, dict) else None
    for dropped in ((), ("decision",), ("check_summary",), ("decision", "check_summary")):
        if not (isinstance(named, dict) and any(name in named for name in dropped)):
            yield {name: value for name, value in whole.items() if name not in dropped}


def _reference(task: Task, answer: str) -> dict[str, Json]:
    return {
        "answer": answer,
        "confidence": CONFIDENCE,
        "check_summary": f"stage={task.raw_stage.lower()} attempt={task.attempt_id}",
        "decision": DECISION,
    }
