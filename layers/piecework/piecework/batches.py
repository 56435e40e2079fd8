"""A batch of queue messages, each handled by itself: those that could not be handled come back."""

from collections.abc import Callable, Mapping
from typing import Any

from piecework.errors import PieceworkError


def handled(event: Mapping[str, Any], look: Callable[[str], None], failed: Callable[[], None]) -> dict[str, Any]:
    """Look at each message's body; the answer names the messages that SQS is to send again.

    `failed` is called while the error of a message is being handled, so that it can log it.
    """
    back = []
    for record in event["Records"]:
        try:
            look(record["body"])
        except PieceworkError:
            failed()
            back.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": back}
