"""A hosted executor that is still at work when its execution's due time comes."""

import time

from piecework.executors import Outcome, Run, Task, executor

SECONDS = 6


@executor("sleeper", task_types=(), expected_ms=6_000)
def sleeper(task: Task, run: Run) -> Outcome:
    """Sleep."""
    time.sleep(SECONDS)
    return Outcome("slept")
