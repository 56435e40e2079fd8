"""Keeping sessions alive: the leases of all open streams of a process, renewed together (specification 1.8, 10.4).

A lease says that a stream is open. It is renewed at every heartbeat, on a path of its own: nothing that may wait, such
as looks for messages and offers, stands before it. Many streams share a request, so a process with a thousand streams
renews them in some ten requests. What could not be renewed is tried again at once, in smaller groups.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from piecework.errors import PieceworkError
from piecework.kernel.model.ports.agents import Agents, Consumer
from piecework.kernel.model.ports.runners import RunnerConnection, Runners
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.push_streams import PushStream

MOST_AT_ONCE: Final = 100  # leases in one request, as many as a transaction holds


class Keeper:
    """Renews what is due."""

    def __init__(self, agents: Agents, runners: Runners, settings: KernelSettings, clock: Callable[[], int]) -> None:
        self._agents, self._runners, self._settings, self._clock = agents, runners, settings, clock
        self._group = MOST_AT_ONCE

    def keep(self, streams: Sequence[PushStream]) -> list[PushStream]:
        """Renew the leases that are due; the streams that turn out to have been replaced end with their next step.

        What goes wrong with the store leaves a lease due.
        """
        now = self._clock()
        newest, replaced = _newest_of_each(streams)
        for group in self._groups([stream for stream in newest if stream.lease_due_ms <= now]):
            try:
                replaced += self._renew(group)
                self._group = min(MOST_AT_ONCE, self._group * 2)
            except PieceworkError:
                self._group = max(1, self._group // 2)
        return replaced

    def _groups(self, due: list[PushStream]) -> Iterator[list[PushStream]]:
        while due:
            group, due = due[: self._group], due[self._group :]
            yield group

    def _renew(self, group: list[PushStream]) -> list[PushStream]:
        now = self._clock()
        until = now + self._settings.lease_ms
        consumers = [stream.lease for stream in group if isinstance(stream.lease, Consumer)]
        linked = [stream.lease for stream in group if isinstance(stream.lease, RunnerConnection)]
        gone: set[Consumer | RunnerConnection] = set()
        if consumers:
            gone.update(self._agents.refresh_all(consumers, until))
        if linked:
            gone.update(self._runners.refresh_all(linked, until))
        for stream in group:
            if stream.lease in gone:
                stream.supersede()
            else:
                stream.kept(now)
        return [stream for stream in group if stream.lease in gone]


def _newest_of_each(streams: Sequence[PushStream]) -> tuple[list[PushStream], list[PushStream]]:
    """The last stream of each connection, and those it has replaced: a request takes each row once."""
    newest: dict[object, PushStream] = {}
    for stream in sorted(streams, key=lambda each: each.lease.generation):
        newest[_row(stream.lease)] = stream
    last = set(newest.values())
    older = [stream for stream in streams if stream not in last]
    for stream in older:
        stream.supersede()
    return [stream for stream in streams if stream in last], older


def _row(lease: Consumer | RunnerConnection) -> object:
    return lease.connection if isinstance(lease, RunnerConnection) else (lease.agent_id, lease.consumer_id)
