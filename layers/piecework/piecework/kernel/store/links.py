"""Runners' connections in the kernel table, and the rows by which a tool finds those that offer it.

A tool's rows are hints, written before the link and removed after it: they carry the link's generation, and the link
tells whether the connection is there, idle, and still offers the tool.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.table import TRIES, Table
from piecework.aws.writes import ABSENT, Key, at, new_write
from piecework.errors import Unavailable
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.state import Connection
from piecework.kernel.store import keys, leases
from piecework.kernel.store.outbox import empty
from piecework.kernel.store.values import text_of
from piecework.values import replace

HOLDS: Final = "job_id = :job"
SAME_AND_UNCHANGED: Final = f"{leases.SAME} AND {HOLDS}"
SAME_AND_OLD_TOOLS: Final = f"{leases.SAME} AND tools = :old"
STALE_MS: Final = 60_000  # a hint without its link is removed if it is found after this time
PAGE: Final = 100


class Links:
    """Connections, each with what it offers and the job in its hand."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def open(self, wanted: RunnerConnection, now_ms: int) -> tuple[RunnerConnection, RunnerConnection | None]:
        """Put a connection in place of what is there; a job survives what had ended, not what was still open."""
        for attempt in range(TRIES):
            row = self._table.get(*_key(wanted.connection))
            old = linked_from(row) if row else None
            noted = leases.note(self._table, keys.RUNNERS, wanted.connection.runner_id, row, now_ms)
            generation, since = max(now_ms, old.generation + 1 if old else 1), leases.since(row, now_ms)
            made = replace(wanted, generation=generation, since_ms=since)
            if old and not old.is_open:
                made = replace(made, job_id=old.job_id, execution_id=old.execution_id)
            self._table.put_all([_offer(made, tool_id) for tool_id in made.tools])
            values = {"generation": old.generation, "job": old.job_id} if old else None
            item = _item(made) | {"noted_at": noted, "write": new_write()}
            if self._table.put(item, SAME_AND_UNCHANGED if old else ABSENT, values).done:
                self._drop_offers(old)
                return made, old
            self._drop_offers(made)
            self._table.pause(attempt)
        raise Unavailable("this connection is opened too often; try again")

    def set_lease(self, linked: RunnerConnection, until_ms: int, *, is_open: bool) -> bool:
        """Move an open connection's lease, or end it; False when it is of another generation, or ended."""
        return leases.set_lease(self._table, _key(linked.connection), linked.generation, until_ms, is_open=is_open)

    def set_leases(self, links: Sequence[RunnerConnection], until_ms: int) -> list[RunnerConnection]:
        """Move many open connections' leases; those that are of another generation, or ended."""
        places = [(_key(linked.connection), linked.generation) for linked in links]
        kept = leases.set_leases(self._table, places, until_ms)
        return [linked for linked, is_kept in zip(links, kept, strict=True) if not is_kept]

    def doubt(self, linked: RunnerConnection, until_ms: int) -> bool:
        """Note that an open connection's lease seems to lapse; False when it has just been moved."""
        key = _key(linked.connection)
        return leases.doubt(self._table, key, linked.generation, linked.lease_until_ms, until_ms)

    def set_tools(self, linked: RunnerConnection, tools: Sequence[str]) -> None:
        """Replace what a connection offers; nothing when it is of another generation by now."""
        while linked.tools != tuple(tools):
            self._table.put_all([_offer(linked, tool_id) for tool_id in tools])
            values = {
                "tools": text_of(list(tools)),
                "old": text_of(list(linked.tools)),
                "generation": linked.generation,
            }
            if self._table.update(_key(linked.connection), "SET tools = :tools", values, SAME_AND_OLD_TOOLS).done:
                return
            found = self.find(linked.connection)
            if found is None or found.generation != linked.generation:
                return
            linked = found

    def find(self, connection: Connection) -> RunnerConnection | None:
        """A connection."""
        item = self._table.get(*_key(connection))
        return linked_from(item) if item else None

    def of(self, runner_id: str) -> list[RunnerConnection]:
        """A runner's connections."""
        rows = self._table.query(keys.runner(runner_id), before=keys.AFTER_LINKS, page=PAGE)
        return sorted(map(linked_from, rows), key=lambda linked: linked.generation)

    def offering(self, tool_id: str, now_ms: int) -> list[RunnerConnection]:
        """Connections that offer a tool, in connection order."""
        hints = list(self._table.query(keys.tool(tool_id), before=keys.TURN, page=PAGE))
        places = [keys.link(hint["runner"], hint["consumer"]) for hint in hints]
        found = self._table.find(places) if places else {}
        offering: list[RunnerConnection] = []
        for hint, place in zip(hints, places, strict=True):
            generation = int(hint["sk"].partition("#")[0])
            linked = linked_from(found[place]) if place in found else None
            if linked is not None and linked.generation == generation:
                offering += [linked] if tool_id in linked.tools else []
            elif generation < now_ms - STALE_MS:
                self._table.delete((hint["pk"], hint["sk"]))
        return offering

    def free(self, connection: Connection, job_id: str) -> bool:
        """Make a connection idle if it holds that job."""
        values = {"job": job_id, "none": ""}
        expression = "SET job_id = :none, execution_id = :none"
        return bool(job_id) and self._table.update(_key(connection), expression, values, HOLDS).done

    def forget(self, linked: RunnerConnection, *, even_alive: bool = False) -> bool:
        """Remove a connection with its messages; False when it has shown itself since, or came back."""
        values = {"generation": linked.generation}
        condition = leases.SAME if even_alive else leases.SAME_AND_LAPSED
        lapsed = {} if even_alive else {"until": linked.lease_until_ms}
        if not self._table.delete(_key(linked.connection), condition, values | lapsed).done:
            return False
        self._drop_offers(linked)
        empty(self._table, "runner", linked.connection.runner_id, linked.connection.consumer_id)
        return True

    def _drop_offers(self, linked: RunnerConnection | None) -> None:
        """Remove the hints of tools that a generation offers now; hints of earlier tools go when they are met."""
        if linked:
            connection, generation = linked.connection, linked.generation
            offered = (
                keys.offer(tool_id, generation, connection.runner_id, connection.consumer_id)
                for tool_id in linked.tools
            )
            self._table.delete_all(list(offered))


