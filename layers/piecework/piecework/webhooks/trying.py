"""What a webhooks queue's function does with a message: one try, whose outcome is logged and counted."""

from collections.abc import Callable, Mapping
from typing import Protocol

from piecework.jsons import Json, loads
from piecework.webhooks.deliveries import Try, try_of


class Tells(Protocol):
    """Logs how something ended, with counts for alarms."""

    def outcome(self, name: str, facts: Mapping[str, Json], counts: Mapping[str, int]) -> None: ...


def attempt(body: str, owner: str, handle: Callable[[Try], str], telemetry: Tells) -> None:
    """Make the try that a message asks for, and log its outcome; `owner` as in `message_of`.

    Raises:
        BadRequest: the message does not ask for a try.
    """
    wanted = try_of(loads(body), owner)
    outcome = handle(wanted)
    facts: dict[str, Json] = {owner: wanted.owner_id, "event_id": wanted.event_id, "attempt": wanted.attempt}
    counts = {"WebhookGivenUp": 1} if outcome == "given_up" else {}
    telemetry.outcome("webhook", {**facts, "outcome": outcome}, counts)
