"""The kernel door's webhooks queue: one try to tell an operator's server of an approval."""

from piecework.edge.batches import handled
from piecework.jsons import Json, loads
from piecework.kernel.model.notices import OWNER
from piecework.kernel.webhooks import KernelWebhooks
from piecework.webhooks.deliveries import try_of

door = KernelWebhooks().ready("sender", "telemetry")


def attempt(body: str) -> None:
    """Make the try that a message asks for, and log its outcome."""
    wanted = try_of(loads(body), OWNER)
    outcome = door.sender.handle(wanted)
    facts = {OWNER: wanted.owner_id, "event_id": wanted.event_id, "attempt": wanted.attempt}
    counts = {"WebhookGivenUp": 1} if outcome == "given_up" else {}
    door.telemetry.outcome("webhook", {**facts, "outcome": outcome}, counts)


def handler(event: dict[str, Json], context: object) -> dict[str, Json]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(event, attempt, lambda: door.telemetry.bug("webhook"))
