"""One HTTP request to another party, inside one deadline; all calls but those to AWS are made here.

    look-up → connect → TLS │ send → interim answers (1xx, skipped) → answer → body
      not sent: nothing happened │ sent: the other side may have acted

h11 reads the answer, because servers differ there: interim answers, hundreds of header lines, blanks behind values,
transfer codings that we did not request. Each system call gets the remaining time, so a slow name server or a dripping
body cannot outlive the deadline, and a thread need not watch the socket. Redirects are not followed, because they would
carry credentials elsewhere. Proxies from the environment are not used. Connections are not kept: after a freeze they
would be dead, and a request on a dead connection looks like a lost one.
"""

import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import ClassVar, Final

import h11

from piecework.errors import PieceworkError
from piecework.net.addresses import Address, Allow, Resolve, Target, resolve_name, vet
from piecework.net.lookups import Deadline, Silence, look_up
from piecework.values import dataclass

BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer
HEAD_LIMIT: Final = 256 * 1024  # bytes of an answer's head: some hosts send hundreds of lines
MOST_INTERIM: Final = 100  # interim answers before the final one
MAX_DIALS: Final = 3  # addresses tried, for hosts that list an unreachable IPv6 address first
CHUNK: Final = 64 * 1024
ANY_HEADER: Final = 32 + zlib.MAX_WBITS  # gzip or zlib, detected from the data
USER_AGENT: Final = "piecework"  # some hosts refuse requests without one
BROKEN: Final = (OSError, h11.RemoteProtocolError)
HttpEvent = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class CallFailed(PieceworkError):
    """A whole answer did not come; `sent` says whether the request may have arrived, `why` is a code for the log."""

    code: ClassVar[str] = "call_failed"

    def __init__(self, message: str, why: str = "", *, sent: bool = False) -> None:
        super().__init__(message)
        self.why = why or self.code
        self.sent = sent


class Unreachable(CallFailed):
    """The name was not found, or the host refused, broke HTTP or TLS, or closed the connection early."""

    code: ClassVar[str] = "unreachable"
    retryable: ClassVar[bool] = True


class FetchTimedOut(CallFailed):
    """The answer was not complete in time."""

    code: ClassVar[str] = "fetch_timed_out"
    retryable: ClassVar[bool] = True


