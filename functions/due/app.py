"""Due times: delayed messages for near ones, and each minute a sweep over all that have come."""

from typing import Any

from piecework.due import Due, sweep
from piecework.errors import PieceworkError
from piecework.hire_wiring import due_wiring
from piecework.jsons import loads

wiring = due_wiring()


def forward(body: str) -> None:
    """Pass a due time on to who looks at it."""
    message = loads(body)
    due = Due(message["due_ms"], message["kind"], message["contract_id"])
    wiring.fire[due.kind](due)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        counts = sweep(wiring.times, wiring.fire, wiring.clock())
        wiring.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
        return counts
    failed = []
    for record in event["Records"]:
        try:
            forward(record["body"])
        except PieceworkError:
            wiring.telemetry.bug("due")
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
