"""A server that answers with the very bytes a test wrote, whatever was asked."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

HEAD_END = b"\r\n\r\n"


class RawServer:
    """Takes one connection after the other; each gets the next answer, the last answer for ever."""

    def __init__(self, answers: Sequence[bytes | Sequence[bytes]]) -> None:
        self.requests: list[bytes] = []
        self._answers = [[answer] if isinstance(answer, bytes) else list(answer) for answer in answers]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(20)
                self.requests.append(_request(connection))
                for part in self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]:
                    connection.sendall(part)


def _request(connection: socket.socket) -> bytes:
    """The whole request: its head, and as much body as the head announces."""
    read = b""
    while HEAD_END not in read:
        part = connection.recv(65_536)
        if not part:
            return read
        read += part
    head, _, body = read.partition(HEAD_END)
    stated = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    wanted = int(stated[0]) if stated else 0
    while len(body) < wanted and (part := connection.recv(65_536)):
        body += part
    return head + HEAD_END + body


@contextmanager
def answering(*answers: bytes | Sequence[bytes]) -> Iterator[RawServer]:
    """A running server."""
    server = RawServer(answers)
    try:
        yield server
    finally:
        server.close()


def http(body: bytes, status: int = 200, *lines: str) -> bytes:
    """A plain answer with this body and further header lines."""
    head = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body)}", "Connection: close", *lines]
    return "\r\n".join(head).encode("latin-1") + HEAD_END + body
