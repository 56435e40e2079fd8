"""Two loopback servers for cold starts: a Lambda Runtime API, and an AWS over TLS that accepts everything.

Each answer is one write with TCP_NODELAY; otherwise every call includes the peer's delayed acknowledgement.
"""

import contextlib
import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

STOP_POLL_SECONDS: Final = 0.2
FOUND: Final[Mapping[str, object]] = {  # what is answered to other operations is empty
    "Query": {"Items": [], "Count": 0, "ScannedCount": 0},
    "BatchGetItem": {"Responses": {}, "UnprocessedKeys": {}},
}


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open and answers in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # buffered: sent when the answer is complete

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Aws(Handler):
    server: "Aws"

    def do_POST(self) -> None:
        self.content()
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        answer = {"SecretString": self.server.secret} if operation == "GetSecretValue" else FOUND.get(operation, {})
        self.reply(200, json.dumps(answer).encode(), {"Content-Type": "application/x-amz-json-1.1"})

    def do_PUT(self) -> None:
        self.content()
        self.reply(200, b"", {"ETag": '"0"'})


class Server(ThreadingHTTPServer):
    """A loopback server on a free port, whose clients may cut connections off."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a measured process is killed with its connection open


class Aws(Server):
    """An AWS on which every conditional write succeeds and every read finds nothing, but for one secret."""

    def __init__(self, context: ssl.SSLContext, secret: str) -> None:
        super().__init__(_Aws)
        self.secret = secret
        self._context = context

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        # The handshake waits for the connection's own thread.
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address


class RuntimeApi(Server):
    """Gives `payload` to the first process that asks for work, and notes the times of the request and of the answer."""

    def __init__(self, payload: bytes) -> None:
        super().__init__(_Runtime)
        self.payload = payload
        self.marks: queue.Queue[tuple[float, bytes]] = queue.Queue()
        self.has_work = True


class _Runtime(Handler):
    server: RuntimeApi

    def do_GET(self) -> None:
        self.server.marks.put((time.perf_counter(), b""))
        if not self.server.has_work:
            self.rfile.read(1)  # until the process is killed: without an answer it would end before it is looked at
            self.close_connection = True
            return
        self.server.has_work = False
        deadline_ms = int((time.time() + 30) * 1000)
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:000000000000:function:bench",
        }
        self.reply(200, self.server.payload, headers)

    def do_POST(self) -> None:
        answer = self.content()
        self.server.marks.put((time.perf_counter(), answer))
        self.reply(202, b'{"status":"OK"}', {"Content-Type": "application/json"})


@contextlib.contextmanager
def serving(server: Server) -> Iterator[None]:
    """Serve in a separate thread."""
    thread = threading.Thread(target=server.serve_forever, args=(STOP_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
