"""A batch of queue messages, each handled by itself; SQS sends those again that could not be handled."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from piecework.errors import PieceworkError

LEAST_MS: Final = 10_000  # of the function's remaining time, needed to begin with a message


def handled(
    event: Mapping[str, Any],
    look: Callable[[str], None],
    failed: Callable[[], None],
    left_ms: Callable[[], int] = lambda: LEAST_MS,
) -> dict[str, Any]:
    """Handle each message's body; the answer names the messages that SQS is to send again.

    A message that cannot be read, or that a newer version sent, comes back alone. `failed` is called while the error of
    a message is being handled, so that it can log it. When time runs out, the remaining messages come back unhandled.

    Raises:
        Exception: all messages met an unexpected error, so this code is at fault and the function must fail.
    """
    back: list[str] = []
    bugs: list[Exception] = []
    for number, record in enumerate(event["Records"]):
        if number and left_ms() < LEAST_MS:
            back.append(record["messageId"])
            continue
        try:
            look(record["body"])
        except Exception as error:  # noqa: BLE001  # whatever one message meets, the others are handled
            failed()
            back.append(record["messageId"])
            bugs += [] if isinstance(error, PieceworkError) else [error]
    if bugs and len(bugs) == len(event["Records"]):
        raise bugs[-1]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in back]}
