"""The executor contract: tasks, outcomes, and how executors are registered and found.

One Python function serves every door. It takes a `Task`, uses its `Run`, and returns an `Outcome`:

    @executor("summarise", task_types=("swarm",), profiles={"default": {}, "fast": {}}, expected_ms=8_000)
    def summarise(task: Task, run: Run) -> Outcome: ...

A failure is `Retryable` (try the same piece again), `Refused` (a permanent answer) or `InputRefused` (the input is at
fault); any other exception is a bug and is reported without its text. At the worker door a seeker that has not paid
reads only the text of `InputRefused`, so that text must be about the input and never about the work.

Between `run.step` calls an executor must be deterministic: a step's result is recorded once and replayed when the piece
is taken over, so the same steps must come in the same order with the same names. A name may be used again: each use is
a step of its own, identified by its place among the uses of that name. So steps of one name must come in the same order
in every run; steps of several threads, or of tasks that race, need different names.

One run of a piece is live at a time. Before each step and each effect a run checks its right to go on; a run that was
taken over, or has handed over, ends there. Work outside of a step may be done again by the next run.

At the kernel door the same holds for `run.tool`. A run that reaches an unfinished tool ends there and does not cost
anything while it waits. When the tool's result, a person's approval or a denial arrives, the executor runs again from
its top and gets the recorded results. So the calls of `run.tool` must come in the same order, to the same tools, with
the same arguments. Put everything that they depend on and that may differ in the next run (a model's answer, the clock,
chance, another service) into a `run.step` before them. A run whose calls differ from the recorded ones fails for good.
`run.tool` must not be called inside a step, nor by several threads or tasks at once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

from piecework.errors import InputRefused, PieceworkError, PolicyDenied, Refused, Retryable, SettingsError, ToolFailed
from piecework.extend import bounds
from piecework.extend.right import Stopped
from piecework.extend.runs import (
    Artifact,
    Evidence,
    ForgetfulSteps,
    Log,
    Run,
    SilentLog,
    Step,
    Steps,
    bounded_artifact,
    no_tools,
)
from piecework.jsons import Json
from piecework.values import dataclass, field, replace

__all__ = [
    "Artifact",
    "Evidence",
    "Executor",
    "ForgetfulSteps",
    "InputRefused",
    "Log",
    "Outcome",
    "PolicyDenied",
    "Refused",
    "Retryable",
    "Run",
    "SilentLog",
    "Step",
    "Steps",
    "Task",
    "ToolFailed",
    "executor",
    "no_tools",
]

Stage = Literal["explore", "verify", "finalize", "decide", "diverge"]
Settle = Literal["after", "before"]

EXPECTED_MS: Final = 8_000  # a short model call; a waiter takes a piece over only with this much time left
MAX_DURATION_MS: Final = 120_000  # four of the kernel's 30 s connections


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an executor returns: the output, and further evidence and artifacts beside those that its run collected.

    `is_partial` says that a part of the output is missing; the worker door delivers it only under a contract that
    accepts partial results.
    """

    output: Json
    evidence: Sequence[Evidence] = ()
    deliverables: Sequence[Artifact] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work as its caller requested it; the same shape at every door."""

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
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the profile: model, temperature, budgets
    seed: Mapping[str, Json] | None = None
    check: Callable[[Json], str | None] = field(default=lambda _: None, repr=False, compare=False)

    def problem(self, output: Json) -> str | None:
        """Why the door would refuse this output (schema checks and size), or None when it fits."""
        return self.check(output)


ExecutorFunction = Callable[[Task, Run], Outcome | Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Executor:
    """A registered function with its advertised types, profiles and limits."""

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
        """The profile's settings; those of the default profile when this executor does not have the profile."""
        return self.profiles.get(profile, self.profiles["default"])

    def __call__(self, task: Task, run: Run) -> Outcome:
        """Run the function to its end, plain or async.

        Raises:
            Stopped: the run has lost its right to go on.
            Retryable: an async executor passed its deadline.
            PieceworkError: the executor's own failure, with its text shortened to the bound.
        """
        try:
            made = self.function(task, run)
            outcome = made if isinstance(made, Outcome) else _awaited(made, run)
            if not isinstance(outcome, Outcome):
                raise TypeError(f"executor {self.name} returned {type(outcome).__name__}, not Outcome")
            return replace(outcome, deliverables=[bounded_artifact(one) for one in outcome.deliverables])
        except PieceworkError as error:
            error.message = bounds.reason(error.message)
            raise
        except BaseExceptionGroup as group:  # a task group wraps what its tasks raise
            raise _stop_in(group) or group from None


def _stop_in(group: BaseExceptionGroup[BaseException]) -> Stopped | None:
    """The group's exception that ends the run, if it holds one."""
    found = group.subgroup(Stopped)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]  # type: ignore[assignment]
    return found if isinstance(found, Stopped) else None


def _awaited(made: Any, run: Run) -> Any:
    """What an async function returns in the end; anything else as it is."""
    from inspect import isawaitable  # 7 ms of a cold start, which a plain executor saves

    return _finish(made, run) if isawaitable(made) else made


def _finish(made: Awaitable[Outcome], run: Run) -> Outcome:
    import asyncio  # 30 ms of a cold start, which a plain executor saves

    async def in_time() -> Outcome:
        async with asyncio.timeout(run.remaining_ms() / 1000):
            return await made

    try:
        return asyncio.run(in_time())
    except TimeoutError:
        run.right.check_time_up()
        raise Retryable("the executor did not finish in time") from None


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

    One that `needs_tools` is served only at the kernel door, where `run.tool` exists; the other doors do not list it.

    Raises:
        SettingsError: the name is taken by another function, or the `default` profile is missing.
    """
    types, offered = tuple(task_types), _offered(name, profiles or {"default": {}})

    def register(function: ExecutorFunction) -> ExecutorFunction:
        _add(Executor(name, function, types, offered, expected_ms, max_duration_ms, settle, long, needs_tools))
        return function

    return register


def _offered(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    if "default" not in profiles:
        raise SettingsError(f"executor {name} needs a profile named default")
    return MappingProxyType({key: MappingProxyType(dict(value)) for key, value in profiles.items()})


def _add(made: Executor) -> None:
    taken = _registered.get(made.name)
    if taken is not None and taken.function.__module__ != made.function.__module__:
        raise SettingsError(f"two executors are named {made.name}")
    _registered[made.name] = made


def registered() -> Mapping[str, Executor]:
    """All executors whose modules have been imported, by name."""
    return MappingProxyType(_registered)
