"""The notices queue: each message has one notice about an approval published."""

from typing import Any

from piecework.durable.due import named_by
from piecework.edge.batches import handled
from piecework.jsons import loads
from piecework.kernel.model.due_times import record_of
from piecework.kernel.wiring import KernelDoor

door = KernelDoor().ready("notices", "telemetry")


def tell(body: str) -> None:
    """Publish the notice that a message carries, and log the outcome."""
    due = named_by(loads(body), "id")
    came = door.notices.tell(due)
    door.telemetry.outcome("notice", {**record_of(due), "came": came}, {})


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(event, tell, lambda: door.telemetry.bug("notice"))
