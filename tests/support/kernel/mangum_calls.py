"""Calling an ASGI application through Mangum, with a loop of one's own that is closed again."""

import asyncio
from typing import Any

from mangum import Mangum


def through_mangum(app: Any, event: dict[str, Any]) -> dict[str, Any]:
    """The proxy answer to an event."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return dict(Mangum(app, lifespan="off")(event, None))  # type: ignore[arg-type]
    finally:
        asyncio.set_event_loop(None)
        loop.close()
