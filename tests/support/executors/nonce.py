"""An executor that counts its runs and answers with a nonce, so that "one run" is counted and not inferred.

`inputs` steer it: `seconds` (2 unless given), `fail_first` (that many runs end in a transient failure, an upstream's
with `upstream`), `refuse`.
"""

import os
import time
import uuid
from pathlib import Path

from piecework.errors import UpstreamFailed
from piecework.executors import Outcome, Refused, Retryable, Run, Task, executor

SECONDS = 2


@executor("nonce", task_types=("nonce",), profiles={"default": {}, "other": {}}, expected_ms=2_000)
def nonce(task: Task, run: Run) -> Outcome:
    """Count this run, work, answer with something no other run can answer."""
    runs = count(task.execution_id)
    wishes = task.inputs if isinstance(task.inputs, dict) else {}
    time.sleep(wishes.get("seconds", SECONDS))
    if runs <= wishes.get("fail_first", 0):
        raise (UpstreamFailed if wishes.get("upstream") else Retryable)("the upstream is busy")
    if wishes.get("refuse"):
        raise Refused("this cannot be answered")
    run.evidence(f"run {runs}")
    return Outcome({"answer": uuid.uuid4().hex, "confidence": 0.5})


def count(execution_id: str) -> int:
    """Append a line for this run, with its process id; returns how many there are for the execution."""
    path, key = Path(os.environ["TEST_RUNS"]), execution_id.encode().hex()
    with path.open("a") as out:  # one short write in append mode does not mix with another process's
        out.write(f"{key} {os.getpid()}\n")
    return sum(line.startswith(f"{key} ") for line in path.read_text().splitlines())
