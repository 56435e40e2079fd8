"""The kernel door but its streams: an ASGI application behind Mangum on Lambda."""

import asyncio
from typing import Any

from mangum import Mangum

from kernel.http.api import create_app
from kernel.http.doors import Door
from kernel.http.events import refused, repaired
from piecework.errors import BadRequest
from piecework.kernel.wiring import KernelDoor

door = KernelDoor().ready("kernel", "policy")
app = create_app(
    Door(
        kernel=door.kernel,
        runners=door.runners,
        counters=door.counters,
        dispatcher=door.dispatcher,
        connected=lambda: door.connected,
        ready=lambda: door.executions.read("ready"),
        tokens=door.tokens,
        roles=lambda: door.roles,
        origins=door.origins,
        bug=door.telemetry.bug,
        outcome=door.telemetry.outcome,
        uses_threads=False,
    )
)
if door.starts_ahead:
    from kernel.http.models import make_all

    make_all()
asyncio.set_event_loop(asyncio.new_event_loop())  # Mangum asks for the current one, and there is none yet
# All bodies as base64: a third more, whatever they hold. As text, quotes and backslashes would be escaped again, and a
# page of events that is full of them would not fit the 6 MB of a function's answer.
_asgi = Mangum(app.__call__, lifespan="off", text_mime_types=[])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The Lambda entry point."""
    try:
        return dict(_asgi(repaired(event), context))
    except BadRequest as error:
        return refused(error.message)
