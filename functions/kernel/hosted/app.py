"""The hosted queue: each message wakes one execution of a hosted agent."""

from typing import Any

from piecework.edge.batches import handled
from piecework.edge.ports import LambdaContext
from piecework.jsons import loads
from piecework.kernel.wiring import KernelDoor

door = KernelDoor().ready("hosted", "policy")


def wake_up(body: str, until_ms: int) -> None:
    """Look at the execution that a message names, and log the outcome."""
    execution_id = loads(body)["execution_id"]
    came = door.hosted.run_turn(execution_id, until_ms)
    door.telemetry.outcome("hosted", {"execution_id": execution_id, "came": came}, {})


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(
        event,
        lambda body: wake_up(body, door.clock() + context.get_remaining_time_in_millis()),
        lambda: door.telemetry.bug("hosted"),
    )
