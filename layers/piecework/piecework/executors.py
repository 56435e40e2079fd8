"""The executor contract: what a task, a run and an outcome are, and how executors are found.

One Python function serves every door. It takes a `Task`, uses its `Run`, and returns an `Outcome`:

    @executor("summarise", task_types=("swarm",), profiles={"default": {}, "fast": {}}, expected_ms=8_000)
    def summarise(task: Task, run: Run) -> Outcome: ...

Failure is `Retryable` (try the same piece again), `Refused` (a permanent answer) or `InputRefused` (the input is at
fault); anything else is a bug and is reported without its text. At the worker door a seeker that has not paid reads the
text of `InputRefused` alone, so that text must speak of the input and never of what was made.

Between `run.step` calls an executor must be deterministic: a step's result is recorded once and replayed when the piece
is taken over, so the same steps must come in the same order with the same names.

At the kernel door this goes for `run.tool` too. A run that reaches an unfinished tool ends there and costs nothing
while it waits; when the tool's result, a person's approval or a denial is there, the executor runs again from its top
and gets what was recorded. So the calls of `run.tool` must come in the same order, to the same tools with the same
arguments: whatever they depend on that may differ next time (a model's answer, the clock, chance, another service)
belongs into a `run.step` before them. A run that calls otherwise than what was recorded fails for good. `run.tool` must
not be called inside a step, nor by several threads or tasks at once.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeVar

from piecework.errors import InputRefused, PolicyDenied, Refused, Retryable, SettingsError, ToolFailed
from piecework.jsons import Json

__all__ = [
    "Artifact",
    "Evidence",
    "Executor",
    "InputRefused",
    "Outcome",
    "PolicyDenied",
    "Refused",
    "Retryable",
    "Run",
    "Steps",
    "Task",
    "ToolFailed",
    "executor",
]

Stage = Literal["explore", "verify", "finalize", "decide", "diverge"]
Settle = Literal["after", "before"]
T = TypeVar("T")

EXPECTED_MS: Final = 8_000  # what a short model call takes; a waiter takes a piece over only with this much time left
MAX_DURATION_MS: Final = 120_000  # four of the kernel's 30 s connections

_inside_a_step: ContextVar[bool] = ContextVar("inside_a_step", default=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Inline evidence: text of a stated media type."""

    mime: str
    content: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes kept beside the answer and referred to by digest; `deliverable` at the worker door."""

    name: str
    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an executor made: the answer, and what it adds to the evidence and artifacts its run collected.

    `is_partial` says that some of what was asked for is missing; the worker door delivers it only under a contract that
    accepts that.
    """

    output: Json
    evidence: Sequence[Evidence] = ()
    deliverables: Sequence[Artifact] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work as its caller asked for it; the same shape at every door."""

    door: Literal["runtime", "worker", "kernel"]
    caller: str
    task_type: str
    prompt: str | None
    inputs: Json
    output_schema: Json
    task_id: str
    execution_id: str
    attempt_id: str
    deadline_ms: int  # epoch ms by which the run must end; a contract's own expiry never sets it
    contract: Mapping[str, Json]
    stage: Stage = "explore"
    raw_stage: str = "explore"
    profile: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)  # the profile's: model, temperature, budgets
    seed: Mapping[str, Json] | None = None
    check: Callable[[Json], str | None] = field(default=lambda _: None, repr=False, compare=False)

    def problem(self, output: Json) -> str | None:
        """Why this output would be refused (schema checks and size), or None when it fits."""
        return self.check(output)


class Steps(Protocol):
    """Remembers the results of named steps of one piece."""

    def replay(self, name: str) -> tuple[Json] | None:
        """The recorded result in a one-tuple, or None when the step has not been recorded."""

    def record(self, name: str, result: Json) -> Json:
        """Record a result once; returns the one that stands (an earlier runner's may)."""


class Log(Protocol):
    """Structured log lines: a constant snake_case event name and fields."""

    def info(self, event: str, /, **fields: Any) -> None: ...

    def warning(self, event: str, /, **fields: Any) -> None: ...


class ForgetfulSteps:
    """Steps that are not recorded, for doors and tests without a ledger."""

    def replay(self, name: str) -> tuple[Json] | None:
        return None

    def record(self, name: str, result: Json) -> Json:
        return result


class SilentLog:
    """A log that keeps nothing."""

    def info(self, event: str, /, **fields: Any) -> None:
        pass

    def warning(self, event: str, /, **fields: Any) -> None:
        pass


def no_tools(tool_id: str, arguments: Mapping[str, Json]) -> Json:
    """Tools exist at the kernel door alone; elsewhere asking for one is a permanent refusal."""
    raise Refused("this door has no tools")


class Run:
    """What an executor may do while it works; evidence and artifacts collect here."""

    def __init__(
        self,
        *,
        remaining_ms: Callable[[], int],
        steps: Steps | None = None,
        log: Log | None = None,
        on_progress: Callable[[float, str], None] = lambda pct, text: None,
        on_item: Callable[[Json, Sequence[Artifact]], None] = lambda part, artifacts: None,
        on_delta: Callable[[str], None] = lambda text: None,
        call_tool: Callable[[str, Mapping[str, Json]], Json] = no_tools,
        trace_id: str | None = None,
    ) -> None:
        self._remaining_ms = remaining_ms
        self._steps: Steps = steps or ForgetfulSteps()
        self._on_progress = on_progress
        self._on_item = on_item
        self._on_delta = on_delta
        self._call_tool = call_tool
        self.log: Log = log or SilentLog()
        self.trace_id = trace_id
        self.facts: dict[str, int | float | str] = {}
        self.collected_evidence: list[Evidence] = []
        self.collected_artifacts: list[Artifact] = []

    def remaining_ms(self) -> int:
        """Milliseconds until the deadline; never negative."""
        return max(0, self._remaining_ms())

    def progress(self, pct: float, text: str = "") -> None:
        """Tell a listening caller how far the work is, 0 to 100; a hint that may be lost."""
        self._on_progress(pct, text)

    def item(self, part: Artifact | Json) -> None:
        """Tell a listening caller of a finished part of the output before the end; a hint that may be lost.

        An `Artifact` is attached, as by `artifact`. A text or another JSON value is only told: what is delivered is the
        outcome's output.
        """
        if isinstance(part, Artifact):
            self.artifact(part.name, part.data, part.mime)
        self._on_item(part, self.collected_artifacts)

    def delta(self, text: str) -> None:
        """Tell a listening caller the next piece of the text that will be the output; a hint that may be lost."""
        if not isinstance(text, str):
            raise TypeError("a delta must be text")
        self._on_delta(text)

    def evidence(self, content: str, mime: str = "text/plain") -> None:
        """Attach inline evidence; the door drops or shortens what its protocol would refuse."""
        if not isinstance(content, str):
            raise TypeError("evidence must be text")
        self.collected_evidence.append(Evidence(mime, content))

    def artifact(self, name: str, data: bytes, mime: str = "application/octet-stream") -> None:
        """Attach bytes that the caller can fetch by digest."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError("an artifact must be bytes")
        self.collected_artifacts.append(Artifact(name, bytes(data), mime))

    def note(self, **facts: int | float | str) -> None:
        """Add figures to this piece's outcome line, such as token counts; never texts of the task."""
        self.facts.update(facts)

    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Run `fn` once per piece and name; a later runner gets the recorded JSON result instead.

        For a coroutine function it returns an awaitable of the result.
        """
        if inspect.iscoroutinefunction(fn):
            return self._step_async(name, fn)
        recorded = self._steps.replay(name)
        if recorded:
            return recorded[0]
        with _in_a_step():
            result = fn()
        return self._steps.record(name, result)

    async def _step_async(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        recorded = self._steps.replay(name)
        if recorded:
            return recorded[0]
        with _in_a_step():
            result = await fn()
        return self._steps.record(name, result)

    def tool(self, tool_id: str, arguments: Mapping[str, Json] | None = None) -> Json:
        """Call a tool under the kernel door's policy, approvals and runners; see the determinism rule above.

        Raises:
            PolicyDenied: the policy or a person says no.
            ToolFailed: the tool was called and failed.
            Refused: this door has no tools, or the call stands inside a step.
        """
        if _inside_a_step.get():
            raise Refused("run.tool cannot be called inside run.step: a recorded step would skip the call")
        return self._call_tool(tool_id, arguments or {})


@contextmanager
def _in_a_step() -> Iterator[None]:
    token = _inside_a_step.set(True)
    try:
        yield
    finally:
        _inside_a_step.reset(token)


ExecutorFunction = Callable[[Task, Run], Outcome | Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Executor:
    """A registered function with what it advertises and allows."""

    name: str
    function: ExecutorFunction
    task_types: tuple[str, ...]
    profiles: Mapping[str, Mapping[str, Any]]
    expected_ms: int
    max_duration_ms: int
    settle: Settle
    long: bool
    needs_tools: bool = False

    def settings_of(self, profile: str) -> Mapping[str, Any]:
        """The profile's settings, or the default profile's when this executor has no such profile."""
        return self.profiles.get(profile, self.profiles["default"])

    def __call__(self, task: Task, run: Run) -> Outcome:
        """Run the function to its end, plain or async.

        Raises:
            Retryable: an async executor passed its deadline.
        """
        made = self.function(task, run)
        outcome = _finish(made, run) if inspect.isawaitable(made) else made
        if not isinstance(outcome, Outcome):
            raise TypeError(f"executor {self.name} returned {type(outcome).__name__}, not Outcome")
        return outcome


def _finish(made: Awaitable[Outcome], run: Run) -> Outcome:
    import asyncio  # costs a plain executor's cold start 30 ms

    async def in_time() -> Outcome:
        async with asyncio.timeout(run.remaining_ms() / 1000):
            return await made

    try:
        return asyncio.run(in_time())
    except TimeoutError:
        raise Retryable("the executor did not finish in its time") from None


_registered: dict[str, Executor] = {}


def executor(
    name: str,
    *,
    task_types: Sequence[str] = ("swarm",),
    profiles: Mapping[str, Mapping[str, Any]] | None = None,
    expected_ms: int = EXPECTED_MS,
    max_duration_ms: int = MAX_DURATION_MS,
    settle: Settle = "after",
    long: bool = False,
    needs_tools: bool = False,
) -> Callable[[ExecutorFunction], ExecutorFunction]:
    """Register a function as the executor `name`; the function itself stays callable.

    One that `needs_tools` is served at the kernel door alone, where `run.tool` exists; the others do not list it.

    Raises:
        SettingsError: the name is taken by another function, or there is no `default` profile.
    """
    offered = {key: MappingProxyType(dict(value)) for key, value in (profiles or {"default": {}}).items()}
    if "default" not in offered:
        raise SettingsError(f"executor {name} needs a profile named default")

    def register(function: ExecutorFunction) -> ExecutorFunction:
        taken = _registered.get(name)
        if taken is not None and taken.function.__module__ != function.__module__:
            raise SettingsError(f"two executors are named {name}")
        made = Executor(
            name,
            function,
            tuple(task_types),
            MappingProxyType(offered),
            expected_ms,
            max_duration_ms,
            settle,
            long,
            needs_tools,
        )
        _registered[name] = made
        return function

    return register


def registered() -> Mapping[str, Executor]:
    """All executors whose modules have been imported, by name."""
    return MappingProxyType(_registered)
