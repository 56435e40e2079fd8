"""Loopback ports for servers that are about to listen."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Final

HOST: Final = "127.0.0.1"


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port on which a server may listen, and nobody else is given: not even before the server has started.

    On Linux a socket that is bound but does not listen keeps the port, and a server that reuses addresses, as servers
    do, may listen beside it. Other systems refuse that, so there the port is free again at once.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, 0))
        port = int(holder.getsockname()[1])
        if not sys.platform.startswith("linux"):
            holder.close()
        yield port
