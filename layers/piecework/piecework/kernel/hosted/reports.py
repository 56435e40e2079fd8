"""What a hosted run reports to its execution's log: steps, progress, tokens. Never what steps hold.

Reports travel with the next command of the run, in the transaction that it writes anyway. So a step is in the log when
its run calls a tool or ends; a run that dies before that takes its reports along, and the step's result stays.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from piecework.extend.executors import Step, Steps
from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.commands import Report
from piecework.kernel.model.payloads import RunProgress, RunStep, RunTokens

MOST_STEPS: Final = 39  # that one command reports; of further ones only their number
MOST_PROGRESS: Final = 10  # the last ones
STEP_NAME_CHARACTERS: Final = 256
FIGURES: Final = ("model_calls", "input_tokens", "output_tokens")  # as executors note them


class Account(Steps):
    """The steps of one run, and what the run has done since it last reported."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._table: Steps | None = None
        self._facts: Mapping[str, Any] = {}
        self._begun: dict[Step, int] = {}
        self._steps: list[RunStep] = []
        self._left_out = 0
        self._progress: list[RunProgress] = []
        self._told: dict[str, Any] = {}  # figures of the last report
        self._replays = 0  # steps since then whose work was done by an earlier run

    def of(self, table: Steps) -> "Account":
        """The same account, whose steps are stored there."""
        self._table = table
        return self

    def watch(self, facts: Mapping[str, Any]) -> None:
        """Report figures from what the run notes there."""
        self._facts = facts

    def replay(self, step: Step) -> bytes | None:
        recorded = self._stored.replay(step)
        with self._lock:
            if recorded is None:
                self._begun[step] = self._clock()
            else:
                self._replays += 1
        return recorded

    def record(self, step: Step, result: bytes) -> bytes:
        recorded = self._stored.record(step, result)
        now = self._clock()
        with self._lock:
            begun = self._begun.pop(step, now)
            if len(self._steps) == MOST_STEPS:
                self._left_out += 1
            else:
                name, size = step.name[:STEP_NAME_CHARACTERS], len(recorded)
                begun_at, ended_at = rfc3339(begun), rfc3339(now)
                self._steps.append(
                    RunStep(name=name, place=step.place, started_at=begun_at, ended_at=ended_at, bytes=size)
                )
        return recorded

    def progress(self, pct: float, text: str) -> None:
        """Report that the run has come so far; the text is bounded already."""
        with self._lock:
            self._progress = [*self._progress, RunProgress(pct=pct, text=text, at=rfc3339(self._clock()))]
            self._progress = self._progress[-MOST_PROGRESS:]

    def taken(self) -> tuple[Report, ...]:
        """What there is to report, oldest first; it counts as reported then."""
        with self._lock:
            if self._left_out:
                self._steps[-1]["left_out"] = self._left_out
            found: list[Report] = [("run.step", step) for step in self._steps]
            found += [("run.progress", each) for each in self._progress]
            found += [("run.tokens", tokens) for tokens in self._tokens()]
            self._steps, self._left_out, self._progress, self._replays = [], 0, [], 0
        return tuple(found)

    def _tokens(self) -> list[RunTokens]:
        """The figures, if they are new; a run that only replays steps sums up what an earlier one has reported."""
        figures: dict[str, Json] = {
            name: int(self._facts[name]) for name in FIGURES if isinstance(self._facts.get(name), int | float)
        }
        is_old = not self._steps and self._replays
        if not figures or figures == self._told or is_old:
            return []
        self._told = figures
        model = self._facts.get("model")
        tokens: Any = figures | ({"model": model} if isinstance(model, str) else {})
        return [tokens]

    @property
    def _stored(self) -> Steps:
        if self._table is None:
            raise RuntimeError("an account is of a run's steps")
        return self._table