class BodyTooLarge(CallFailed):
    """The answer is over the size limit."""

    code: ClassVar[str] = "body_too_large"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, redirects included; header names are lower-case, lines of one name are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """A request and its target."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None = None


def unpacked(answer: Fetched, limit: int) -> bytes:
    """The body of an answer that is compressed although we did not request it, as some gateways do.

    Raises:
        Unreachable: the encoding is unknown, or the compressed data is broken.
        BodyTooLarge: the body is larger than `limit` bytes when it is decompressed.
    """
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        return answer.body
    reader = zlib.decompressobj(ANY_HEADER)
    try:
        body = reader.decompress(answer.body, limit + 1) if coding in ("gzip", "x-gzip", "deflate") else b""
    except zlib.error as error:
        raise Unreachable("the compressed answer is broken", "PackedBody", sent=True) from error
    if len(body) > limit:
        raise BodyTooLarge(f"the answer is over {limit} bytes", sent=True)
    if not reader.eof:
        raise Unreachable("the answer has a content encoding that was not requested", "PackedBody", sent=True)
    return body


def anywhere(address: Address) -> bool:
    """For hosts that the operator chose: every address is allowed."""
    return True


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Sends single requests; `connect_seconds` bounds look-up, connection and TLS together."""

    resolve: Resolve = resolve_name
    allow: Allow = anywhere
    connect_seconds: float | None = None
    body_limit: int = BODY_LIMIT
    tls: ssl.SSLContext | None = None

    def send(self, request: Request, seconds: float, *, cut: bool = False) -> Fetched:
        """Send one request and read its whole answer; with `cut`, only as much of the body as the limits allow.

        Raises:
            AddressRefused: the host leads to an address that is not allowed; the request was not sent.
            Unreachable: the answer failed or was not complete.
            FetchTimedOut: the answer was not complete within `seconds`.
            BodyTooLarge: the answer is over the limit.
        """
        with self._asked(request, Deadline(seconds), seconds) as answering:
            return answering.read(cut=cut)

    @contextmanager
    def stream(self, request: Request, silence: float) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Send one request, and give the status of its answer and the parts of its body as they come.

        Raises, in the block as well:
            AddressRefused, Unreachable: as `send`.
            FetchTimedOut: nothing came for so many seconds of `silence`.
        """
        with self._asked(request, Silence(silence), silence) as answering:
            yield answering.head().status_code, answering.parts()

    @contextmanager
    def _asked(self, request: Request, deadline: Deadline, seconds: float) -> Iterator["_Answering"]:
        """A request that is on its way; whatever breaks from then on is a failure after sending."""
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
        try:
            raw = _written(connection, request)
            sock = self._open(request.target, deadline.within(self.connect_seconds))
        except (OSError, ValueError, h11.LocalProtocolError) as error:  # ValueError: the name cannot be encoded
            raise _failure(error, seconds, sent=False) from error
        with sock:
            answering = _Answering(sock, connection, deadline, self.body_limit)
            try:
                answering.write(raw)
                yield answering
            except BROKEN as error:
                raise _failure(error, seconds, sent=True) from error

    def _open(self, target: Target, deadline: Deadline) -> socket.socket:
        addresses = vet(target, partial(_looked_up, self.resolve, deadline), self.allow)
        *firsts, last = addresses[:MAX_DIALS]
        for address in firsts:
            with suppress(OSError):  # the host's next address may answer
                return self._connect(address, target, deadline.within(deadline.remaining() / 2))
        return self._connect(last, target, deadline)

    def _connect(self, address: str, target: Target, deadline: Deadline) -> socket.socket:
        sock = socket.create_connection((address, target.port), timeout=deadline.remaining())
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if target.scheme == "https":
                sock = (self.tls or trusted()).wrap_socket(
                    sock, server_hostname=target.host, do_handshake_on_connect=False, suppress_ragged_eofs=False
                )
                sock.settimeout(deadline.remaining())
                sock.do_handshake()
        except OSError:
            sock.close()
            raise
        return sock


@dataclass(frozen=True, slots=True)
class _Answering:
    """One exchange on an open socket."""

    sock: socket.socket
    connection: h11.Connection
    deadline: Deadline
    body_limit: int

    def write(self, raw: bytes) -> None:
        left = memoryview(raw)
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may come before the whole body
            while left:
                self.sock.settimeout(self.deadline.remaining())
                left = left[self.sock.send(left[:CHUNK]) :]

    def read(self, *, cut: bool) -> Fetched:
        head = self.head()
        lines: dict[str, list[str]] = {}
        for name, value in head.headers:
            lines.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        headers = {name: ", ".join(values) for name, values in lines.items()}
        return Fetched(head.status_code, headers, self._some_body() if cut else self._body(headers))

    def head(self) -> h11.Response:
        """The answer's status and headers."""
        for _ in range(MOST_INTERIM):
            event = self._next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                break
        raise h11.RemoteProtocolError("the connection ended without an answer")

    def _body(self, headers: Mapping[str, str]) -> bytes:
        stated = headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > self.body_limit:
            raise self._too_large()
        body = bytearray()
        for part in self.parts():
            body += part
            if len(body) > self.body_limit:
                raise self._too_large()
        return bytes(body)

    def parts(self) -> Iterator[bytes]:
        """The body, as it comes."""
        while isinstance(event := self._next(), h11.Data):
            yield bytes(event.data)

    def _some_body(self) -> bytes:
        body = bytearray()
        with suppress(*BROKEN):  # only the status counts; the rest was cut off
            for part in self.parts():
                body += part
                if len(body) >= self.body_limit:
                    break
        return bytes(body[: self.body_limit])

    def _next(self) -> HttpEvent:
        while (event := self.connection.next_event()) is h11.NEED_DATA:
            self.sock.settimeout(self.deadline.remaining())
            self.connection.receive_data(self.sock.recv(CHUNK))
        return event

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the answer is over {self.body_limit} bytes", sent=True)


def _written(connection: h11.Connection, request: Request) -> bytes:
    own = {"Host": request.target.host_header, "Accept-Encoding": "identity", "Connection": "close"}
    if request.body is not None:
        own["Content-Length"] = str(len(request.body))
    headers = {"User-Agent": USER_AGENT, **request.headers, **own}
    head = h11.Request(method=request.method, target=request.target.path, headers=list(headers.items()))
    raw = connection.send(head) or b""
    body = (connection.send(h11.Data(data=request.body)) or b"") if request.body else b""
    return raw + body + (connection.send(h11.EndOfMessage()) or b"")


def _looked_up(resolve: Resolve, deadline: Deadline, host: str, port: int) -> Sequence[str]:
    return look_up(resolve, host, port, deadline)


def _failure(error: Exception, seconds: float, *, sent: bool) -> CallFailed:
    why = type(error).__name__
    if isinstance(error, TimeoutError):
        return FetchTimedOut(f"no answer within {seconds:g} s", why, sent=sent)
    return Unreachable("the host could not be reached or closed the connection early", why, sent=sent)


@cache
def trusted() -> ssl.SSLContext:
    """The machine's certificates; reading them takes tens of milliseconds."""
    return ssl.create_default_context()
