"""Runs: what an executor may do while it works, the same at every door and in tests of an executor alone.

A `Run` bounds what its executor makes, checks its right before each step and effect, and counts the uses of each name,
so that a name used twice is two steps. Doors differ in where they store steps, in how they pass hints on, and in tools.
"""

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import FunctionType
from typing import Any, Final, NamedTuple, Protocol

from piecework.errors import PieceworkError, Refused
from piecework.extend import bounds
from piecework.extend.right import Right, Unleased
from piecework.jsons import Json, loads_exact
from piecework.values import dataclass

COROUTINE: Final = 0x80  # the flag of an `async def`
_inside: ContextVar["tuple[str, ...]"] = ContextVar("inside", default=())  # the parts of the enclosing step


@dataclass(frozen=True, slots=True)
class Evidence:
    """Inline evidence: text of a stated media type."""

    mime: str
    content: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes stored beside the answer and referred to by digest; a deliverable at the worker door."""

    name: str
    data: bytes
    mime: str


class Step(NamedTuple):
    """One step of a run: its name, its place among the uses of that name, and the enclosing step's parts if any."""

    name: str
    place: int = 1
    within: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """What identifies the step: one text for the first use of a name, two for a later use."""
        if not self.within:
            return (self.name,) if self.place == 1 else (self.name, str(self.place))
        return self.path

    @property
    def path(self) -> tuple[str, ...]:
        """Names and places from the outermost step inwards; a step inside another one has at least four parts."""
        return (*self.within, self.name, str(self.place))


class Steps(Protocol):
    """Stores the step results of one piece as JSON bytes."""

    def replay(self, step: Step) -> bytes | None:
        """The recorded result, or None when the step has not been recorded."""

    def record(self, step: Step, result: bytes) -> bytes:
        """Record a result once; returns the recorded one, which may be an earlier runner's."""


class Log(Protocol):
    """Structured log lines: a constant snake_case event name and fields."""

    def info(self, event: str, /, **fields: Any) -> None: ...

    def warning(self, event: str, /, **fields: Any) -> None: ...


class ForgetfulSteps(Steps):
    """Steps that are not stored: for tests of an executor alone."""

    def replay(self, step: Step) -> bytes | None:
        return None

    def record(self, step: Step, result: bytes) -> bytes:
        return result


class SilentLog:
    """A log that drops its lines."""

    def info(self, event: str, /, **fields: Any) -> None:
        pass

    def warning(self, event: str, /, **fields: Any) -> None:
        pass


def no_tools(tool_id: str, arguments: Mapping[str, Json]) -> Json:
    """The tools of a door without tools: each call is a permanent refusal."""
    raise Refused("this door does not have tools")


