"""The stub's HTTP server: `/supported`, `/verify`, `/settle`, `/rpc`, and `/control` to make it fail.

`GET /control` lists its calls and charges; `PUT /control` takes any of

    {"supported": "ok", "verify": "ok", "settle": "ok,pending500", "funds": {"0x…": 0}, "down_seconds": 2,
     "reset": true}

Each call takes the next word of a list; the last word stays. Words for `verify`: ok, 500, hang, garbage, other-payer,
invalid:REASON (HTTP 200), 400:REASON. For `settle`: ok, fail:REASON, revert, cancelled, pending500, pending200,
pending202, hang, lost (charged, then silent), cut (connection closed), lost-cut, garbage, lost-garbage, nohash, 500,
401, other-payer, unknown-hash (success, and a hash that no chain has). For `supported`: ok, none, 500, hang. For `rpc`,
the node of the chain: ok, behind:SECONDS (a node that is so far behind), pool:SECONDS (several nodes behind one
address: one that is behind answers with the latest block, the others answer the rest), 500, hang.
"""

import json
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from local.facilitator.ledger import Ledger
from local.facilitator.rules import ALIASES, TOKENS, Asked, examine

STRANGER: Final = "0x00000000000000000000000000000000000000aa"
PENDING: Final[Mapping[str, int]] = {"pending500": 500, "pending200": 200, "pending202": 202}
PENDING_SECONDS: Final = 1.0
LONGEST_HANG_SECONDS: Final = 60.0
REOPEN_SECONDS: Final = 0.02


class _Cut(Exception):
    """Close the connection without an answer."""


