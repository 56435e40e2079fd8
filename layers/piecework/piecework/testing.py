"""For tests of your own executors: steps that a second run finds, as a run that takes over does.

    steps = KeptSteps()
    with pytest.raises(Retryable):
        summarise(task, Run(remaining_ms=lambda: 20_000, steps=steps))  # dies after its first step
    summarise(task, Run(remaining_ms=lambda: 20_000, steps=steps))  # gets that step's result

Everything else of a `Run` without a door is what a door's run does: the same bounds, the same JSON, the same count of
names; progress, items and deltas go nowhere, and tools are refused as at the doors that have none.
"""

import threading

from piecework.extend.executors import Step, Steps


class KeptSteps(Steps):
    """Steps in memory; of two results for one step the first stands."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, ...], bytes] = {}
        self._lock = threading.Lock()

    def replay(self, step: Step) -> bytes | None:
        return self._results.get(step.parts)

    def record(self, step: Step, result: bytes) -> bytes:
        with self._lock:
            return self._results.setdefault(step.parts, result)
