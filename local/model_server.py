"""A chat model that follows a script: an OpenAI-compatible endpoint for tests and for a trial of `completion`.

    python -m local.model_server --port 8795 --script misfit,misfit,good

Each call takes the next word of the script; the last word stays. `GET /calls` lists the calls, `PUT /script` (a JSON
list of words) starts over. Words:

    good        an answer that fits the kernel's sample schema     fenced     the same inside a Markdown fence
    say:TEXT    the text as it is                                  cut        the first half, finish_reason "length"
    misfit      JSON without `answer`                              broken     JSON that ends too early
    refusal     the model declines                                 empty      no text
    end:NAME    good, with this finish_reason                      filtered   400 with the code content_filter
    slow:S      good, after S seconds                              drip:S     one byte at a time, for S seconds
    throttled   429                                                error:N    status N with a body that tells secrets
    huge        2 MiB of text                                      notjson    200 with a page of HTML
    hangup      the connection ends without an answer              redirect   307 to another path
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

GOOD: Final = '{"answer":"as the model says","confidence":0.9,"check_summary":"checked","decision":"ACCEPT"}'
MISFIT: Final = '{"reply":"no answer member"}'
HUGE_CHARACTERS: Final = 2 * 1024 * 1024
USAGE: Final = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
DRIP_GAP_SECONDS: Final = 0.05
INNER_TEXT: Final = "inner text of the endpoint that must stay secret"
TEXTS: Final[Mapping[str, str]] = {
    "good": GOOD,
    "slow": GOOD,
    "drip": GOOD,
    "fenced": f"Here it is:\n```json\n{GOOD}\n```\n",
    "misfit": MISFIT,
    "broken": GOOD[:-1],
    "cut": GOOD[: len(GOOD) // 2],
    "huge": "x" * HUGE_CHARACTERS,
    "empty": " ",
}
STATUSES: Final[Mapping[str, int]] = {"throttled": 429, "redirect": 307}


class ModelServer(ThreadingHTTPServer):
    """The endpoint; use it as a context manager."""

    daemon_threads = True

    def __init__(self, *script: str, port: int = 0, key: str = "", takes_schemas: bool = True) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.key = key
        self.takes_schemas = takes_schemas
        self.calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._script: list[str] = list(script) or ["good"]

    @property
    def url(self) -> str:
        """The base URL for `WATTETHERIA_BRAIN_BASE_URL`."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def follow(self, script: Sequence[str]) -> None:
        """Start a new script and forget the earlier calls."""
        with self._lock:
            self._script, self.calls = list(script) or ["good"], []

    def next_word(self, call: dict[str, Any]) -> str:
        """Record the call and take the script's next word."""
        with self._lock:
            self.calls.append(call)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print only bugs: some words make a caller give up."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, {"calls": self.server.calls})

    def do_PUT(self) -> None:
        self.server.follow(self._body())
        self._send(200, {})

    def do_POST(self) -> None:
        body = self._body()
        call = {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self._send(401, {"error": {"message": INNER_TEXT}})
        elif "response_format" in body and not self.server.takes_schemas:
            self._send(400, {"error": {"message": "response_format is not supported here"}})
        else:
            self._play(self.server.next_word(call))

    def _play(self, word: str) -> None:
        name, _, value = word.partition(":")
        if name == "hangup":
            self.close_connection = True
        elif name == "filtered":
            self._send(400, {"error": {"code": "content_filter", "message": INNER_TEXT}})
        elif name in STATUSES or name == "error":
            self._send(STATUSES.get(name) or int(value), {"error": {"message": INNER_TEXT}})
        elif name == "notjson":
            self._send_raw(200, [f"<html>{INNER_TEXT}</html>".encode()])
        else:
            if name == "slow":
                time.sleep(float(value))
            raw = json.dumps(_completion(name, value)).encode()
            self._send_raw(
                200, _drops(raw, float(value)) if name == "drip" else [raw], None if name == "drip" else len(raw)
            )

    def _send(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self._send_raw(status, [raw], len(raw))

    def _send_raw(self, status: int, parts: Sequence[bytes] | Iterator[bytes], length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status == STATUSES["redirect"]:
            self.send_header("Location", "/elsewhere")
        if length is not None:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log: calls may be private, and `GET /calls` lists them."""


def _completion(name: str, value: str) -> dict[str, Any]:
    text = value if name == "say" else TEXTS.get(name, GOOD)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if name == "refusal":
        message = {"role": "assistant", "content": None, "refusal": INNER_TEXT}
    end = value if name == "end" else "length" if name == "cut" else "stop"
    choice = {"index": 0, "message": message, "finish_reason": end}
    return {"id": "c-1", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": USAGE}


def _drops(raw: bytes, seconds: float) -> Iterator[bytes]:
    ends = time.monotonic() + seconds
    for at in range(len(raw) - 1):
        if time.monotonic() >= ends:
            yield raw[at:]
            return
        time.sleep(DRIP_GAP_SECONDS)
        yield raw[at : at + 1]
    yield raw[-1:]


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="A chat model that follows a script")
    parser.add_argument("--port", type=int, default=8795)
    parser.add_argument("--script", default="good", help="the script, a comma list of words")
    parser.add_argument("--refuse-schemas", action="store_true", help="answer 400 to response_format")
    options = parser.parse_args()
    server = ModelServer(*options.script.split(","), port=options.port, takes_schemas=not options.refuse_schemas)
    print(f"the scripted model listens on {server.url}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
