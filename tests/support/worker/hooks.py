"""A seeker's webhook server on loopback TLS: it answers what it is told to, and remembers what it was sent."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from piecework.net.fetching import Fetcher
from piecework.webhooks.deliveries import Ask, Delivery, Try
from piecework.webhooks.sending import ANSWER_BYTES, CONNECT_SECONDS, SafePost
from tests.support.servers import CERTIFICATE, NAME, serving_in_a_thread


@dataclass(frozen=True)
class Posted:
    """One request as it arrived; header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes


class HookHandler(BaseHTTPRequestHandler):
    server: "HookServer"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.posted.append(Posted(self.path, headers, body))
        {"/drip": self._drip, "/huge": self._huge, "/silent": self._silent}.get(self.path, self._answer)()

    def _answer(self) -> None:
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "https://169.254.169.254/latest/meta-data/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.stopping.wait(0.02) and self._write(b"x"):
            pass

    def _huge(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(1_000_000_000))
        self.end_headers()
        while not self.server.stopping.is_set() and self._write(b"x" * 65_536):
            self.server.written += 65_536

    def _silent(self) -> None:
        self.server.stopping.wait(30)

    def _write(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
        except OSError:
            return False
        return True


class HookServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HookHandler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(CERTIFICATE)
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.posted: list[Posted] = []
        self.statuses: list[int] = []
        self.stopping = threading.Event()
        self.written = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what tests want."""

    def url(self, path: str = "/hook") -> str:
        return f"https://{NAME}:{self.server_port}{path}"


@contextmanager
def hook_server() -> Iterator[HookServer]:
    server = HookServer()
    with serving_in_a_thread(server):
        yield server


def a_post(*, seconds: float = 20.0, resolve=None, allow=None) -> SafePost:
    """The real way to post, let onto the loopback server."""
    fetcher = Fetcher(
        resolve=resolve or (lambda host, port: ["127.0.0.1"]),
        allow=allow or (lambda address: str(address) == "127.0.0.1"),
        timeout_seconds=seconds,
        connect_seconds=CONNECT_SECONDS,
        body_limit=ANSWER_BYTES,
        tls=ssl.create_default_context(cafile=str(CERTIFICATE)),
    )
    return SafePost(fetcher, check=lambda url: None)


class FakeDeliveries:
    """Deliveries in dictionaries."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Delivery] = {}
        self.stopped: set[str] = set()

    def put(self, delivery: Delivery) -> None:
        self.kept.setdefault((delivery.owner_id, delivery.event_id), delivery)

    def read(self, owner_id: str, event_id: str) -> Delivery | None:
        return self.kept.get((owner_id, event_id))

    def note(self, before: Delivery, after: Delivery) -> None:
        standing = self.kept.get((before.owner_id, before.event_id))
        if standing and (standing.state, standing.attempt) == (before.state, before.attempt):
            self.kept[before.owner_id, before.event_id] = after

    def stop(self, owner_id: str) -> None:
        self.stopped.add(owner_id)

    def is_stopped(self, owner_id: str) -> bool:
        return owner_id in self.stopped


class FakeQueue:
    """Tries that were asked for, with the seconds until then."""

    def __init__(self) -> None:
        self.asked: list[tuple[Try, int]] = []

    def __call__(self, wanted: Try, seconds: int) -> None:
        self.asked.append((wanted, seconds))

    def take(self) -> Try:
        return self.asked.pop(0)[0]


_: Ask = FakeQueue()
