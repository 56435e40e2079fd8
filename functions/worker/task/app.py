"""The task queue: runs hired tasks that are longer than a request, and settles what requests left open."""

from piecework.edge.batches import handled
from piecework.edge.ports import LambdaContext
from piecework.jsons import Json, loads
from piecework.worker.task.resume import due_of
from piecework.worker.wiring import WorkerDoor

door = WorkerDoor().ready("resume", "tasks", "due_messages", "telemetry")


def look(body: str, until_ms: int) -> None:
    """Look at the task that a message is about, do what it waits for, and log its state then."""
    message = loads(body)
    due = due_of(message)
    record = door.resume.drive(message["contract_id"], until_ms) if due is None else door.resume.fire(due, until_ms)
    contract = message["contract_id"].partition("/")[0]  # a released payment's due time names more
    facts = {"contract_id": contract, "kind": message["kind"], "state": record and record.state}
    door.telemetry.outcome("task", facts, {})


def handler(event: dict[str, Json], context: LambdaContext) -> dict[str, Json]:
    """The Lambda entry point; messages that could not be handled come back."""
    return handled(
        event,
        lambda body: look(body, door.clock() + context.get_remaining_time_in_millis()),
        lambda: door.telemetry.bug("task"),
    )
