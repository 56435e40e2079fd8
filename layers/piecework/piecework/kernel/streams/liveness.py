"""Liveness: what happens when a connection has not come back in time (specification sections 1.6, 1.8, 10.4).

A connection is alive while its stream refreshes its lease, and for a grace after its end. Its due time lies near the
end of the lease; who looks then and finds the lease refreshed puts the due time off, so heartbeats write nothing else.
A lapsed connection stays on record for a moment: an assignment that was decided just before is found by the second
look.

An open stream is not lost because its process is busy, or because the table takes no writes for a while. So who finds
its lease about to lapse first writes into the same row that he doubts it. That shows that the row can be written, and
a stream that lives tries to renew its lease every half second: it has the rest of the lease, and no less than three
seconds, to answer.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from piecework.durable.due import Due, DueTimes, Nudge
from piecework.errors import Unavailable
from piecework.kernel.model.due_times import AGENT_DUE, EXECUTION_DUE, RUNNER_DUE, pair_id, pair_of
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.runners import RunnerConnection
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.model.state import Connection
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.service import Kernel
from piecework.kernel.streams.feeds import give_back
from piecework.values import dataclass

LOG: Final = logging.getLogger(__name__)
DOUBT_MS: Final = 3_000  # for an open stream to answer a doubt; it tries every half second
LINGER_MS: Final = 6_000  # a command gives up after 4 s of pauses, so nothing is decided later from an ended lease


class Checked(NamedTuple):
    """What the check of a connection found."""

    next_ms: int | None  # when to check again, if at all
    has_acted: bool = False  # sessions were ended, a job was given back, or the connection was forgotten


@dataclass(frozen=True, slots=True)
class Liveness:
    """Looks at connections when their time has come."""

    stores: Stores
    kernel: Kernel
    dispatcher: Queues
    due_times: DueTimes
    clock: Callable[[], int]
    nudge: Nudge

    def check(self, due: Due) -> bool:
        """Look at what a due time of the kernel door is about; whether that brought anything."""
        if due.kind == EXECUTION_DUE:
            return self._touch(due)
        look = self.check_agent if due.kind == AGENT_DUE else self.check_runner
        next_ms, has_acted = look(*pair_of(due.id))
        if next_ms is not None:
            self.due_times.put(Due(next_ms, due.kind, due.id))
        if next_ms != due.at_ms:
            self.due_times.remove(due)
        return has_acted

    def _touch(self, due: Due) -> bool:
        """Look at an execution; its own due time is moved on by what happens to it."""
        touched = self.kernel.run_due_timers(due.id)
        if touched is None:
            self.due_times.remove(due)
            return False
        if touched.due_ms != due.at_ms:
            self._drop_stale(due)
        return touched.has_acted

    def check_agent(self, agent_id: str, consumer_id: str) -> Checked:
        """End the sessions of a consumer whose lease has lapsed."""
        consumer = self.stores.agents.find(agent_id, consumer_id)
        if consumer is None:
            return Checked(None)
        expect = partial(self.expect_agent, agent_id, consumer_id)
        waits = self._waits(consumer, partial(self.stores.agents.doubt, consumer), expect)
        if waits is not None:
            return Checked(waits)
        has_ended = self._end_sessions(consumer)
        if self.clock() < consumer.lease_until_ms + LINGER_MS:
            return Checked(consumer.lease_until_ms + LINGER_MS, has_ended)
        if self.stores.agents.forget(consumer):
            return Checked(None, has_acted=True)
        found = self.stores.agents.find(agent_id, consumer_id)  # it has shown itself just now
        return Checked(found.lease_until_ms if found else None, has_ended)

    def check_runner(self, runner_id: str, consumer_id: str) -> Checked:
        """Give back the job of a connection whose lease has lapsed."""
        linked = self.stores.runners.find(Connection(runner_id, consumer_id))
        if linked is None:
            return Checked(None)
        expect = partial(self.expect_runner, runner_id, consumer_id)
        waits = self._waits(linked, partial(self.stores.runners.doubt, linked), expect)
        if waits is not None:
            return Checked(waits)
        is_given = self._give_back(linked)
        if self.clock() < linked.lease_until_ms + LINGER_MS:
            return Checked(linked.lease_until_ms + LINGER_MS, is_given)
        if self.stores.runners.forget(linked):
            return Checked(None, has_acted=True)
        found = self.stores.runners.find(linked.connection)  # it has shown itself just now
        return Checked(found.lease_until_ms if found else None, is_given)

    def expect_agent(self, agent_id: str, consumer_id: str, at_ms: int) -> None:
        """Have somebody look at a consumer then."""
        self._expect(Due(at_ms, AGENT_DUE, pair_id(agent_id, consumer_id)))

    def expect_runner(self, runner_id: str, consumer_id: str, at_ms: int) -> None:
        """Have somebody look at a connection then."""
        self._expect(Due(at_ms, RUNNER_DUE, pair_id(runner_id, consumer_id)))

    def _expect(self, due: Due) -> None:
        self.due_times.put(due)
        self.nudge(due, max(0, due.at_ms - self.clock()))

    def _waits(
        self, found: Consumer | RunnerConnection, doubt: Callable[[int], bool], expect: Callable[[int], None]
    ) -> int | None:
        """When to look again at a connection that may still be alive; None when it is lost."""
        now = self.clock()
        if not found.is_open:
            return found.lease_until_ms if now < found.lease_until_ms else None
        if found.doubted_until_ms:
            return found.doubted_until_ms if now < found.doubted_until_ms else None
        if now < found.lease_until_ms - DOUBT_MS:
            return found.lease_until_ms - DOUBT_MS
        until = max(found.lease_until_ms, now + DOUBT_MS)
        if doubt(until):
            expect(until)
        return until

    def _drop_stale(self, due: Due) -> None:
        """Remove a due time that no command will: the settings that it was derived from have changed since."""
        if self.kernel.due_ms(due.id) == due.at_ms:
            return
        self.due_times.remove(due)
        if self.kernel.due_ms(due.id) == due.at_ms:  # a command has just come to the same time
            self.due_times.put(due)

    def _end_sessions(self, consumer: Consumer) -> bool:
        """Whether there were any. What an execution meets is raised, or logged, when all others have had their turn."""
        has_ended, trouble = False, list[Exception]()
        for execution_id in self.stores.agents.sessions(consumer.agent_id, consumer.consumer_id):
            try:
                has_ended = self._end_session(execution_id, consumer) or has_ended
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001  # the first is raised below, the others are logged
                trouble.append(error)
        for further in trouble[1:]:
            LOG.warning("a further session was not ended", exc_info=further)
        if trouble:
            raise trouble[0]
        return has_ended

    def _end_session(self, execution_id: str, consumer: Consumer) -> bool:
        execution = self.stores.executions.read(execution_id).execution
        if execution is None or execution.status.is_terminal or execution.session is None:
            return False
        if execution.session.consumer_id != consumer.consumer_id:
            return False
        return bool(self.kernel.agent_lost(execution_id, execution.session.id))

    def _give_back(self, linked: RunnerConnection) -> bool:
        if not linked.job_id or not give_back(self.stores.executions, self.kernel, linked.connection, linked):
            return False
        for tool_id in linked.tools:
            self.dispatcher.pump_tool(tool_id)
        return True
