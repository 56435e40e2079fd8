"""Due times of the kernel door: delayed messages for near ones, and each minute a sweep over all that have come."""

from typing import Any

from piecework.due import Due, sweep
from piecework.errors import PieceworkError
from piecework.jsons import loads
from piecework.kernel_wiring import due_wiring

wiring = due_wiring()


def look(body: str) -> None:
    """Look at what a message names."""
    message = loads(body)
    due = Due(message["due_ms"], message["kind"], message["id"])
    wiring.fire[due.kind](due)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        counts = sweep(wiring.times, wiring.fire, wiring.clock())
        if any(counts.values()):
            wiring.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
        return counts
    failed = []
    for record in event["Records"]:
        try:
            look(record["body"])
        except PieceworkError:
            wiring.telemetry.bug("due")
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
