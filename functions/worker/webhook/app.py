"""The webhook queue: one try to tell a seeker's server that its task has ended."""

from piecework.edge.batches import handled
from piecework.jsons import Json
from piecework.webhooks.trying import attempt
from piecework.worker.webhook.webhooks import OWNER
from piecework.worker.wiring import WorkerDoor

door = WorkerDoor().ready("sender", "webhooks", "telemetry")


def look(body: str) -> None:
    """Make the try that a message asks for."""
    attempt(body, OWNER, door.sender.handle, door.telemetry)


def handler(event: dict[str, Json], context: object) -> dict[str, Json]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(event, look, lambda: door.telemetry.bug("webhook"))