def _key(connection: Connection) -> Key:
    return keys.link(connection.runner_id, connection.consumer_id)


def _offer(linked: RunnerConnection, tool_id: str) -> Item:
    runner_id, consumer_id = linked.connection.runner_id, linked.connection.consumer_id
    key = keys.offer(tool_id, linked.generation, runner_id, consumer_id)
    return at(key) | {"runner": runner_id, "consumer": consumer_id}


def _item(linked: RunnerConnection) -> Item:
    return at(_key(linked.connection)) | {
        "runner": linked.connection.runner_id,
        "consumer": linked.connection.consumer_id,
        "generation": linked.generation,
        "lease_until": linked.lease_until_ms,
        "is_open": linked.is_open,
        "tools": text_of(list(linked.tools)),
        "job_id": linked.job_id,
        "execution_id": linked.execution_id,
        "connected_at": linked.connected_at_ms,
        "since": linked.since_ms,
    }


def linked_from(item: Item) -> RunnerConnection:
    """A stored connection."""
    return RunnerConnection(
        connection=Connection(item["runner"], item["consumer"]),
        generation=item["generation"],
        lease_until_ms=item["lease_until"],
        is_open=item["is_open"],
        tools=tuple(json.loads(item["tools"])),
        job_id=item["job_id"],
        execution_id=item["execution_id"],
        connected_at_ms=item["connected_at"],
        doubted_until_ms=leases.doubted_until(item),
        since_ms=item.get("since", 0),
    )
