"""Due times: delayed messages for near ones, and each minute a sweep over all that have come."""

from typing import Any

from piecework.batches import handled
from piecework.due import Due, sweep
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
    return handled(event, forward, lambda: wiring.telemetry.bug("due"))
