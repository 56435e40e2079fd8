"""Webhooks about approvals in memory; they pass the same contract tests as those of the kernel's table."""

import json
from collections.abc import Callable
from dataclasses import replace

from piecework.ops.hooks import HookHead, HookPage, HookRows
from piecework.webhooks.deliveries import Delivery, DeliveryState
from tests.support.worker.hooks import FakeDeliveries


class FakeKernelHooks(FakeDeliveries, HookRows):
    """Deliveries that are listed by the time at which they were put."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock
        self.places: dict[tuple[str, str], str] = {}

    def put(self, delivery: Delivery) -> None:
        super().put(delivery)
        place = f"{self._clock():015d}#{delivery.owner_id}#{delivery.event_id}"
        self.places.setdefault((delivery.owner_id, delivery.event_id), place)

    def restart(self, before: Delivery) -> None:
        self.kept[before.owner_id, before.event_id] = replace(before, state=DeliveryState.PENDING, attempt=1)

    def lose(self, execution_id: str, event_id: str) -> None:
        """Remove one whose place the list still has."""
        del self.kept[execution_id, event_id]

    def newest(self, before: str, limit: int) -> HookPage:
        ordered = sorted(self.places.items(), key=lambda one: one[1], reverse=True)
        listed = [(ids, place) for ids, place in ordered if not before or place < before][:limit]
        heads = [self._head(ids, place) for ids, place in listed if ids in self.kept]
        return HookPage(heads, listed[-1][1] if len(listed) == limit else "")

    def of_execution(self, execution_id: str, after: str, limit: int) -> HookPage:
        own = sorted(ids for ids in self.kept if ids[0] == execution_id and ids[1] > after)
        heads = [self._head(ids, self.places.get(ids, "")) for ids in own[:limit]]
        return HookPage(heads, heads[-1].event_id if len(own) > limit else "")

    def _head(self, ids: tuple[str, str], place: str) -> HookHead:
        kept = self.kept[ids]
        told = json.loads(kept.body)
        at_ms = int(place.partition("#")[0]) if place else None
        shown = (kept.name, told.get("notice", ""), told.get("step_id", ""), at_ms)
        return HookHead(*ids, *shown, str(kept.state), kept.attempt, kept.tries, place)
