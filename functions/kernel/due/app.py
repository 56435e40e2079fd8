"""Due times of the kernel door: delayed messages for near ones, and a sweep over all that have come, twice a minute.

A schedule comes once a minute at most, so the sweep it asks for sends a message for another one, half a minute later.
"""

from typing import Any, Final

from piecework.durable.due import Due, named_by, one_by_one, sweep
from piecework.edge.batches import LEAST_MS, handled
from piecework.errors import BadRequest
from piecework.jsons import loads
from piecework.kernel.model.due_times import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE, SWEEP, record_of
from piecework.kernel.model.notices import NOTICE_DUE
from piecework.kernel.wiring import KernelDoor

SWEEP_MS: Final = 20_000  # a third of the function's time; the next sweep comes after 30 s
HALF_A_MINUTE_MS: Final = 30_000
KINDS: Final = (EXECUTION_DUE, AGENT_DUE, RUNNER_DUE)

door = KernelDoor().ready("liveness", "telemetry")


def handle(body: str) -> None:
    """Look at the due time that a message names."""
    due = named_by(loads(body), "id")
    if due.kind == SWEEP:
        swept()
    elif due.kind in KINDS:
        check(due)
    else:
        raise BadRequest("this version knows no due time of this kind")


def check(due: Due) -> None:
    """Look at a due time that has come, and log it where that changed anything: most connections just live on."""
    if door.liveness.check(due):
        door.telemetry.outcome("due", {"kind": due.kind, **record_of(due)}, {})


def swept() -> dict[str, int]:
    """Have everything looked at whose time has come, as far as there is time: by messages, where there is a queue."""
    until_ms = door.clock() + SWEEP_MS
    looks = dict.fromkeys(KINDS, door.forward or one_by_one(check, bug)) | {NOTICE_DUE: door.hand_over}
    counts = sweep(door.due_times, looks, door.clock(), lambda: door.clock() < until_ms)
    if counts["failed"] or "left" in counts:  # each look logs its own outcome
        door.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
    return counts


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        door.nudge(Due(door.clock() + HALF_A_MINUTE_MS, SWEEP, ""), HALF_A_MINUTE_MS)
        return swept()
    return handled(event, handle, bug, lambda: left_ms(context))


def bug() -> None:
    """Log the error that is being handled."""
    door.telemetry.bug("due")


def left_ms(context: Any) -> int:
    """How many milliseconds of this call are left; `LEAST_MS` without a context."""
    return context.get_remaining_time_in_millis() if context is not None else LEAST_MS
