"""Executors that use all that hired work may need: progress, a recorded step, the secret, a file, a large result."""

import os

from piecework.aws.secrets import secret_text
from piecework.executor_secrets import secret
from piecework.executors import Outcome, Run, Task, executor

LARGE = 20_000  # characters, over what an item keeps


@executor("thorough", task_types=("thorough",), expected_ms=1_000)
def thorough(task: Task, run: Run) -> Outcome:
    """Answer within the request."""
    run.progress(50, "half")
    length = run.step("look", lambda: len(secret("PERMITTED_KEY", os.environ, secret_text)))
    run.artifact("note.txt", b"a note", "text/plain")
    return Outcome({"length": length, "filling": "x" * LARGE})


@executor("patient", task_types=("patient",), expected_ms=60_000, long=True)
def patient(task: Task, run: Run) -> Outcome:
    """The same by way of the queue."""
    return thorough(task, run)
