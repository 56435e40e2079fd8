"""Due times of the kernel door: delayed messages for near ones, and a sweep over all that have come, twice a minute.

A schedule comes once a minute at most, so the sweep it asks for sends a message for another one, half a minute later.
"""

from typing import Any

from piecework.batches import handled
from piecework.due import Due, sweep
from piecework.jsons import loads
from piecework.kernel.dues import SWEEP
from piecework.kernel_wiring import due_wiring

wiring = due_wiring()


def look(body: str) -> None:
    """Look at what a message names."""
    message = loads(body)
    due = Due(message["due_ms"], message["kind"], message["id"])
    if due.kind == SWEEP:
        swept()
    else:
        wiring.fire[due.kind](due)


def swept() -> dict[str, int]:
    """Look at everything whose time has come."""
    counts = sweep(wiring.times, wiring.fire, wiring.clock())
    if any(counts.values()):
        wiring.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
    return counts


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        wiring.sweep_again()
        return swept()
    return handled(event, look, lambda: wiring.telemetry.bug("due"))
