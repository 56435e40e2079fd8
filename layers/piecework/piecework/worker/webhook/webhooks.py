"""Webhooks: a seeker hears once of each terminal state, signed, until its server has it (worker specification 4.4).

Whoever ends a task, after its payment outcome is final, renders the delivery (`delivery_of`) and hands it over
(`Announcer.announce`), as often as it is not sure to have done so. What is to be sent lies in the work table under
`WEBHOOK#<contract id>`; `piecework.webhooks` sends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from piecework.jsons import Json, canonical
from piecework.webhooks.deliveries import Delivery

if TYPE_CHECKING:
    from piecework.worker.contract.contracts import ContractRecord

OWNER: Final = "contract_id"  # what messages and the log call the owner of a delivery
USER_AGENT: Final = "hire-worker/1"
BODY_BYTES: Final = 262_144  # of the request; a longer one goes without its output
EVENTS: Final[Mapping[str, str]] = {
    "completed": "task_completed",
    "failed": "task_failed",
    "partial": "task_partial",
}


def delivery_of(
    contract: ContractRecord, body: Mapping[str, Json], *, generation: int, occurred_at_ms: int, poll_url: str
) -> Delivery | None:
    """The delivery of a final body (1.5), or None when the contract names no webhook."""
    if contract.webhook_url is None:
        return None
    event_id = event_id_of(str(body["task_id"]), generation, str(body["status"]))
    told: dict[str, Json] = {
        "deliverables": [],
        **body,
        "event": EVENTS[str(body["status"])],
        "event_id": event_id,
        "occurred_at": datetime.fromtimestamp(occurred_at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "poll_url": poll_url,
    }
    return Delivery(contract.contract_id, event_id, contract.webhook_url, bounded(told), contract.webhook_secret)


def event_id_of(task_id: str, generation: int, status: str) -> str:
    """The same for the same terminal state, so that announcing twice is one event."""
    return f"evt_{hashlib.sha256(f'{task_id}/{generation}/{status}'.encode()).hexdigest()[:32]}"


def bounded(told: Mapping[str, Json]) -> bytes:
    """The event as JSON; without its output, and in the end without its details, where it would be too long."""
    droppable = ("output", "error", "deliverables")
    for dropped in range(len(droppable) + 1):
        kept = {name: value for name, value in told.items() if name not in droppable[:dropped]}
        shortened: dict[str, Json] = {"truncated": True} | ({"deliverables": []} if dropped == len(droppable) else {})
        text = canonical(kept | (shortened if dropped else {}))
        if len(text) <= BODY_BYTES:
            break
    return text
