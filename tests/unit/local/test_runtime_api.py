"""The Runtime API gives each invocation to the process that asks for work, and reads what awslambdaric may send."""

import asyncio
import functools

import pytest

from local.gateway.lambdas.connection import Connection
from local.gateway.lambdas.runtime_api import Invocation, RuntimeApi, failure

NEXT = b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: here\r\n\r\n"
INVOCATION = Invocation("r-1", "Root=1", b'{"n":1}')


def on_a_loop(test):
    @functools.wraps(test)
    def run(**given):
        asyncio.run(test(**given))

    return run


class Wire(asyncio.Transport):
    """Collects what is written."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.closed = False

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True


def connected(api):
    connection, wire = Connection(api), Wire()
    connection.connection_made(wire)
    return connection, wire


def ended(body, path="response"):
    head = f"POST /2018-06-01/runtime/invocation/r-1/{path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@on_a_loop
async def test_an_invocation_goes_to_a_process_that_waits_in_one_write():
    api = RuntimeApi("F", 3)
    connection, wire = connected(api)
    connection.data_received(NEXT)

    answer = api.submit(INVOCATION)

    [delivered] = wire.writes
    assert delivered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nLambda-Runtime-Aws-Request-Id: r-1\r\n" in delivered
    assert delivered.endswith(b'\r\n\r\n{"n":1}')
    assert api.delivered
    assert not answer.done()


@on_a_loop
async def test_an_invocation_waits_for_a_process_that_does_not_ask_yet():
    api = RuntimeApi("F", 3)
    connection, wire = connected(api)
    api.submit(INVOCATION)
    assert not api.taken.done()

    connection.data_received(NEXT)

    assert len(wire.writes) == 1
    assert api.taken.done()


@on_a_loop
async def test_a_process_that_left_does_not_get_the_invocation():
    api = RuntimeApi("F", 3)
    connection, wire = connected(api)
    connection.data_received(NEXT)
    connection.connection_lost(None)

    api.submit(INVOCATION)

    assert wire.writes == []
    assert not api.delivered


@on_a_loop
async def test_an_invocation_that_has_ended_is_not_delivered_any_more():
    api = RuntimeApi("F", 3)
    api.submit(INVOCATION)
    api.settle(failure("Runtime.ExitError", "Runtime exited"))

    connection, wire = connected(api)
    connection.data_received(NEXT)

    assert wire.writes == []


@pytest.mark.parametrize(("path", "failed"), [("response", False), ("error", True)])
@pytest.mark.parametrize("size", [1, 7, 10_000])
@on_a_loop
async def test_an_answer_is_read_in_whatever_pieces_it_comes(path, failed, size):
    api = RuntimeApi("F", 3)
    connection, wire = connected(api)
    connection.data_received(NEXT)
    answer = api.submit(INVOCATION)
    sent = ended(b'{"errorMessage":"x"}', path)

    for begin in range(0, len(sent), size):
        connection.data_received(sent[begin : begin + size])

    assert answer.result().payload == b'{"errorMessage":"x"}'
    assert answer.result().failed is failed
    assert wire.writes[-1].startswith(b"HTTP/1.1 202 Accepted\r\n")
    connection.data_received(NEXT)
    api.submit(INVOCATION)
    assert wire.writes[-1].startswith(b"HTTP/1.1 200 OK\r\n")


@on_a_loop
async def test_a_process_that_asks_before_it_sends_a_body_is_told_to_go_on():
    connection, wire = connected(RuntimeApi("F", 3))
    head, body = ended(b"{}").split(b"\r\n\r\n")

    connection.data_received(head + b"\r\nExpect: 100-continue\r\n\r\n")
    assert wire.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]

    connection.data_received(body)
    assert wire.writes[-1].startswith(b"HTTP/1.1 202 Accepted\r\n")


@on_a_loop
async def test_the_wait_of_a_process_ends_with_the_api():
    api = RuntimeApi("F", 3)
    connection, wire = connected(api)
    connection.data_received(NEXT)

    api.close()

    assert wire.closed