class Run:
    """What an executor may do while it works; collects its evidence and artifacts."""

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
        right: Right | None = None,
    ) -> None:
        self._remaining_ms = remaining_ms
        self.right = right or Unleased()
        self._uses = Counter[tuple[str, ...]]()
        self._counting = threading.Lock()
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
        """Send a listening caller the progress in per cent, 0 to 100; a hint that may be lost. A long text is cut."""
        told = bounds.progress(pct, text)
        if self._may_tell():
            self._on_progress(*told)

    def item(self, part: Artifact | Json) -> None:
        """Send a listening caller a finished part of the output before the end; a hint that may be lost.

        An `Artifact` is attached, as by `artifact`. A text or another JSON value is only sent: the door delivers the
        outcome's output.
        """
        may_tell = self._may_tell()
        if isinstance(part, Artifact):
            part = bounded_artifact(part)
            self.collected_artifacts.append(part)
        if may_tell:
            self._on_item(part, self.collected_artifacts)

    def delta(self, text: str) -> None:
        """Send a listening caller the next part of the text that will be the output; a hint that may be lost."""
        if not isinstance(text, str):
            raise TypeError("a delta must be text")
        if self._may_tell():
            self._on_delta(text)

    def evidence(self, content: str, mime: str = "text/plain") -> None:
        """Attach inline evidence; the door drops or shortens evidence that its protocol would refuse."""
        if not isinstance(content, str):
            raise TypeError("evidence must be text")
        self.collected_evidence.append(Evidence(bounds.media_type(mime), content))

    def artifact(self, name: str, data: bytes, mime: str = "application/octet-stream") -> None:
        """Attach bytes that the caller can fetch by digest.

        Raises:
            Refused: the name is longer than `bounds.NAME_CHARACTERS`.
        """
        self._may_tell()
        self.collected_artifacts.append(bounded_artifact(Artifact(name, data, mime)))

    def note(self, **facts: int | float | str) -> None:
        """Add figures such as token counts to this piece's outcome line; never texts of the task."""
        self.facts.update(bounds.facts(facts))

    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Run `fn` once per piece and use of the name; a later runner gets the recorded JSON result instead.

        With a coroutine function it returns an awaitable of the result.

        Raises:
            Refused: the name or the result is larger than `bounds` allows, or the result is not JSON.
        """
        step = self._step_of(bounds.step_name(name))
        if is_async(fn):
            return self._step_async(step, fn)
        recorded = self._replayed(step)
        if recorded is not None:
            return loads_exact(recorded)
        with _in(step):
            result = fn()
        return self._recorded(step, result)

    async def _step_async(self, step: Step, fn: Callable[[], Awaitable[Any]]) -> Any:
        recorded = self._replayed(step)
        if recorded is not None:
            return loads_exact(recorded)
        with _in(step):
            result = await fn()
        return self._recorded(step, result)

    def tool(self, tool_id: str, arguments: Mapping[str, Json] | None = None) -> Json:
        """Call a tool under the kernel door's policy, approvals and runners; the order rule is in `extend.executors`.

        Raises:
            PolicyDenied: the policy or a person denied the call.
            ToolFailed: the tool was called and failed.
            Refused: the door does not have tools, the call is inside a step, or `bounds` refuses its parts.
        """
        if _inside.get():
            raise Refused("run.tool cannot be called inside run.step: a recorded step would skip the call")
        call = bounds.tool_call(tool_id, arguments or {})
        self.right.check()
        return self._call_tool(*call)

    def _step_of(self, name: str) -> Step:
        """The step for this use of a name. Uses inside another step are counted there, because a replay skips them."""
        within = _inside.get()
        with self._counting:
            self._uses[*within, name] += 1
            return Step(name, self._uses[*within, name], within)

    def _replayed(self, step: Step) -> bytes | None:
        """The recorded result of a step; without one, check that the step may begin."""
        recorded = self._steps.replay(step)
        if recorded is None:
            self.right.check_step()
        return recorded

    def _recorded(self, step: Step, result: Any) -> Json:
        return loads_exact(self._steps.record(step, bounds.step_result(result)))

    def _may_tell(self) -> bool:
        """Whether a hint may be sent; while the lease cannot be checked, hints are lost."""
        with suppress(PieceworkError):
            self.right.check()
            return True
        return False


def bounded_artifact(artifact: Artifact) -> Artifact:
    """An artifact of a bounded name and media type.

    Raises:
        Refused: its name is longer than `bounds.NAME_CHARACTERS`.
    """
    if not isinstance(artifact.data, bytes | bytearray | memoryview):
        raise TypeError("an artifact must be bytes")
    return Artifact(bounds.artifact_name(artifact.name), bytes(artifact.data), bounds.media_type(artifact.mime))


def is_async(function: Any) -> bool:
    """As `inspect.iscoroutinefunction`, whose module takes 7 ms to import."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return isinstance(function, FunctionType) and bool(function.__code__.co_flags & COROUTINE)


@contextmanager
def _in(step: Step) -> Iterator[None]:
    token = _inside.set(step.path)
    try:
        yield
    finally:
        _inside.reset(token)
