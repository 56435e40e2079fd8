"""Watching an execution as it goes on: its log as server-sent events, looked at now and then.

Nobody who watches is woken by hints, as agents are: a person does not see a quarter of a second, and every look at a
mark reads the whole checkpoint. A look reads what the log has after the last event, one unit however large the
execution is. Looks are frequent while there is news, and rarer the longer there was nothing new.

| last news            | a look every |
|----------------------|--------------|
| up to 5 s ago        | 0.25 s       |
| up to a minute ago   | 1 s          |
| longer ago           | 2 s          |

A stream ends after two minutes; the reader comes again with the id of the last event. So a token that is revoked, and
a reader who has left where nobody sees that, have an end.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from piecework.edge.ports import Telemetry
from piecework.edge.roles import Caller
from piecework.kernel.model.ports.executions import Executions
from piecework.kernel.needs import APPROVERS
from piecework.kernel.settings import KernelSettings
from piecework.kernel.streams.monitor import Monitor
from piecework.kernel.streams.push_streams import Step
from piecework.ops.door import Asked
from piecework.ops.kernel.reading import MOST_SEQUENCE, PRIVATE
from piecework.ops.kernel_routes import STREAM
from piecework.ops.query import number, texts
from piecework.values import replace

GAPS: Final = ((5.0, 0.25), (60.0, 1.0), (float("inf"), 2.0))  # seconds since the last news, seconds between looks
LIFE_SECONDS: Final = 120.0
HEARTBEAT_SECONDS: Final = 15.0  # a proxy closes what is silent for longer than half a minute
AGAIN_MS: Final = 15_000  # between looks whether an execution without news is still there


class Watch:
    """One reader's stream; `now` are seconds of one clock."""

    def __init__(self, monitor: Monitor, now: float) -> None:
        self._monitor = monitor
        self._ends_at, self._news_at = now + LIFE_SECONDS, now - GAPS[0][0]

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to open a stream for: the reader knows the end."""
        return self._monitor.is_over

    def look(self, now: float) -> Step:
        """What is new, and whether the stream ends: with the execution, or with its own life."""
        step = self._monitor.step()
        if step.frames:
            self._news_at = now
        return Step(step.frames, step.ends or now >= self._ends_at)

    def gap(self, now: float) -> float:
        """The seconds until the next look."""
        quiet = now - self._news_at
        return next(gap for since, gap in GAPS if quiet < since)


class Watches:
    """Opens streams."""

    def __init__(
        self, executions: Executions, settings: KernelSettings, clock: Callable[[], int], telemetry: Telemetry
    ) -> None:
        self._executions, self._clock, self._telemetry = executions, clock, telemetry
        self._settings = replace(settings, heartbeat_ms=AGAIN_MS)

    def open(self, asked: Asked, now: float) -> Watch:
        """Follow the log of the execution that the path names, after `after_sequence`, or else after `Last-Event-ID`.

        Private arguments are for approvers, and a stream's first look at some is logged.

        Raises:
            NotFound: no such execution.
            BadRequest: a parameter has no meaning.
        """
        given = texts(asked.request.query, "after_sequence")
        known = asked.request.header("last-event-id")
        after = number({"after_sequence": known, **given} if known else given, "after_sequence", 0, MOST_SEQUENCE)
        id_, caller = asked.named["execution_id"], asked.caller
        looked = partial(self._note_look, id_, caller) if caller.may(APPROVERS) else None
        return Watch(Monitor(id_, after, self._executions, self._settings, self._clock, looked), now)

    def _note_look(self, execution_id: str, caller: Caller) -> None:
        facts = {"caller": caller.name or None, "execution_id": execution_id, "shows": PRIVATE}
        self._telemetry.outcome("ops_kernel_streams", {"route": f"GET {STREAM}", **facts}, {})
