"""Due times: delayed messages for near ones, and each minute a sweep over all that have come."""

from typing import Final

from piecework.durable.due import named_by, sweep
from piecework.edge.batches import handled
from piecework.errors import BadRequest
from piecework.jsons import Json, loads
from piecework.worker.record.execution import RELEASED_DUE, TASK_DUE, WEBHOOK_DUE
from piecework.worker.wiring import WorkerDoor

KINDS: Final = (TASK_DUE, WEBHOOK_DUE, RELEASED_DUE)
SWEEP_MS: Final = 15_000  # half of the function's time

door = WorkerDoor().ready("due_times", "tasks", "telemetry")


def forward(body: str) -> None:
    """Pass a due time on to who looks at it."""
    due = named_by(loads(body), "contract_id")
    if due.kind not in KINDS:
        raise BadRequest("this version knows no due time of this kind")
    door.forward(due)


def swept() -> dict[str, int]:
    """Have everything looked at whose time has come, as far as there is time."""
    until_ms = door.clock() + SWEEP_MS
    counts = sweep(
        door.due_times, dict.fromkeys(KINDS, door.forward_all), door.clock(), lambda: door.clock() < until_ms
    )
    if counts["failed"] or "left" in counts:  # a look logs its own result
        door.telemetry.outcome("sweep", counts, {"DueTimesFailed": counts["failed"]} if counts["failed"] else {})
    return counts


def handler(event: dict[str, Json], context: object) -> dict[str, Json]:
    """The Lambda entry point, for the queue and for the schedule."""
    if "Records" not in event:
        return swept()
    return handled(event, forward, lambda: door.telemetry.bug("due"))
