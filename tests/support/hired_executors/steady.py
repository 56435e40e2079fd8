"""A long executor that tells of its progress: its `gate` file holds how many steps it may take."""

import time
from pathlib import Path

from piecework.executors import Outcome, Run, Task, executor

STEPS = 3
GAP_SECONDS = 0.02


@executor("steady", task_types=("steady",), expected_ms=60_000, max_duration_ms=60_000, long=True)
def steady(task: Task, run: Run) -> Outcome:
    """Take each step once the gate is that far open; then wait until it is open altogether."""
    gate = Path(task.inputs["gate"])
    for step in range(1, STEPS + 2):
        while int(gate.read_text() or 0) < step:
            time.sleep(GAP_SECONDS)
        if step <= STEPS:
            run.progress(100 * step / (STEPS + 1), f"step {step}")
    return Outcome({"score": 7})
