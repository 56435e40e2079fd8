"""HTTP servers that answer what a script says, hang, drip or break off; on loopback."""

import json
import socket
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.servers import CERTIFICATE, serving_in_a_thread


class Scripted(BaseHTTPRequestHandler):
    """Answers what the server's `script` says: (status, body) or a function of the handler."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, dict(self.headers), json.loads(body) if body else None))
        answer = self.server.script
        if callable(answer):
            answer(self)
            return
        status, document = answer
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        if status in {301, 302, 307, 308}:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST

    def log_message(self, *_):
        pass


class ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):
        """A client that gave up is what some tests want."""


@contextmanager
def serving(script, *, secure=False):
    server = ScriptedServer(("127.0.0.1", 0), Scripted)
    server.script, server.seen, server.stopping = script, [], threading.Event()
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(CERTIFICATE)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.url = f"{'https' if secure else 'http'}://127.0.0.1:{server.server_port}"
    with serving_in_a_thread(server):
        yield server


def hang(handler):
    handler.server.stopping.wait(30)


def cut(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def cut_in_the_middle(handler):
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"success":true')


def drip(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
    while not handler.server.stopping.wait(0.02):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
