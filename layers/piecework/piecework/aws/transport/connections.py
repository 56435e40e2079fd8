"""Connections that are kept, and answers read from them: HTTP/1.1 as AWS speaks it, on plain sockets.

http.client would do the reading, but it brings the email package along, which takes as long to import as everything
here together. Answers are held to the standard all the same: a broken or oversized one is an OSError, and a connection
is used again only if its last answer was read to its very end.

A kept connection may be dead: the environment was frozen meanwhile, or AWS closed it. One that has anything to read,
or that was not used for a while by the clock on the wall (which goes on during a freeze), is not used again. A
forked process does not use the connections of its parent.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Mapping
from os import getpid
from threading import Lock
from time import monotonic, time
from typing import Any, Final, NamedTuple
from zlib import MAX_WBITS, decompressobj
from zlib import error as ZlibError

from piecework.aws.transport.endpoints import Origin

KEPT: Final = 32  # idle connections to one host
IDLE_SECONDS: Final = 20.0  # AWS closes after some more
WHOLE: Final = 3  # read times that a whole answer may take
HEAD_BYTES: Final = 64 * 1024
LENGTH_DIGITS: Final = 15
PART: Final = 256 * 1024
MOST_INTERIM: Final = 10
MOST_TRAILERS: Final = 100
ANY_HEADER: Final = 32 + MAX_WBITS  # gzip or zlib, detected from the data
NO_BODY: Final = frozenset({204, 304})
_read: Final[dict[str, ssl.SSLContext]] = {}
_reading: Final = Lock()  # who needs them while another thread reads them waits, and does not read them too


class Broken(OSError):
    """What came is not a whole answer."""


class Limits(NamedTuple):
    """Seconds to connect and to wait for the next part of an answer, and the bytes that one may have."""

    connect_seconds: float
    read_seconds: float
    answer_bytes: int


class Raw(NamedTuple):
    """A request as it is sent."""

    method: str
    head: bytes
    body: bytes = b""


class Answer(NamedTuple):
    """A whole answer; names of headers are lower-case, and the body is as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Kept connections by host; safe for many threads, each exchange has a connection of its own."""

    def __init__(self, limits: Limits, env: Mapping[str, str], now: Callable[[], float] = time) -> None:
        self._limits, self._env, self._now = limits, env, now
        self._idle: dict[tuple[int, Origin], list[tuple[socket.socket, float]]] = {}  # by process and host
        self._lock = Lock()

    def __del__(self) -> None:
        self.close()

    def exchange(self, origin: Origin, request: Raw) -> Answer:
        """Send a request and read its whole answer. Raises OSError (TimeoutError, Broken, …) when that fails."""
        sock = self._kept(origin) or self._opened(origin)
        try:
            answer, is_last = _exchanged(sock, request, self._limits)
        except BaseException:
            sock.close()
            raise
        self._keep(origin, sock, is_last=is_last)
        return answer

    def close(self) -> None:
        """Close what is kept; the next exchange opens a connection again."""
        with self._lock:
            kept, self._idle = self._idle, {}
        for each in kept.values():
            for sock, _ in each:
                sock.close()

    def _kept(self, origin: Origin) -> socket.socket | None:
        while True:
            with self._lock:
                idle = self._idle.get((getpid(), origin))
                if not idle:
                    return None
                sock, since = idle.pop()
            if self._now() - since < IDLE_SECONDS and _is_quiet(sock):
                return sock
            sock.close()

    def _keep(self, origin: Origin, sock: socket.socket, *, is_last: bool) -> None:
        with self._lock:
            idle = self._idle.setdefault((getpid(), origin), [])
            if not is_last and len(idle) < KEPT:
                idle.append((sock, self._now()))
                return
        sock.close()

    def _opened(self, origin: Origin) -> socket.socket:
        host = _encoded(origin.host)
        address: tuple[Any, int] = (host, origin.port)  # bytes are taken too, and need no codec
        sock = socket.create_connection(address, self._limits.connect_seconds)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(self._limits.read_seconds)
            if origin.is_tls:
                tls = trusted(self._env.get("AWS_CA_BUNDLE") or "")
                sock = tls.wrap_socket(sock, server_hostname=host, suppress_ragged_eofs=False)
        except OSError:
            sock.close()
            raise
        return sock


def trusted(bundle: str) -> ssl.SSLContext:
    """The certificates of a bundle, or of the system without one; they are read once, in tens of milliseconds."""
    with _reading:
        if bundle not in _read:
            _read[bundle] = ssl.create_default_context(cafile=bundle or None)
        return _read[bundle]


def _encoded(host: str) -> bytes:
    """A host's name, which `origin_of` holds to ASCII; for a text Python would import its tables of Unicode."""
    return host.encode("ascii")


