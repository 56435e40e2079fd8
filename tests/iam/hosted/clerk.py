"""A hosted executor that uses all it may need: a second try, a recorded step, the secret, large values, a tool."""

import os

from piecework.aws.secrets import secret_text
from piecework.executor_secrets import secret
from piecework.executors import Outcome, Retryable, Run, Task, executor

LARGE = 400_000  # characters, over what an item keeps
tried = set()


@executor("clerk", task_types=(), expected_ms=1_000)
def clerk(task: Task, run: Run) -> Outcome:
    """Fail once, then have something large refunded."""
    run.progress(50, "half")
    length = run.step("look", lambda: len(secret("PERMITTED_KEY", os.environ, secret_text)))
    if task.execution_id not in tried:
        tried.add(task.execution_id)
        raise Retryable("not yet")
    receipt = run.tool("pay.refund", {"order": "x" * LARGE, "cents": 1})
    return Outcome({"length": length, "receipt": receipt})