class StubFacilitator:
    """A facilitator on a loopback port; a context manager in tests, a process in `make run`."""

    def __init__(self, port: int = 0, ledger: Ledger | None = None, pending_seconds: float = PENDING_SECONDS) -> None:
        self.ledger = ledger or Ledger()
        self.pending_seconds = pending_seconds
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._port = port
        self._server: _Server | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the calls and reset every switch; the chain is not changed."""
        self.calls: list[dict[str, Any]] = []
        self._words: dict[str, list[str]] = {"supported": ["ok"], "verify": ["ok"], "settle": ["ok"], "rpc": ["ok"]}

    def say(self, call: str, *words: str) -> None:
        """Set the next answers to a call; the last word stays."""
        self._words[call] = list(words)

    def count(self, call: str, nonce: str | None = None) -> int:
        """How often a call came in, in total or for one nonce."""
        return sum(seen["call"] == call and nonce in {None, seen["nonce"]} for seen in list(self.calls))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def rpc_url(self) -> str:
        return f"{self.url}/rpc"

    def __enter__(self) -> Self:
        self.come_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.go_down()

    def come_up(self) -> None:
        """Listen on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.stub = self
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(REOPEN_SECONDS,), daemon=True).start()

    def go_down(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def go_down_for(self, seconds: float) -> None:
        """Refuse connections for a while."""
        self.go_down()
        if not self.stopping.wait(seconds):
            self.come_up()

    def follow(self, control: Mapping[str, Any]) -> dict[str, Any]:
        """Set the switches of a `PUT /control`, before it is answered."""
        if control.get("reset"):
            self.reset()
        for call in self._words.keys() & control.keys():
            self.say(call, *str(control[call]).split(","))
        self.ledger.funds.update({payer.lower(): int(left) for payer, left in control.get("funds", {}).items()})
        if "down_seconds" in control:
            threading.Thread(target=self.go_down_for, args=(float(control["down_seconds"]),), daemon=True).start()
        return {}

    def control(self) -> dict[str, Any]:
        """The answer to `GET /control`."""
        charges = [
            {"payer": paid.payer, "payTo": paid.pay_to, "value": str(paid.value), "nonce": paid.nonce}
            for paid in self.ledger.charges()
        ]
        return {"calls": self.calls, "charges": charges, "switches": self._words}

    def supported(self) -> tuple[int, Any]:
        word = self._next("supported")
        if word == "hang":
            self._hang()
        if word == "500":
            return 500, {"error": "no"}
        names = [(2, name) for name in TOKENS] + [(1, name) for name in ALIASES]
        kinds = [{"x402Version": version, "scheme": "exact", "network": network} for version, network in names]
        return 200, {"kinds": kinds if word == "ok" else [], "extensions": [], "signers": {}}

    def verify(self, question: Mapping[str, Any]) -> tuple[int, Any]:
        asked = examine(question, self.ledger)
        word, _, reason = self._next("verify", asked).partition(":")
        if word == "hang":
            self._hang()
        if word == "500":
            return 500, {"error": "no"}
        if word == "garbage":
            return 200, "<html>garbage</html>"
        payer = STRANGER if word == "other-payer" else asked.payer
        refused = reason or asked.reason
        if refused:
            status = 400 if word == "400" else 200
            return status, {"isValid": False, "invalidReason": refused, "payer": payer}
        return 200, {"isValid": True, "payer": payer}

    def settle(self, question: Mapping[str, Any]) -> tuple[int, Any]:
        asked = examine(question, self.ledger)
        word, _, reason = self._next("settle", asked).partition(":")
        if word in {"500", "401"}:
            return int(word), {"error": "no"}
        if word == "garbage":
            return 200, "<html>garbage</html>"
        if word == "fail":
            return 200, _failure(asked, reason)
        if word == "hang":
            self._hang()
        if word == "cut":
            raise _Cut
        if word == "unknown-hash":
            return 200, _success(asked, f"0x{secrets.token_hex(32)}")
        if word in {"revert", "cancelled"}:
            if word == "cancelled":
                self.ledger.add("cancelled", asked.transfer)
            return 200, _failure(asked, "transaction_failed", self.ledger.add("reverted", asked.transfer).hash)
        return self._charge(asked, word)

    def rpc(self, request: Mapping[str, Any]) -> tuple[int, Any]:
        word, _, seconds = self._next("rpc").partition(":")
        if word == "hang":
            self._hang()
        if word == "500":
            return 500, {"error": "no"}
        lags = word == "behind" or (word == "pool" and request.get("method") == "eth_getBlockByNumber")
        return 200, self.ledger.rpc(request, float(seconds) if lags else 0.0)

    def _charge(self, asked: Asked, word: str) -> tuple[int, Any]:
        earlier = self.ledger.spent_by(asked.transfer)
        now = self.ledger.clock()
        if earlier and earlier.kind == "used" and earlier.mined_at > now:  # a pending transfer is waited for
            earlier.mined_at = now
            return 200, _success(asked, earlier.hash)
        if asked.reason and not asked.reason.endswith(("nonce_already_used", "insufficient_balance")):
            return 200, _failure(asked, asked.reason)
        made = self.ledger.charge(asked.transfer, self.pending_seconds if word in PENDING else 0.0)
        if word in PENDING:
            return PENDING[word], _failure(asked, "settlement_pending", made.hash)
        if word == "lost":
            self._hang()
        if word == "lost-cut":
            raise _Cut
        if word == "lost-garbage":
            return 200, "<html>garbage</html>"
        if made.kind == "reverted":  # like the public facilitators, with the hash of the failed transaction
            return 200, _failure(asked, "transaction_failed", made.hash)
        payer = STRANGER if word == "other-payer" else asked.payer
        return 200, _success(asked, "" if word == "nohash" else made.hash) | {"payer": payer}

    def _next(self, call: str, asked: Asked | None = None) -> str:
        with self._lock:
            words = self._words[call]
            word = words.pop(0) if len(words) > 1 else words[0]
            if call != "rpc":
                self.calls.append({"call": call, "nonce": asked.transfer.nonce if asked else None, "word": word})
            return word

    def _hang(self) -> None:
        self.stopping.wait(LONGEST_HANG_SECONDS)
        raise _Cut


def _success(asked: Asked, transaction: str) -> dict[str, Any]:
    return {"success": True, "transaction": transaction, "network": asked.network, "payer": asked.payer}


def _failure(asked: Asked, reason: str, transaction: str = "") -> dict[str, Any]:
    return _success(asked, transaction) | {"success": False, "errorReason": reason}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    allow_reuse_address = True
    stub: StubFacilitator

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that gave up: a hanging stub expects them."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        stub = self.server.stub
        routes = {"/supported": stub.supported, "/control": lambda: (200, stub.control()), "/health": lambda: (200, {})}
        self._answer(routes.get(self.path))

    def do_POST(self) -> None:
        stub, question = self.server.stub, self._body()
        routes = {
            "/verify": lambda: stub.verify(question),
            "/settle": lambda: stub.settle(question),
            "/rpc": lambda: stub.rpc(question),
        }
        self._answer(routes.get(self.path))

    def do_PUT(self) -> None:
        stub, control = self.server.stub, self._body()
        self._answer((lambda: (200, stub.follow(control))) if self.path == "/control" else None)

    def _answer(self, route: Any) -> None:
        try:
            status, body = route() if route else (404, {"error": "no such path here"})
        except _Cut:
            self.close_connection = True
            return
        except (KeyError, TypeError, ValueError):
            status, body = 400, {"isValid": False, "success": False, "invalidReason": "invalid_payload"}
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log: payments are secrets, and `GET /control` lists the calls."""


def serve(port: int) -> None:
    """Serve until the process is ended."""
    with StubFacilitator(port) as stub:
        print(f"the stub facilitator listens on {stub.url}", flush=True)
        while True:
            time.sleep(LONGEST_HANG_SECONDS)