def unpacked(answer: Answer, limit: int) -> bytes:
    """The body of an answer that is compressed, although that was not requested. Raises Broken."""
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity") or not answer.body:
        return answer.body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise Broken("the answer has an unknown encoding")
    reader = decompressobj(ANY_HEADER)
    try:
        body = reader.decompress(answer.body, limit + 1)
    except ZlibError as error:
        raise Broken("the compressed answer is broken") from error
    if len(body) > limit or not reader.eof:
        raise Broken("the compressed answer is too large or cut off")
    return body


def _is_quiet(sock: socket.socket) -> bool:
    """Whether nothing came on a connection that waits, neither data nor its end."""
    watch = select.poll()
    watch.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return not watch.poll(0)


def _exchanged(sock: socket.socket, request: Raw, limits: Limits) -> tuple[Answer, bool]:
    """An answer, and whether it was the connection's last."""
    reader = _Reader(sock, limits)
    try:
        sock.settimeout(limits.read_seconds)
        sock.sendall(request.head + request.body)
    except (BrokenPipeError, ConnectionResetError):
        reader.is_last = True  # the answer may have come before the whole request was sent
    return reader.answer(has_body=request.method != "HEAD"), reader.is_last


class _Reader:
    """Reads one answer from a connection."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        self.is_last = False
        self._sock, self._limits = sock, limits
        self._deadline = monotonic() + WHOLE * limits.read_seconds
        self._buffer = bytearray()

    def answer(self, *, has_body: bool) -> Answer:
        """The final answer, behind any interim ones."""
        for _ in range(MOST_INTERIM):
            status, headers = self._head()
            if status >= 200:
                break
        else:
            raise Broken("no final answer came")
        body = self._body(headers) if has_body and status not in NO_BODY else b""
        self.is_last = self.is_last or bool(self._buffer) or "close" in headers.get("connection", "").lower()
        return Answer(status, headers, body)

    def _head(self) -> tuple[int, dict[str, str]]:
        while (end := self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES)) < 0:
            if len(self._buffer) >= HEAD_BYTES:
                raise Broken("the answer's head is too long")
            self._receive()
        first, *lines = self._taken(end + 4)[:-4].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (
            status.isascii() and status.isdecimal() and len(status) == 3
        ):
            raise Broken("the answer is not HTTP")
        self.is_last = self.is_last or version == "HTTP/1.0"
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Broken("the answer has a broken header")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(status), headers

    def _body(self, headers: Mapping[str, str]) -> bytes:
        coding, stated = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            self.is_last = self.is_last or stated is not None  # one of the two is not true
            if coding.lower() != "chunked":
                raise Broken("the answer has an unknown transfer encoding")
            return self._chunks()
        if stated is None:
            return self._rest()
        if not (stated.isascii() and stated.isdecimal() and len(stated) <= LENGTH_DIGITS):
            raise Broken("the answer's length is not a number")
        return self._exactly(self._allowed(int(stated)))

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := self._chunk_size():
            self._allowed(len(body) + size)
            body += self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise Broken("a chunk of the answer has another length than it states")
        for _ in range(MOST_TRAILERS):
            if not self._line():
                return bytes(body)
        raise Broken("the answer has too many trailers")

    def _chunk_size(self) -> int:
        stated = self._line().partition(b";")[0].strip()
        if not stated or stated.strip(b"0123456789abcdefABCDEF") or len(stated) > 8:
            raise Broken("a chunk of the answer has no length")
        return int(stated, 16)

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES:
                raise Broken("a line of the answer is too long")
            self._receive()
        return self._taken(end + 2)[:-2]

    def _rest(self) -> bytes:
        self.is_last = True
        is_open = True
        while is_open:
            self._allowed(len(self._buffer))
            is_open = self._receive(may_end=True)
        return self._taken(len(self._buffer))

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        return self._taken(count)

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _allowed(self, count: int) -> int:
        if count > self._limits.answer_bytes:
            raise Broken(f"the answer is over {self._limits.answer_bytes} bytes")
        return count

    def _receive(self, *, may_end: bool = False) -> bool:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(min(left, self._limits.read_seconds))
        part = self._sock.recv(PART)
        if not part and not may_end:
            raise Broken("the connection ended before the answer did")
        self._buffer += part
        return bool(part)
