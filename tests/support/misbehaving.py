"""A server on a raw socket that keeps connections open and answers each request as its script says."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

HEAD_END = b"\r\n\r\n"
CLOSE = b"<close>"
RESET = b"<reset>"
HANG = b"<hang>"
HANG_SECONDS = 5.0


@dataclass
class Request:
    """A request as it came, and the number of its connection."""

    connection: int
    head: str
    body: bytes

    def header(self, name: str) -> str | None:
        lines = (line.partition(": ") for line in self.head.split("\r\n")[1:])
        return next((value for key, _, value in lines if key.lower() == name), None)


@dataclass
class Misbehaving:
    """Each request takes the next answer, the last one for ever; an answer is bytes, or parts one after the other.

    A part that is a number is a pause in seconds; CLOSE, RESET and HANG end the connection or leave it without a word.
    """

    answers: list[bytes | list[bytes | float]]
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        for sock in (self._listener, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def hang_up(self) -> None:
        """Close every connection, as AWS does with those that were idle."""
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with suppress(OSError):
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            while request := _read(sock, number):
                self.requests.append(request)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if not _answered(sock, answer if isinstance(answer, list) else [answer]):
                    return


def _read(sock: socket.socket, number: int) -> Request | None:
    read = b""
    while HEAD_END not in read:
        part = sock.recv(65_536)
        if not part:
            return None
        read += part
    head, _, body = read.partition(HEAD_END)
    stated = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < (int(stated[0]) if stated else 0):
        body += sock.recv(65_536)
    return Request(number, head.decode("latin-1"), body)


def _answered(sock: socket.socket, parts: list[bytes | float]) -> bool:
    """Whether the connection goes on."""
    for part in parts:
        match part:
            case float() | int():
                time.sleep(part)
            case b"<close>":
                sock.close()
                return False
            case b"<reset>":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
                return False
            case b"<hang>":
                time.sleep(HANG_SECONDS)
                return False
            case _:
                sock.sendall(part)
    return True


def answer(body: bytes = b"{}", status: int = 200, *lines: str) -> bytes:
    """A whole answer, after which the connection goes on."""
    head = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode("latin-1") + HEAD_END + body


@contextmanager
def misbehaving(*answers: bytes | list[bytes | float], tls: ssl.SSLContext | None = None) -> Iterator[Misbehaving]:
    """A running server."""
    server = Misbehaving(list(answers), tls)
    try:
        yield server
    finally:
        server.close()


def answering(*answers: bytes | Sequence[bytes]) -> AbstractContextManager[Misbehaving]:
    """A running server that closes each connection behind its answer."""
    return misbehaving(*([*([each] if isinstance(each, bytes) else each), CLOSE] for each in answers))


def last(body: bytes, status: int = 200, *lines: str) -> bytes:
    """A whole answer that says it is the connection's last."""
    return answer(body, status, "Connection: close", *lines)
