"""Ports that are held for servers which are about to start."""

import socket
import sys

import pytest

from local.gateway.held_port import HOST, held_port


@pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="held_port keeps a port on Linux alone: other systems let no server listen beside the socket that holds it",
)
def test_a_held_port_is_a_servers_and_nobody_elses():
    with held_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=5)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind((HOST, port))

        with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port), timeout=5):
            taken, _ = server.accept()
            taken.close()
