"""An executor that is paid before it works and shows its output as it comes; its `gate` says how far it may go."""

import time
from pathlib import Path

from piecework.executors import Artifact, Outcome, Run, Task, executor

GAP_SECONDS = 0.02


@executor("prepaid", task_types=("prepaid",), expected_ms=60_000, max_duration_ms=60_000, settle="before", long=True)
def prepaid(task: Task, run: Run) -> Outcome:
    """A file and a piece of text at once; the rest when the gate is open."""
    run.item(Artifact("plan.txt", b"the plan", "text/plain"))
    run.delta("one ")
    while not int(Path(task.inputs["gate"]).read_text() or 0):
        time.sleep(GAP_SECONDS)
    run.delta("two")
    return Outcome("one two three")
