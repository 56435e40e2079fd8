"""Due times: delayed messages for near ones, and each minute a sweep over all that have come."""

from typing import Any, Final

from piecework.durable.due import named_by, sweep
from piecework.edge.batches import handled
from piecework.errors import BadRequest
from piecework.jsons import loads
from piecework.worker.wiring import due_wiring

SWEEP_MS: Final = 15_000  # half of the function's time

wiring = due_wiring()


def forward(body: str) -> None:
    """Pass a due time on to who looks at it."""
    due = named_by(loads(body), "contract_id")
    if due.kind not in wiring.fire:
        raise BadRequest("this version knows no due time of this kind")
    wiring.fire[due.kind](due)


def swept() -> dict[str, int]:
    """Have everything looked at whose time has come, as far as there is time."""
    until_ms = wiring.clock() + SWEEP_MS
    counts = sweep(wiring.times, wiring.looks, wiring.clock(), lambda: wiring.clock() < until_ms)
    if counts["failed"] or "left" in counts:  # who looks says what it brought
        wiring.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
    return counts


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        return swept()
    return handled(event, forward, lambda: wiring.telemetry.bug("due"))
