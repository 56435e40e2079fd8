"""Lists of agents and runners that have connected, and what of their connections is shown.

An agent's row lies in one of 16 partitions; a page asks all of them. Executors that are registered need no row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from piecework.aws.table import PRIMARY, Table
from piecework.kernel.connected.ports import Connections, Owner, Owners
from piecework.kernel.errors import Invalid
from piecework.kernel.model.ports.agents import Board
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Step
from piecework.kernel.store import keys
from piecework.kernel.store.agents import board_from
from piecework.kernel.store.items import execution_from
from piecework.kernel.store.links import linked_from
from piecework.kernel.store.listing.merging import merged
from piecework.kernel.wire.cursors import NOT_OURS


class KernelConnections(Connections):
    """Connections in DynamoDB."""

    def __init__(self, table: Table, clock: Callable[[], int]) -> None:
        self._table, self._clock = table, clock

    def agents(self, after: str, limit: int, hosted: Collection[str]) -> Owners:
        return self._owners(keys.AGENTS, after, limit, hosted)

    def runners(self, after: str, limit: int) -> Owners:
        return self._owners(keys.RUNNERS, after, limit, ())

    def has_agent(self, agent_id: str) -> bool:
        return self._has(keys.AGENTS, agent_id)

    def has_runner(self, runner_id: str) -> bool:
        return self._has(keys.RUNNERS, runner_id)

    def board(self, agent_id: str, most: int) -> Board:
        part = self._table.part(keys.agent(agent_id), most + 1, before=keys.TURN)
        board = board_from(part.rows)
        return Board(board.consumers[:most], board.pause)

    def waiting(self, agent_id: str, most: int) -> int:
        return len(self._table.part(keys.agent(agent_id), most, after=keys.WAITING).rows)

    def sessions(self, agent_id: str, consumer_id: str, most: int) -> list[str]:
        return [row["sk"] for row in self._table.part(keys.held(agent_id, consumer_id), most).rows]

    def links(self, runner_id: str, most: int) -> list[RunnerConnection]:
        part = self._table.part(keys.runner(runner_id), most, before=keys.AFTER_LINKS)
        return [linked_from(row) for row in part.rows]

    def steps(self, execution_ids: Sequence[str]) -> Mapping[str, tuple[Step, ...]]:
        rows = self._table.find([keys.meta(execution_id) for execution_id in execution_ids]).values()
        found = (execution_from(row, {}) for row in rows)
        return {execution.id: tuple(execution.steps.values()) for execution in found}

    def _has(self, kind: str, id_: str) -> bool:
        row = self._table.get(*keys.owner(kind, id_))
        return row is not None and row["expires_at"] > self._clock() / 1000

    def _owners(self, kind: str, after: str, limit: int, more: Collection[str]) -> Owners:
        if after and not keys.OWNER_KEY.fullmatch(after):
            raise Invalid(NOT_OURS)
        parts = [self._table.part(partition, limit + 1, after=after) for partition in keys.owners(kind)]
        stored = merged(parts, PRIMARY.sk)
        now_s = self._clock() / 1000
        names = {row["sk"]: row["name"] for row in stored.rows if row["expires_at"] > now_s}
        names |= {key: name for name in more if _is_within(key := keys.key_part(name), after, stored.read_to)}
        page = tuple(Owner(names[key], key) for key in islice(sorted(names), limit))
        return Owners(page, page[-1].key if len(names) > limit else stored.read_to)


def _is_within(key: str, after: str, end: str) -> bool:
    return key > after and (not end or key <= end)
