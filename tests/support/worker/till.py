"""A till: the smallest server that asks for a payment, takes it and answers, made of the door's payment parts."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from piecework.worker.errors import WorkerError
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.payment.payments import Payment, PaymentInvalid, check_payment, parse_payment
from piecework.worker.payment.settlement import Paid, classify
from piecework.worker.payment.terms import Demand, PaymentTerms, demand_for, payment_required, receipt_headers
from tests.support.worker.payments import PricedContract, a_request


class Till(ThreadingHTTPServer):
    """Sells one contract; counts requests and what it was paid."""

    daemon_threads = True

    def __init__(self, contract: PricedContract, facilitator: HttpFacilitator) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contract = contract
        self.facilitator = facilitator
        self.url = f"http://127.0.0.1:{self.server_port}/execute"
        self.terms = PaymentTerms.of(contract, None, f"http://127.0.0.1:{self.server_port}")
        self.seen: list[tuple[str, bool]] = []  # the contract id sent, and whether with a payment
        self.paid: list[Payment] = []

    def serve_one(self, headers: dict[str, str]) -> tuple[int, dict[str, str], object]:
        try:
            payment = parse_payment(a_request(headers))
            self.seen.append((headers.get("X-Contract-Id", ""), payment is not None))
            if payment is None:
                return _demand(payment_required(self.terms))
            check_payment(payment, self.terms, self.contract, int(time.time() * 1000))
            verdict = self.facilitator.verify(payment, self.terms)
            if not verdict.is_valid:
                raise PaymentInvalid(verdict.reason or "")
        except PaymentInvalid as error:
            return _demand(demand_for(error, self.terms))
        except WorkerError as error:
            return error.status, {}, {"code": error.code, "message": error.message}
        found = classify(self.facilitator.settle(payment, self.terms, 10), payment, self.terms, first=True)
        if not isinstance(found, Paid):
            return 202, {}, {"status": "pending"}
        self.paid.append(payment)
        return 200, receipt_headers(payment.version, found.receipt), {"status": "completed"}


def _demand(demand: Demand) -> tuple[int, dict[str, str], object]:
    return 402, dict(demand.headers), demand.body


class _Handler(BaseHTTPRequestHandler):
    server: Till
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, body = self.server.serve_one({name.title(): value for name, value in self.headers.items()})
        raw = json.dumps(body).encode()
        self.send_response(status)
        common = {"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store"}
        for name, value in {**common, **headers, "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def selling(contract: PricedContract, facilitator: HttpFacilitator) -> Iterator[Till]:
    """A running till."""
    with Till(contract, facilitator) as till:
        threading.Thread(target=till.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield till
        finally:
            till.shutdown()
