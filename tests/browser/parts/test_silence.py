"""A connection that is open and silent for ever: the page says so, and goes on after the last event."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.support.servers import serving_in_a_thread

pytestmark = pytest.mark.slow
HEARTBEAT_S = 15  # of the door
MISSED_S = 40  # of stream.js
FOLLOW = """async () => {
  const base = document.querySelector("script[type=module]").src;
  const { follow } = await import(new URL("stream.js", base));
  const [told, events] = [document.createElement("output"), []];
  told.textContent = "told:";
  document.body.append(told);
  const tell = (text) => told.textContent += ` ${text}`;
  follow(new URL("/ops/a-stream", location.href), {
    signal: new AbortController().signal,
    onState: tell,
    onEvent: ({ id }) => (tell(id), events.push(id) === 2),
  });
}"""


class HalfOpen(ThreadingHTTPServer):
    """Begins a stream and sends one event for each connection; after that it only sends what `beat` says."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked_after, self.open, self.stopping = [], [], threading.Event()

    def beat(self):
        self.open[-1].write(b":heartbeat\n\n")
        self.open[-1].flush()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked_after.append(self.headers.get("Last-Event-ID"))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"id: %d\ndata: {}\n\n" % len(self.server.asked_after))
        self.wfile.flush()
        self.server.open.append(self.wfile)
        self.server.stopping.wait()

    def log_message(self, *_):
        pass


@pytest.fixture
def door():
    server = HalfOpen()
    with serving_in_a_thread(server):
        yield server


@pytest.fixture
def page(open_console, door):
    """A page that follows the stream of `door`; its time passes as told."""
    page = open_console("/pieces")
    page.route("**/ops/a-stream", lambda route: route.continue_(url=f"http://127.0.0.1:{door.server_port}/"))
    page.clock.install()
    page.evaluate(FOLLOW)
    return page


def told(page, states):
    expect(page.locator("output")).to_have_text(f"told: {states}")


def test_a_stream_that_falls_silent_is_broken_and_goes_on_after_the_last_event(page, door):
    told(page, "connecting live 1")
    page.clock.pause_at(page.evaluate("Date.now()") / 1_000 + MISSED_S - 10)
    told(page, "connecting live 1")
    page.clock.run_for(11_000)
    page.wait_for_timeout(200)  # what comes of it
    page.clock.run_for(1_000)  # the wait before the next try

    told(page, "connecting live 1 broken connecting live 2")
    assert door.asked_after == [None, "1"]


def test_a_stream_with_heartbeats_alone_stays_live(page, door):
    told(page, "connecting live 1")
    page.clock.pause_at(page.evaluate("Date.now()") / 1_000 + 1)
    for _ in range(4):
        page.clock.run_for(1_000 * HEARTBEAT_S)
        door.beat()
        page.wait_for_timeout(200)  # it has come
    told(page, "connecting live 1")
    assert door.asked_after == [None]
