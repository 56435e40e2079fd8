"""Chains: a task that is longer than one run of its function goes on in the next, within the same attempt (4.2).

A run leaves before a step that nobody has recorded yet, when less time is left than its longest step took. The next
run gets every recorded step at once and goes on there. A run leaves only after a step of its own, so each gets
further; a step must fit into one run.
"""

from collections.abc import Callable
from typing import Final

from piecework.extend.executors import Step, Steps
from piecework.extend.right import HandedOver

LEAST_MS: Final = 30_000  # no further step is begun with less time than this


class ChainedSteps(Steps):
    """The steps of one run of many."""

    def __init__(self, steps: Steps, remaining_ms: Callable[[], int]) -> None:
        self._steps = steps
        self._remaining_ms = remaining_ms
        self._left_ms = 0  # when the step at hand began
        self._longest_ms: int | None = None  # None until this run has recorded a step

    def replay(self, step: Step) -> bytes | None:
        """As `Steps.replay`. Raises HandedOver."""
        recorded = self._steps.replay(step)
        if recorded is None:
            self._left_ms = self._remaining_ms()
            if self._longest_ms is not None and self._left_ms < max(LEAST_MS, self._longest_ms):
                raise HandedOver
        return recorded

    def record(self, step: Step, result: bytes) -> bytes:
        kept = self._steps.record(step, result)
        self._longest_ms = max(self._longest_ms or 0, self._left_ms - self._remaining_ms())
        return kept
