"""A worker on a loopback port, for clients that speak HTTP: what the edge does, around a `Stage`."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from local.facilitator.server import StubFacilitator
from tests.support.fakes import FakeClock
from tests.support.worker.stage import Ports, Stage


class Front(ThreadingHTTPServer):
    """Hands requests to a stage; remembers which of them carried a payment."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, stage: Stage) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stage = stage
        self.url = f"http://127.0.0.1:{self.server_port}/execute"
        self.with_payment: list[bool] = []


class _Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: self.headers.get_all(name) or [] for name in self.headers}
        self.server.with_payment.append(any(name.lower() in {"payment-signature", "x-payment"} for name in headers))
        answer = self.server.stage._send("POST", "/execute", "/execute", None, headers, raw)
        body = answer.text.encode()
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def real_time_stage(facilitator: StubFacilitator, ports: Ports | None = None) -> Stage:
    """A stage whose clock stands at the present, as stock clients sign with the real one."""
    return Stage(facilitator, clock=FakeClock(int(time.time() * 1000)), ports=ports)


@contextmanager
def fronting(stage: Stage) -> Iterator[Front]:
    """A running front."""
    with Front(stage) as front:
        threading.Thread(target=front.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield front
        finally:
            front.shutdown()
