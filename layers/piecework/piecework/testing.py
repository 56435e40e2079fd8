"""Tests of your own executors: one call runs an executor as the runtime door would, without a door.

    ran = run_executor(shout, prompt="hello", profile="loud")
    assert ran.output == {"answer": "HELLO!!!"}

Limits, JSON, the count of steps and the check of the output are those of production. Steps are kept in memory, so a
test can run the executor again as a run that takes over:

    steps = KeptSteps()
    with pytest.raises(Retryable):
        run_executor(summarise, prompt="a long text", steps=steps)  # dies after its first step
    run_executor(summarise, prompt="a long text", steps=steps)  # gets that step's result
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from piecework.errors import NoValidOutput, SettingsError
from piecework.extend.executors import Artifact, Evidence, Executor, ExecutorFunction, Step, Steps, registered
from piecework.extend.runs import Run, no_tools
from piecework.jsons import Json
from piecework.runtime.execute.flow import Order, fingerprint_of, task_of
from piecework.runtime.execute.messages import read_contract, read_request
from piecework.schemas import compile_schema
from piecework.values import dataclass, field

Tool = Callable[[Mapping[str, Json]], Json]


class KeptSteps(Steps):
    """Steps in memory; the first result of a step stays."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, ...], bytes] = {}
        self._lock = threading.Lock()

    def replay(self, step: Step) -> bytes | None:
        return self._results.get(step.parts)

    def record(self, step: Step, result: bytes) -> bytes:
        with self._lock:
            return self._results.setdefault(step.parts, result)


@dataclass(slots=True)
class Ran:
    """The result of one run as callers would see it: the output after JSON, evidence and artifacts in their order."""

    output: Json = None
    is_partial: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    progress: list[tuple[float, str]] = field(default_factory=list)  # per cent and text
    items: list[Json | Artifact] = field(default_factory=list)
    text: str = ""  # of all deltas
    facts: Mapping[str, int | float | str] = field(default_factory=dict)  # of `run.note`


def run_executor(
    function: ExecutorFunction,
    prompt: str | None = None,
    *,
    inputs: Mapping[str, Json] | None = None,
    output_schema: Mapping[str, Json] | None = None,
    profile: str = "default",
    steps: Steps | None = None,
    tools: Mapping[str, Tool] | None = None,
    remaining_ms: int | None = None,
) -> Ran:
    """Run a function that `@executor` registered; `inputs` are added to the prompt, `tools` answer `run.tool` by id.

    Raises:
        NoValidOutput: the output does not fit `output_schema`, or is not JSON that all readers read alike.
        SettingsError: the function is not registered as an executor.
        PieceworkError: the executor's own failure; any other exception is the executor's bug and is not changed.
    """
    executor, ran = _executor_of(function), Ran()
    asked = {**(inputs or {}), **({} if prompt is None else {"prompt": prompt})}
    order = _order(executor, asked, output_schema or {}, profile)
    run = _run(ran, steps or KeptSteps(), tools, executor.max_duration_ms if remaining_ms is None else remaining_ms)
    outcome = executor(task_of(order, int(time.time() * 1000) + run.remaining_ms()), run)
    ran.output, problem, _ = order.judge(outcome.output)
    if problem is not None:
        raise NoValidOutput(f"no output that fits output_schema: {problem}")
    ran.is_partial, ran.facts = outcome.is_partial, run.facts
    ran.evidence = [*run.collected_evidence, *outcome.evidence]
    ran.artifacts = [*run.collected_artifacts, *outcome.deliverables]
    return ran


def _executor_of(function: ExecutorFunction) -> Executor:
    for executor in registered().values():
        if executor.function is function:
            return executor
    raise SettingsError("the function is not an executor; put @executor(...) above it")


def _order(executor: Executor, inputs: Json, output_schema: Mapping[str, Json], profile: str) -> Order:
    """A request of the runtime door for this executor."""
    body: dict[str, Json] = {
        "task_id": "task-test",
        "execution_id": "execution-test",
        "attempt_id": "attempt-test",
        "task_type": next(iter(executor.task_types), executor.name),
        "inputs": inputs,
        "profile": profile,
        "stage": "explore",
        "task_contract": {"output_schema": output_schema, "inputs": inputs},
    }
    request = read_request(body)
    contract = read_contract(request.task_contract)
    return Order(request, contract, compile_schema(output_schema), executor, "test", fingerprint_of(body))


def _run(ran: Ran, steps: Steps, tools: Mapping[str, Tool] | None, remaining_ms: int) -> Run:
    ends = time.monotonic() + remaining_ms / 1000

    def item(part: Json | Artifact, _artifacts: Sequence[Artifact]) -> None:
        ran.items.append(part)

    def delta(text: str) -> None:
        ran.text += text

    return Run(
        remaining_ms=lambda: int((ends - time.monotonic()) * 1000),
        steps=steps,
        on_progress=lambda pct, text: ran.progress.append((pct, text)),
        on_item=item,
        on_delta=delta,
        call_tool=no_tools if tools is None else lambda tool_id, arguments: _called(tools, tool_id, arguments),
    )


def _called(tools: Mapping[str, Tool], tool_id: str, arguments: Mapping[str, Json]) -> Json:
    if tool_id not in tools:
        return no_tools(tool_id, arguments)
    return tools[tool_id](arguments)
