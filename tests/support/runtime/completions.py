"""Tasks, runs and a model made of canned replies, for tests of the completion executor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from piecework.extend.executors import Run, Task
from piecework.models.brain import Brain
from piecework.models.chat import Question, Reply
from piecework.schemas import compile_schema, minimal_ok
from tests.support.runtime.requests import KERNEL_SCHEMA

BRAIN = Brain(
    kind="openai-compatible",
    model="m-1",
    temperature=0.2,
    max_tokens=512,
    call_ms=60_000,
    budget_ms=110_000,
    repairs=3,
    base_url="http://127.0.0.1:9/v1",
    key="k-secret",
)
FITTING = '{"answer":"yes","confidence":0.9}'
GONE_WRONG = '{"reply":"no"}'


def a_task(schema: Any = None, **changed: Any) -> Task:
    """A task of the runtime door whose outputs are checked by the real schema module."""
    wanted = KERNEL_SCHEMA if schema is None else schema
    checker = compile_schema(wanted)

    def problem(output: Any) -> str | None:
        if output is None or not minimal_ok(wanted, output):
            return checker.explain(output) or "the output fails the minimal check"
        return None if checker.is_valid(output) else checker.explain(output)

    task = Task(
        door="runtime",
        caller="alice",
        task_type="swarm",
        prompt="hello",
        inputs={"prompt": "hello"},
        output_schema=wanted,
        task_id="task-1",
        execution_id="exec-1",
        attempt_id="attempt-1",
        deadline_ms=0,
        contract={},
        check=problem,
    )
    return replace(task, **changed)


@dataclass
class HeardLog:
    """Keeps log lines."""

    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info


def KeptSteps() -> Any:  # a class of the product, imported by the tests that need it
    """Steps that a second runner finds again."""
    from piecework.testing import KeptSteps

    return KeptSteps()


@dataclass
class Clock:
    """Milliseconds until the deadline; each call of the model may use some up."""

    left_ms: int = 27_000

    def __call__(self) -> int:
        return self.left_ms


def a_run(clock: Callable[[], int] | None = None, **given: Any) -> Run:
    return Run(remaining_ms=clock or Clock(), **given)


@dataclass
class CannedModel:
    """Answers with texts, replies or errors in turn, the last one for ever; remembers what it was asked."""

    answers: list[str | Reply | Exception]
    asked: list[Question] = field(default_factory=list)
    clock: Clock | None = None
    call_ms: int = 0

    def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        if self.clock is not None:
            self.clock.left_ms -= self.call_ms
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer, input_tokens=10, output_tokens=5)


def settings(url: str, **changed: str) -> Mapping[str, str]:
    """The environment that points the executor at a server, under its reference names."""
    return {
        "WATTETHERIA_BRAIN_PROVIDER_KIND": "openai-compatible",
        "WATTETHERIA_BRAIN_BASE_URL": url,
        "WATTETHERIA_BRAIN_MODEL": "m-1",
        "WATTETHERIA_BRAIN_API_KEY": "k-secret",
        **{f"WATTETHERIA_BRAIN_{name}": value for name, value in changed.items()},
    }
