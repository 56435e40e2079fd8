"""Hosted agents: what tells their executions apart. An agent id that names a registered executor needs no stream.

Such an execution is tied to the consumer `HOSTED`, which is not a connection: a push for it is a `HostedPush`, which
may become a wake-up, and each wake-up runs the executor from the top. Its session lives as long as the execution is
tied to it.
"""

from typing import Final

from piecework.kernel.model.state import Execution, Status

HOSTED: Final = "piecework-hosted"  # a consumer id; streams refuse it


def is_hosted(execution: Execution) -> bool:
    """Whether an execution is tied to a hosted executor."""
    return execution.session is not None and execution.session.consumer_id == HOSTED


def is_idle(execution: Execution) -> bool:
    """Whether it is the executor's turn: nothing that was asked for is outstanding."""
    return execution.status is Status.RUNNING and not execution.steps and is_hosted(execution)
