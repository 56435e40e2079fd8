"""Agents' consumers in the kernel table; an agent's partition is its board: consumers, turn, waiting executions.

A generation is a time in milliseconds, moved on by one when that is not greater than the last: a consumer that was
forgotten and comes back is never taken for its former self.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import TRIES, Table
from piecework.aws.writes import ABSENT, Delete, Key, Put, Update, at, new_write
from piecework.durable.due import Due, DueTimes
from piecework.errors import Unavailable
from piecework.kernel.model.due_times import AGENT_DUE, pair_id
from piecework.kernel.model.ports.agents import AgentQueue, Agents, Board, Consumer, Waiting
from piecework.kernel.model.state import Pause
from piecework.kernel.settings import NAME_KEPT_MS
from piecework.kernel.store import keys, leases
from piecework.kernel.store.outbox import empty

BOARD_PAGE: Final = 200  # consumers and waiting executions read at once
MOST_WAITING: Final = 100
NOT_PAUSED: Final = f"{ABSENT} OR is_paused <> :true"
PAUSED: Final = "is_paused = :on"
RESUME: Final = (
    "SET is_paused = :off, expires_at = :expires_at, "
    "resumed_at = :resumed_at, resumed_by = :resumed_by, resumed_reason = :resumed_reason"
)


class KernelAgents(Agents):
    """Consumers in DynamoDB; their due times lie in the due-time table."""

    def __init__(self, table: Table, due_times: DueTimes, clock: Callable[[], int]) -> None:
        self._table, self._due_times, self._clock = table, due_times, clock

    def connect(
        self, agent_id: str, consumer_id: str, lease_until_ms: int, by: str = ""
    ) -> tuple[Consumer, Consumer | None]:
        self._due_times.put(Due(lease_until_ms, AGENT_DUE, pair_id(agent_id, consumer_id)))
        for attempt in range(TRIES):
            row, now = self._table.get(*keys.consumer(agent_id, consumer_id)), self._clock()
            old, noted = consumer_from(row) if row else None, leases.note(self._table, keys.AGENTS, agent_id, row, now)
            generation = max(now, old.generation + 1 if old else 1)
            named, since = self._keep_name(agent_id, old, by) if by else 0, leases.since(row, now)
            made = Consumer(agent_id, consumer_id, generation, lease_until_ms, True, 0, by, named, since)
            values = {"generation": old.generation} if old else None
            item = _item(made) | {"noted_at": noted, "write": new_write()}
            if self._table.put(item, leases.SAME if old else ABSENT, values).done:
                return made, old
            self._table.pause(attempt)
        raise Unavailable("this consumer connects too often; try again")

    def refresh(self, consumer: Consumer, lease_until_ms: int) -> bool:
        return leases.set_lease(self._table, _key(consumer), consumer.generation, lease_until_ms, is_open=True)

    def refresh_all(self, consumers: Sequence[Consumer], lease_until_ms: int) -> list[Consumer]:
        places = [(_key(consumer), consumer.generation) for consumer in consumers]
        kept = leases.set_leases(self._table, places, lease_until_ms)
        return [consumer for consumer, is_kept in zip(consumers, kept, strict=True) if not is_kept]

    def doubt(self, consumer: Consumer, until_ms: int) -> bool:
        return leases.doubt(self._table, _key(consumer), consumer.generation, consumer.lease_until_ms, until_ms)

    def end(self, consumer: Consumer, grace_until_ms: int) -> bool:
        return leases.set_lease(self._table, _key(consumer), consumer.generation, grace_until_ms, is_open=False)

    def find(self, agent_id: str, consumer_id: str) -> Consumer | None:
        item = self._table.get(*keys.consumer(agent_id, consumer_id))
        return consumer_from(item) if item else None

    def board(self, agent_id: str) -> Board:
        return board_from(self._table.query(keys.agent(agent_id), before=keys.TURN, page=BOARD_PAGE))

    def consumers(self, agent_id: str) -> tuple[Consumer, ...]:
        return self.board(agent_id).consumers

    def pause_of(self, agent_id: str) -> Pause | None:
        row = self._table.get(*keys.pause(agent_id))
        return pause_from(row) if row else None

    def pause(self, agent_id: str, pause: Pause) -> Pause:
        leases.note(self._table, keys.AGENTS, agent_id, None, self._clock())
        item = pause_item(agent_id, pause) | {"write": new_write()}
        listed = {"agent": agent_id, "at": pause.at_ms, "by": pause.by, "reason": pause.reason}
        begins = Put(item, condition=NOT_PAUSED, values={"true": True})
        if not self._table.transact([begins, Put(at(keys.paused(agent_id)) | listed)]):
            return pause
        standing = self.pause_of(agent_id)
        if standing is None or not standing.is_on:
            raise self._table.changed()
        return standing

    def resume(self, agent_id: str, at_ms: int, by: str, reason: str) -> Pause | None:
        expires = (at_ms + leases.LISTED_MS) // 1000
        ended = {"resumed_at": at_ms, "resumed_by": by, "resumed_reason": reason}
        values = {**ended, "off": False, "expires_at": expires, "on": True}
        ends = Update(keys.pause(agent_id), RESUME, condition=PAUSED, values=values, ours=ended)
        self._table.transact([ends, Delete(keys.paused(agent_id))])
        return self.pause_of(agent_id)

    def waiting(self, agent_id: str) -> list[Waiting]:
        rows = self._table.query(keys.agent(agent_id), after=keys.WAITING, page=MOST_WAITING)
        return [_waiting(row) for row in islice(rows, MOST_WAITING)]

    def agent_queue(self, agent_id: str) -> AgentQueue:
        consumers: list[Consumer] = []
        turn, waiting = 0, list[str]()
        pause: Pause | None = None
        for row in self._table.query(keys.agent(agent_id), page=BOARD_PAGE):
            sk = row["sk"]
            if sk == keys.CONSUMERS:
                pause = pause_from(row)
            elif sk.startswith(keys.CONSUMERS):
                consumers.append(consumer_from(row))
            elif sk == keys.TURN:
                turn = row["turn"]
            else:
                waiting.append(_waiting(row).execution_id)
                if len(waiting) == MOST_WAITING:
                    break
        return AgentQueue(_by_id(consumers), turn, tuple(waiting), pause)

    def next_turn(self, agent_id: str) -> int:
        key = keys.agent(agent_id), keys.TURN
        turned = self._table.update(key, "ADD turn :one", {"one": 1}, returning=True)
        return int(turned.row["turn"]) - 1

    def claim(self, agent_id: str, waiting: Waiting, until_ms: int) -> bool:
        key = keys.waiting(agent_id, waiting.created_at_ms, waiting.execution_id)
        return leases.claim(self._table, key, self._clock(), until_ms)

    def has_served(self, agent_id: str, name: str) -> bool:
        kept = self._table.get(*keys.served(agent_id, name))
        return kept is not None and kept["expires_at"] * 1000 > self._clock()

    def _keep_name(self, agent_id: str, old: Consumer | None, by: str) -> int:
        """Keep the name for the agent, unless a row that lasts tells so already; until when."""
        now_ms = self._clock()
        if old and old.by == by and old.named_until_ms - now_ms > NAME_KEPT_MS // 2:
            return old.named_until_ms
        until_s = (now_ms + NAME_KEPT_MS) // 1000
        self._table.put(at(keys.served(agent_id, by)) | {"expires_at": until_s})
        return until_s * 1000

    def sessions(self, agent_id: str, consumer_id: str) -> list[str]:
        return [row["sk"] for row in self._table.query(keys.held(agent_id, consumer_id), page=1_000)]

    def forget(self, consumer: Consumer) -> bool:
        values = {"generation": consumer.generation, "until": consumer.lease_until_ms}
        if not self._table.delete(_key(consumer), leases.SAME_AND_LAPSED, values).done:
            return False
        empty(self._table, "agent", consumer.agent_id, consumer.consumer_id)
        if not self.agent_queue(consumer.agent_id).consumers:
            self._table.delete((keys.agent(consumer.agent_id), keys.TURN))
        return True


def board_from(rows: Iterable[Item]) -> Board:
    """What the rows of consumers tell, and that of a pause before them."""
    consumers, pause = list[Consumer](), None
    for row in rows:
        if row["sk"] == keys.CONSUMERS:
            pause = pause_from(row)
        else:
            consumers.append(consumer_from(row))
    return Board(_by_id(consumers), pause)


def pause_item(agent_id: str, pause: Pause) -> Item:
    """A pause that begins, in a row that earlier code reads as a consumer that has lapsed."""
    lapsed = Consumer(agent_id, "", 0, 0, is_open=False)
    told = {"is_paused": True, "paused_at": pause.at_ms, "paused_by": pause.by, "paused_reason": pause.reason}
    return _item(lapsed) | at(keys.pause(agent_id)) | told


def pause_from(item: Item) -> Pause:
    """A stored pause."""
    begun = item["paused_at"], item["paused_by"], item["paused_reason"]
    if item["is_paused"]:
        return Pause(*begun)
    return Pause(*begun, item["resumed_at"], item["resumed_by"], item["resumed_reason"])


def _key(consumer: Consumer) -> Key:
    return keys.consumer(consumer.agent_id, consumer.consumer_id)


def _by_id(consumers: Iterable[Consumer]) -> tuple[Consumer, ...]:
    return tuple(sorted(consumers, key=lambda one: one.consumer_id))


def _waiting(item: Item) -> Waiting:
    _, created, execution_id = item["sk"].split("#", 2)
    return Waiting(execution_id, int(created), leases.claimed_until(item))


def _item(consumer: Consumer) -> Item:
    return at(_key(consumer)) | {
        "agent": consumer.agent_id,
        "consumer": consumer.consumer_id,
        "generation": consumer.generation,
        "lease_until": consumer.lease_until_ms,
        "is_open": consumer.is_open,
        **({"by": consumer.by, "named_until": consumer.named_until_ms} if consumer.by else {}),
        "since": consumer.since_ms,
    }


def consumer_from(item: Item) -> Consumer:
    """A stored consumer."""
    return Consumer(
        agent_id=item["agent"],
        consumer_id=item["consumer"],
        generation=item["generation"],
        lease_until_ms=item["lease_until"],
        is_open=item["is_open"],
        doubted_until_ms=leases.doubted_until(item),
        by=item.get("by", ""),
        named_until_ms=item.get("named_until", 0),
        since_ms=item.get("since", 0),
    )
