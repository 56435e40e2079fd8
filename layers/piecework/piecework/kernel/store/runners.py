"""Runners in the kernel table: connections (links.py), queues of jobs, and the tool directory.

What a runner published lies in one row of the directory, long lists in the bucket. It goes with the runner's last
connection, unless it was published after that one's lease had ended: clients publish before they connect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from piecework.aws.table import Table
from piecework.aws.writes import ABSENT, PRESENT, at, new_write
from piecework.clock import DAY_MS
from piecework.durable.due import Due, DueTimes
from piecework.jsons.stored import known
from piecework.kernel.model.changes import QueuedJob
from piecework.kernel.model.due_times import RUNNER_DUE, pair_id
from piecework.kernel.model.ports.runners import RunnerConnection, Runners, ToolEntry
from piecework.kernel.model.state import Connection
from piecework.kernel.store import keys, leases
from piecework.kernel.store.items import queued_from
from piecework.kernel.store.links import Links
from piecework.kernel.store.values import KernelValues, text_of
from piecework.values import asdict

FOLDER: Final = "tools"  # of long lists in the bucket; no execution's id is a plain word like this
BEFORE: Final = "published_at <= :until"
PAGE: Final = 100
UNCLAIMED: Final = 10  # queued jobs to choose from
LOOKED_AT: Final = 25  # that are read at once to find those
LOOKED_THROUGH: Final = 100  # at most; so many connections may be handing out others at this moment
SEEN_MS: Final = 400 * DAY_MS  # how long a runner is remembered; ids that are never used again go


class KernelRunners(Runners):
    """Runners in DynamoDB; their due times lie in the due-time table."""

    def __init__(self, table: Table, values: KernelValues, due_times: DueTimes, clock: Callable[[], int]) -> None:
        self._table, self._values, self._due_times, self._clock = table, values, due_times, clock
        self._links = Links(table)

    def connect(
        self, connection: Connection, tools: Sequence[str], lease_until_ms: int
    ) -> tuple[RunnerConnection, RunnerConnection | None]:
        runner_id, now = connection.runner_id, self._clock()
        listed = self._known(runner_id)
        if listed is None:
            self._see(runner_id, [], overwrite=False)
        self._due_times.put(Due(lease_until_ms, RUNNER_DUE, pair_id(runner_id, connection.consumer_id)))
        wanted = RunnerConnection(connection, 0, lease_until_ms, True, _joined(tools, listed), connected_at_ms=now)
        linked, replaced = self._links.open(wanted, now)
        return self._caught_up(linked, tools, listed), replaced

    def refresh(self, linked: RunnerConnection, lease_until_ms: int) -> bool:
        return self._links.set_lease(linked, lease_until_ms, is_open=True)

    def refresh_all(self, linked: Sequence[RunnerConnection], lease_until_ms: int) -> list[RunnerConnection]:
        return self._links.set_leases(linked, lease_until_ms)

    def doubt(self, linked: RunnerConnection, until_ms: int) -> bool:
        return self._links.doubt(linked, until_ms)

    def end(self, linked: RunnerConnection, grace_until_ms: int) -> bool:
        return self._links.set_lease(linked, grace_until_ms, is_open=False)

    def find(self, connection: Connection) -> RunnerConnection | None:
        return self._links.find(connection)

    def connections(self, runner_id: str) -> list[RunnerConnection]:
        return self._links.of(runner_id)

    def offering(self, tool_id: str) -> list[RunnerConnection]:
        return self._links.offering(tool_id, self._clock())

    def next_turn(self, tool_id: str) -> int:
        turned = self._table.update((keys.tool(tool_id), "TURN"), "ADD turn :one", {"one": 1}, returning=True)
        return int(turned.row["turn"]) - 1

    def set_tools(self, runner_id: str, tools: Sequence[str]) -> bool:
        if self._known(runner_id) is None:
            return False
        self._set_tools(runner_id, tools)
        return True

    def free(self, connection: Connection, job_id: str) -> bool:
        return self._links.free(connection, job_id)

    def queued(self, tool_id: str, now_ms: int, limit: int) -> list[QueuedJob]:
        rows = self._table.query(keys.queue(tool_id), before=keys.time(now_ms + 1), page=limit)
        return [queued_from(row) for row in islice(rows, limit)]

    def unclaimed(self, tool_id: str, now_ms: int) -> list[QueuedJob]:
        rows = self._table.query(keys.queue(tool_id), before=keys.time(now_ms + 1), page=LOOKED_AT)
        free = (row for row in islice(rows, LOOKED_THROUGH) if leases.claimed_until(row) <= now_ms)
        return [queued_from(row) for row in islice(free, UNCLAIMED)]

    def claim_job(self, job: QueuedJob, until_ms: int) -> bool:
        key = keys.queued(job.tool_id, job.not_before_ms, job.job_id)
        return leases.claim(self._table, key, self._clock(), until_ms)

    def unclaim_job(self, job: QueuedJob) -> None:
        leases.unclaim(self._table, keys.queued(job.tool_id, job.not_before_ms, job.job_id))

    def publish(self, runner_id: str, tools: Sequence[ToolEntry]) -> None:
        item = at((keys.DIRECTORY, keys.key_part(runner_id))) | {
            **self._values.packed(FOLDER, [asdict(tool) for tool in tools]),
            "published_at": self._clock(),
            "expires_at": (self._clock() + SEEN_MS) // 1000,
        }
        self._forget_published(runner_id)
        self._table.put(item)
        self._set_tools(runner_id, [tool.id for tool in tools])

    def directory(self, prefix: str) -> list[ToolEntry]:
        newest: dict[str, ToolEntry] = {}
        rows = self._table.query(keys.DIRECTORY, page=PAGE)
        entries = [known(ToolEntry, entry) for row in rows for entry in self._values.value(row)]
        for entry in sorted(entries, key=lambda entry: (entry.registered_at_ms, entry.runner_id)):
            newest[entry.id] = entry
        return [newest[name] for name in sorted(newest) if not prefix or _begins(name, prefix)]

    def forget(self, linked: RunnerConnection) -> bool:
        if not self._links.forget(linked):
            return False
        runner_id = linked.connection.runner_id
        if not self._links.of(runner_id) and self._forget_published(runner_id, linked.lease_until_ms):
            self._see(runner_id, [])
        return True

    def delete(self, runner_id: str) -> bool:
        if not self._table.delete(keys.seen(runner_id), PRESENT).done:
            return False
        self._table.delete(keys.owner(keys.RUNNERS, runner_id))
        for linked in self._links.of(runner_id):
            self._links.forget(linked, even_alive=True)
        self._forget_published(runner_id)
        return True

    def _known(self, runner_id: str) -> list[str] | None:
        """The last list of a runner's tools; None when it was never seen."""
        item = self._table.get(*keys.seen(runner_id))
        return None if item is None else list(json.loads(item["tools"]))

    def _see(self, runner_id: str, tools: Sequence[str], *, overwrite: bool = True) -> None:
        expires = (self._clock() + SEEN_MS) // 1000
        item = at(keys.seen(runner_id)) | {
            "runner": runner_id,
            "tools": text_of(list(tools)),
            "expires_at": expires,
        }
        if overwrite:
            self._table.put(item)
        else:
            self._table.put(item | {"write": new_write()}, ABSENT)

    def _caught_up(self, linked: RunnerConnection, tools: Sequence[str], listed: list[str] | None) -> RunnerConnection:
        """A list that was set while the connection was opened did not find it."""
        since = self._known(linked.connection.runner_id)
        if since is None or since == (listed or []):
            return linked
        self._links.set_tools(linked, _joined(tools, since))
        return self._links.find(linked.connection) or linked

    def _set_tools(self, runner_id: str, tools: Sequence[str]) -> None:
        self._see(runner_id, tools)
        for linked in self._links.of(runner_id):
            self._links.set_tools(linked, _joined(tools, None))

    def _forget_published(self, runner_id: str, until_ms: int | None = None) -> bool:
        """Remove a runner's part of the directory; False when it was published after that time."""
        key = (keys.DIRECTORY, keys.key_part(runner_id))
        item = self._table.get(*key)
        if item is None:
            return True
        values = {"until": until_ms} if until_ms is not None else None
        if not self._table.delete(key, BEFORE if values else "", values).done:
            return False
        self._values.drop(item)
        return True


def _joined(tools: Sequence[str], listed: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*tools, *(listed or [])]))


def _begins(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith((f"{prefix}.", f"{prefix}_"))
