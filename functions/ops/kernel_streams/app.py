"""GET /ops/kernel/executions/{id}/stream: a plain ASGI application under the Lambda Web Adapter."""

from typing import Any, Final

from ops.kernel_streams.serving import Receive, Send, Streams, answer
from piecework.edge.http import Response
from piecework.ops.kernel.wiring import OpsKernelDoor

READY: Final = "/healthz"  # the adapter asks before the first request

door = OpsKernelDoor().ready("access", "telemetry", "watches")
streams = Streams(lambda: door.access, lambda: door.watches, lambda: door.telemetry)


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI entry point."""
    if scope["type"] != "http":
        return
    if scope["path"] == READY:
        await answer(send, Response(200, b'{"ok":true}'))
        return
    await streams.serve(scope, receive, send)
