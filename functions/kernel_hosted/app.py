"""The hosted queue: each message wakes one execution of a hosted agent."""

from typing import Any, Protocol

from piecework.errors import PieceworkError
from piecework.jsons import loads
from piecework.kernel_hosted_wiring import kernel_hosted_wiring

wiring = kernel_hosted_wiring()


class LambdaContext(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int: ...


def look(body: str, until_ms: int) -> None:
    """Look at the execution that a message is about, and say what came of it."""
    execution_id = loads(body)["execution_id"]
    came = wiring.hosted.look(execution_id, until_ms)
    wiring.telemetry.outcome("hosted", {"execution_id": execution_id, "came": came}, {})


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point; messages that could not be handled come back."""
    failed = []
    for record in event["Records"]:
        try:
            look(record["body"], wiring.clock() + context.get_remaining_time_in_millis())
        except PieceworkError:
            wiring.telemetry.bug("hosted")
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
