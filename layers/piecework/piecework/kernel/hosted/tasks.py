"""What a hosted executor is asked: the execution's input and labels as a task, and what its output must be.

| of the execution | in the task |
|---|---|
| `input`, as it is | `inputs` |
| `input.prompt`, or an input that is a text | `prompt` |
| `input.output_schema`, an object | `output_schema`; an output that does not fit fails the execution |
| `labels.profile`, if the executor has it | `profile`, and the profile's settings; else `default` |
| labels | `contract["labels"]` |
| id | `task_id`, `execution_id` and `attempt_id`: the same in every run |
"""

from typing import Final

from piecework.extend.executors import Executor, Task
from piecework.jsons import Json, canonical
from piecework.kernel.hosted.lasting import CALLER
from piecework.kernel.model.ports.executions import Details
from piecework.kernel.model.timers import ends_at
from piecework.kernel.settings import KernelSettings
from piecework.schemas import SchemaRejected, compile_schema

OUTPUT_BYTES: Final = 1_048_576  # as much as a connected agent could send
MARGIN_MS: Final = 5_000  # of the function's time, for recording the end


def task_of(view: Details, executor: Executor, ends_ms: int) -> Task:
    """The task that an execution is for its executor."""
    given, labels = view.input, dict(view.execution.labels)
    members = given if isinstance(given, dict) else {"prompt": given}
    prompt, schema = members.get("prompt"), members.get("output_schema")
    profile = labels.get("profile", "default")
    if profile not in executor.profiles:
        profile = "default"
    schema = schema if isinstance(schema, dict) else {}
    return Task(
        door="kernel",
        caller=CALLER,
        task_type=next(iter(executor.task_types), executor.name),
        prompt=prompt if isinstance(prompt, str) else None,
        inputs=given,
        output_schema=schema,
        task_id=view.execution.id,
        execution_id=view.execution.id,
        attempt_id=view.execution.id,
        deadline_ms=ends_ms,
        contract={"labels": labels},
        profile=profile,
        settings=executor.settings_of(profile),
        check=lambda output: schema_problem(schema, output),
    )


def deadline_ms(view: Details, executor: Executor, settings: KernelSettings, now_ms: int, until_ms: int) -> int:
    """When a run must have ended: by its function's time, its executor's, and the execution's."""
    return min(until_ms - MARGIN_MS, now_ms + executor.max_duration_ms, ends_at(view.execution, settings))


def output_problem(task: Task, output: Json) -> str | None:
    """Why an output cannot be recorded, or None."""
    try:
        size = len(canonical(output))
    except ValueError:
        return "the executor's output is not a JSON value"
    if size > OUTPUT_BYTES:
        return f"the executor's output is larger than {OUTPUT_BYTES} bytes"
    problem = task.problem(output)
    return None if problem is None else f"the output does not fit its schema: {problem}"


def schema_problem(schema: Json, output: Json) -> str | None:
    """Why an output does not fit a schema, or None."""
    if not schema:
        return None
    try:
        return compile_schema(schema).explain(output)
    except SchemaRejected as error:
        return f"it could not be checked: {error.message}"
