"""What a stream does that looks at connections so late that they are over: as a program, with its variables.

`prepare` leaves an agent's consumer with a blocked execution and a runner's connection with what its runner published;
`look` is the stream's part.
"""

import sys

from piecework.clock import now_in_ms
from piecework.durable.due import Due
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.due_times import AGENT_DUE, RUNNER_DUE, pair_id
from piecework.kernel.model.ports.runners import ToolEntry
from piecework.kernel.model.state import Connection
from piecework.kernel.service.assigning import assign
from piecework.kernel.wiring import KernelDoor

NAME, CONSUMER = "late", "one"
LONG_AGO_MS, LAPSED_MS = 60_000, 30_000
LARGE = "x" * 400_000  # over what an item keeps


def prepare() -> None:
    """Nobody but us looks at them: their due times are taken away."""
    lapsed, stores = now_in_ms() - LAPSED_MS, KernelDoor()
    vars(stores)["clock"] = lambda: now_in_ms() - LONG_AGO_MS
    stores.runners.publish(NAME, [ToolEntry("draw.line", LARGE, None, NAME, 0)])
    stores.runners.connect(Connection(NAME, CONSUMER), [], lapsed)
    stores.agents.connect(NAME, CONSUMER, lapsed)
    doubt(stores, lapsed)
    for kind in (AGENT_DUE, RUNNER_DUE):
        stores.due_times.remove(Due(lapsed, kind, pair_id(NAME, CONSUMER)))
    block(KernelDoor())


def doubt(stores: KernelDoor, lapsed_ms: int) -> None:
    """They were looked at before, and have shown no sign of life since."""
    consumer, linked = stores.agents.find(NAME, CONSUMER), stores.runners.find(Connection(NAME, CONSUMER))
    assert consumer is not None and linked is not None
    stores.agents.doubt(consumer, lapsed_ms)
    stores.runners.doubt(linked, lapsed_ms)


def block(door: KernelDoor) -> None:
    """An execution of the consumer's that waits for a signal."""
    execution_id = door.kernel.create(NAME, None, {}).execution.id
    assign(door.commits, execution_id, CONSUMER, NAME)
    session = door.kernel.get(execution_id).execution.session
    assert session is not None
    door.kernel.intent(execution_id, session.id, Intent("wait", signal_type="go"))


def look() -> None:
    """As after lost streams."""
    streams = KernelDoor().streams
    streams.check_agent(NAME, CONSUMER)
    streams.check_runner(NAME, CONSUMER)


if __name__ == "__main__":
    {"prepare": prepare, "look": look}[sys.argv[1]]()
