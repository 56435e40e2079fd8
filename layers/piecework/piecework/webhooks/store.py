"""Webhook deliveries in a door's table: `pk` = WEBHOOK#<owner's id>, `sk` = the event's id, or STOP.

Attributes: `url`, `body` (bytes), `secret`, `name`, `state`, `attempt`, `tries` (JSON), `expires_at` (s; the
table's TTL, past which a delivery is not read any more). In the kernel table also `age_shard` and `created_id`, by
which its index ByAge lists deliveries by time; they never change, so a delivery costs one unit there. Every write is
conditional; the sender's role reaches items under WEBHOOK# only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, THE_WORK, Table
from piecework.aws.writes import ABSENT, Key, at
from piecework.clock import now_in_ms
from piecework.jsons import canonical, loads
from piecework.webhooks.deliveries import KEPT_SECONDS, Deliveries, Delivery, DeliveryState, Made

if TYPE_CHECKING:
    from piecework.aws.table import Client

AS_READ: Final = "#state = :before AND attempt = :read"
STOP: Final = "STOP"
LISTED: Final = "WEBHOOKS"  # the partition of ByAge with the kernel's deliveries; executions are in others
STOP_SECONDS: Final = 200 * 86_400  # past the end of every contract's claims


class DeliveriesTable(Deliveries):
    """Deliveries in DynamoDB. A write whose condition fails is passed over: another try was faster, or it stands."""

    def __init__(self, table: Table, clock: Callable[[], int], *, is_listed: bool = False) -> None:
        self._table, self._clock, self._is_listed = table, clock, is_listed

    def put(self, delivery: Delivery) -> None:
        now_ms = self._clock()
        listed = _listed(delivery, now_ms) if self._is_listed else {}
        self._table.put(to_item(delivery, now_ms // 1000 + KEPT_SECONDS) | listed, ABSENT)

    def read(self, owner_id: str, event_id: str) -> Delivery | None:
        item = self._table.get(*_key(owner_id, event_id)) if event_id != STOP else None
        return from_item(item) if item and is_kept(item, self._clock()) else None

    def note(self, before: Delivery, after: Delivery) -> None:
        values = {"before": before.state, "read": before.attempt, "after": after.state, "next": after.attempt}
        key = _key(before.owner_id, before.event_id)
        values["tries"] = canonical([list(made) for made in after.tries]).decode()
        self._table.update(key, "SET #state = :after, attempt = :next, tries = :tries", values, AS_READ)

    def restart(self, before: Delivery) -> None:
        """Make an ended delivery pending again, from its first try on, and keep it as long as a new one.

        Raises:
            Unavailable: it is not as `before` shows any more.
        """
        values = {"before": before.state, "read": before.attempt, "after": DeliveryState.PENDING, "next": 1}
        values["expires"] = self._clock() // 1000 + KEPT_SECONDS
        key, ours = _key(before.owner_id, before.event_id), {"state": DeliveryState.PENDING, "attempt": 1}
        written = "SET #state = :after, attempt = :next, expires_at = :expires"
        if not self._table.update(key, written, values, AS_READ, ours=ours).done:
            raise self._table.changed()

    def stop(self, owner_id: str) -> None:
        expires_at = self._clock() // 1000 + STOP_SECONDS
        self._table.put(at(_key(owner_id, STOP)) | {"expires_at": expires_at}, ABSENT)

    def is_stopped(self, owner_id: str) -> bool:
        return self._table.get(*_key(owner_id, STOP)) is not None


def work_deliveries(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> DeliveriesTable:
    """Deliveries to seekers, by contract, in the work table."""
    return DeliveriesTable(Table(client, table, THE_WORK), clock)


def kernel_deliveries(client: Client, table: str, clock: Callable[[], int] = now_in_ms) -> DeliveriesTable:
    """Deliveries of notices, by execution, in the kernel table."""
    return DeliveriesTable(Table(client, table, THE_KERNEL), clock, is_listed=True)


def _listed(delivery: Delivery, now_ms: int) -> Item:
    """The attributes that put a delivery into the list of all."""
    return {"age_shard": LISTED, "created_id": f"{now_ms:015d}#{delivery.owner_id}#{delivery.event_id}"}


def _key(owner_id: str, sort: str) -> Key:
    return f"WEBHOOK#{owner_id}", sort


def is_kept(item: Item, now_ms: int) -> bool:
    """Whether a delivery's time is not over: DynamoDB deletes days late, and what it still has is not sent any more."""
    return bool(item["expires_at"] > now_ms // 1000)


def to_item(delivery: Delivery, expires_at: int) -> Item:
    """A delivery as it is stored."""
    secret = {"secret": delivery.secret} if delivery.secret else {}
    name = {"name": delivery.name} if delivery.name else {}
    return {
        **at(_key(delivery.owner_id, delivery.event_id)),
        "url": delivery.url,
        "body": delivery.body,
        "state": delivery.state,
        "attempt": delivery.attempt,
        "expires_at": expires_at,
        **secret,
        **name,
    }


def tries_of(item: Item) -> tuple[Made, ...]:
    """The tries that a row keeps; none where earlier code wrote it."""
    return tuple(Made(*made[: len(Made._fields)]) for made in loads(item.get("tries", "[]")))


def from_item(item: Item) -> Delivery:
    """A stored delivery."""
    return Delivery(
        owner_id=item["pk"].partition("#")[2],
        event_id=item["sk"],
        url=item["url"],
        body=item["body"],
        secret=item.get("secret"),
        state=DeliveryState(item["state"]),
        attempt=item["attempt"],
        tries=tries_of(item),
        name=item.get("name", ""),
    )
