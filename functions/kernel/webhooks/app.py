"""The kernel door's webhooks queue: one try to tell an operator's server of an approval."""

from piecework.edge.batches import handled
from piecework.jsons import Json
from piecework.kernel.model.notices import OWNER
from piecework.kernel.webhooks import KernelWebhooks
from piecework.webhooks.trying import attempt

door = KernelWebhooks().ready("sender", "telemetry")


def look(body: str) -> None:
    """Make the try that a message asks for."""
    attempt(body, OWNER, door.sender.handle, door.telemetry)


def handler(event: dict[str, Json], context: object) -> dict[str, Json]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(event, look, lambda: door.telemetry.bug("webhook"))
