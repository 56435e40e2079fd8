"""Messages carry the trace header that they are sent under; all other requests pass unchanged."""

import json

import h11
import pytest

from local.gateway.lambdas.lineage import Stamping, admitted, stamped

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=0a1b2c3d:4"
SEND = "AmazonSQS.SendMessage"


def request(target: str, body: bytes, *, chunked: bool = False) -> bytes:
    framing = [("Transfer-Encoding", "chunked")] if chunked else [("Content-Length", str(len(body)))]
    headers = [("Host", "h"), ("X-Amz-Target", target), ("X-Amzn-Trace-Id", TRACE), *framing]
    connection = h11.Connection(h11.CLIENT)
    parts = (h11.Request(method="POST", target="/", headers=headers), h11.Data(data=body), h11.EndOfMessage())
    return b"".join(connection.send(part) or b"" for part in parts)


def read(data: bytes) -> list[bytes]:
    """The bodies of the requests in these bytes."""
    bodies: list[bytes] = []
    while data:
        connection, body = h11.Connection(h11.SERVER), b""
        connection.receive_data(data)
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            assert event is not h11.NEED_DATA
            body += bytes(event.data) if isinstance(event, h11.Data) else b""
        bodies.append(body)
        data = connection.trailing_data[0]
    return bodies


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_message_gets_the_trace_header_and_what_comes_before_and_behind_it_passes(size):
    message = json.dumps({"QueueUrl": "q", "MessageBody": "é"}).encode()
    sent = request("DynamoDB_20120810.GetItem", b'{"a":1}') + request(SEND, message) + request("x", b"z" * 999)
    sent += request("s3", b"streamed", chunked=True)

    stamping = Stamping()
    passed = b"".join(stamping.feed(sent[at : at + size]) for at in range(0, len(sent), size))

    first, second, third, fourth = read(passed)
    assert (first, third, fourth) == (b'{"a":1}', b"z" * 999, b"streamed")
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    assert json.loads(second) == {"QueueUrl": "q", "MessageBody": "é", "MessageSystemAttributes": trace}


def test_each_message_of_a_batch_gets_it_and_one_that_has_its_own_keeps_that():
    own = {"AWSTraceHeader": {"DataType": "String", "StringValue": "own"}}
    entries = [{"Id": "1", "MessageBody": "a"}, {"Id": "2", "MessageBody": "b", "MessageSystemAttributes": own}]

    first, second = json.loads(stamped(json.dumps({"Entries": entries}).encode(), TRACE))["Entries"]

    assert first["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"] == TRACE
    assert second["MessageSystemAttributes"] == own


def test_each_function_of_a_chain_is_counted_for_itself():
    trace = ""
    for _ in range(16):
        for name in ("Task", "Due"):
            trace = admitted([trace], name, may_loop=False) or ""
            assert trace

    assert admitted([trace], "Task", may_loop=False) is None
    assert admitted([trace], "Webhook", may_loop=False)
    assert admitted([trace], "Task", may_loop=True)


def test_a_batch_counts_as_its_longest_chain():
    long = ""
    for _ in range(16):
        long = admitted([long], "Task", may_loop=False) or ""

    assert admitted(["", long], "Task", may_loop=False) is None
