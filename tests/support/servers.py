"""Web servers of strangers for tests: each path of the loopback server misbehaves in its own way."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).with_name("evidence.test.pem")  # self-signed, for the name evidence.test alone
NAME = "evidence.test"
BODY = b'{"found":"evidence"}'
BIG = 300_000


class StrangeHandler(BaseHTTPRequestHandler):
    """Answers by path; paths that hang do so until the server stops."""

    server: "StrangeServer"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Host", "")))
        self._ways().get(self.path.split("?")[0], lambda: self._answer(404, b"none"))()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, body.decode()))
        self._answer(202, b"taken")

    def _ways(self) -> dict[str, Callable[[], None]]:
        return {
            "/ok": lambda: self._answer(200, BODY),
            "/other": lambda: self._answer(200, b"other bytes"),
            "/500": lambda: self._answer(500, b""),
            "/401": lambda: self._answer(401, b""),
            "/403": lambda: self._answer(403, b""),
            "/redirect": lambda: self._answer(302, b"", {"Location": "/ok"}),
            "/big": lambda: self._answer(200, b"x" * BIG),
            "/gzip": lambda: self._answer(200, BODY, {"Content-Encoding": "gzip"}),
            "/hang": lambda: self.server.stopping.wait(30) and None,
            "/drip": self._drip,
            "/drip-headers": self._drip_headers,
            "/chunked": self._chunked,
            "/endless": self._endless,
            "/close-delimited": lambda: self._write(b"HTTP/1.1 200 OK\r\n\r\n" + BODY) and None,
            "/truncated": self._truncated,
            "/nonsense": lambda: self.wfile.write(b"this is not HTTP\r\n\r\n") and None,
        }

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(body)

    def _write(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
        except OSError:
            return False
        return True

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "900")
        self.end_headers()
        while not self.server.stopping.wait(0.02) and self._write(b"x"):
            pass

    def _drip_headers(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.server.stopping.wait(0.02) and self._write(b"x"):
            pass

    def _chunked(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (BODY[:5], BODY[5:], b""):
            self._write(b"%x\r\n%s\r\n" % (len(part), part))

    def _endless(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not self.server.stopping.is_set() and self._write(b"x" * 65_536):
            pass

    def _truncated(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")


class StrangeServer(ThreadingHTTPServer):
    """Counts what it was asked; stops without waiting for its hanging answers."""

    daemon_threads = True
    request_queue_size = 64
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StrangeHandler)
        self.seen: list[tuple[str, str]] = []
        self.stopping = threading.Event()
        self.secure = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that refuse our certificate or hang up are what tests want."""

    def url(self, path: str, host: str = NAME) -> str:
        return f"{'https' if self.secure else 'http'}://{host}:{self.server_port}{path}"


@contextmanager
def strange_server(*, secure: bool = False) -> Iterator[StrangeServer]:
    """A running server."""
    server = StrangeServer()
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(CERTIFICATE)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.secure = True
    with serving_in_a_thread(server):
        yield server


@contextmanager
def serving_in_a_thread(server: Any) -> Iterator[None]:
    """Serve until the block ends; whatever hangs in the server's handlers is told by its `stopping`."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
