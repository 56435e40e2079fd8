"""Serve one API of template.yaml on a loopback port: `python -m local.gateway --api RuntimeApi --port 8787`."""

import argparse
import os
import socket
from pathlib import Path
from typing import Final

import uvicorn

from local.gateway.app import Gateway
from local.gateway.lambdas.variables import OWN_TOKENS, ROOT, TOKENS, parameters
from local.gateway.routes import api_of
from local.template import Template

GRACE_SECONDS: Final = 2
KEEP_ALIVE_SECONDS: Final = 75
BACKLOG: Final = 512
NO_TOKENS: Final = """
  *** {name} is not set: EVERYBODY who can reach this port may use it. ***
  *** Set it to a comma list of name=secret entries to ask for credentials. ***
"""


class _Server(uvicorn.Server):
    """A server that prints its address when it listens."""

    def __init__(self, config: uvicorn.Config, notice: str) -> None:
        super().__init__(config)
        self._notice = notice

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._notice, flush=True)


def main() -> None:
    """Read the template, listen, and serve until a signal."""
    arguments = _arguments()
    template = Template.load(arguments.template, parameters(os.environ))
    api = api_of(template, arguments.api)
    listener = _listen(arguments.port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if not os.environ.get(TOKENS) and any(route.authorizer for route in api.routes):
        print(NO_TOKENS.format(name=TOKENS), flush=True)
    for name in OWN_TOKENS:
        own = any(f"{name}_SECRET_ARN" in function.environment for function in api.functions.values())
        if own and not os.environ.get(name):
            print(NO_TOKENS.format(name=name), flush=True)
    config = uvicorn.Config(
        Gateway(api, url, os.environ).app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a REST API takes the source's address from the connection
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    _Server(config, f"{api.name} listens on {url}").run([listener])


def _listen(port: int) -> socket.socket:
    """A loopback listener with its protocol set; without it asyncio leaves Nagle on and every answer waits 40 ms."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="local.gateway", description=__doc__)
    parser.add_argument("--api", default="RuntimeApi", help="the API's logical name in the template")
    parser.add_argument("--port", type=int, default=8787, help="the port to listen on; 0 takes a free one")
    parser.add_argument("--template", type=Path, default=ROOT / "template.yaml")
    return parser.parse_args()


if __name__ == "__main__":
    main()
