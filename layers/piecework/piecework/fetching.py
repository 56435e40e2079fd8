"""HTTP to addresses that strangers name: to public hosts only, one hop, bounded in time and size.

The name is resolved once; the connection goes to an address that was vetted, while certificate, SNI and Host header
stay the name's, so a second lookup cannot lead elsewhere. Redirects are answers like any other, proxies from the
environment are not used, and a watchdog shuts the socket at the deadline however slowly the other side drips.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from typing import ClassVar, Final, Self

from piecework.addresses import Allow, Resolve, Target, is_public, parse_target, resolve_name, vet
from piecework.errors import PieceworkError

BODY_LIMIT: Final = 8 * 1024 * 1024  # bytes; eight of them at once still fit a small function's memory
TIMEOUT_SECONDS: Final = 5.0  # per request, name lookup included
MAX_DIALS: Final = 3  # addresses tried, for hosts that list an unreachable IPv6 address first
CHUNK: Final = 64 * 1024
USER_AGENT: Final = "piecework"  # some hosts refuse requests without any


class Unreachable(PieceworkError):
    """The host could not be resolved, refused, spoke no proper HTTP or TLS, or broke off."""

    code: ClassVar[str] = "unreachable"
    retryable: ClassVar[bool] = True


class FetchTimedOut(PieceworkError):
    """The answer was not complete in time."""

    code: ClassVar[str] = "fetch_timed_out"
    retryable: ClassVar[bool] = True


class BodyTooLarge(PieceworkError):
    """The answer is over the size limit."""

    code: ClassVar[str] = "body_too_large"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, redirects included; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fetcher:
    """Sends single requests to vetted addresses."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve_name,
        allow: Allow = is_public,
        timeout_seconds: float = TIMEOUT_SECONDS,
        connect_seconds: float | None = None,
        body_limit: int = BODY_LIMIT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._allow = allow
        self._timeout_seconds = timeout_seconds
        self._connect_seconds = connect_seconds or timeout_seconds
        self._body_limit = body_limit
        self._given_tls = tls

    def get(self, url: str) -> Fetched:
        """GET a URL. Raises as `request`."""
        return self.request("GET", url)

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> Fetched:
        """Send one request and read its whole answer; with `cut` as much of its body as comes within the limits.

        Raises:
            AddressRefused: the URL is malformed or leads to an address that is not public; nothing was sent.
            Unreachable: no complete answer could be had.
            FetchTimedOut: no complete answer came in time.
            BodyTooLarge: the answer is over the limit.
        """
        target = parse_target(url)
        with Cutoff(self._timeout_seconds) as cutoff:
            try:
                addresses = vet(target, self._resolve, self._allow)
                with self._dial(target, addresses, cutoff) as sock:
                    fetched = self._exchange(
                        sock, target, method, body, headers or {}, self._read_some if cut else self._read
                    )
                if not cut:
                    cutoff.remaining()  # a socket that was shut reads like an answer that ended
                return fetched
            except (OSError, http.client.HTTPException) as error:
                if cutoff.expired or isinstance(error, TimeoutError):
                    raise FetchTimedOut(f"no answer within {self._timeout_seconds:g} s") from error
                raise Unreachable("the host could not be reached or broke off") from error

    def _dial(self, target: Target, addresses: Sequence[str], cutoff: "Cutoff") -> socket.socket:
        *firsts, last = addresses[:MAX_DIALS]
        for address in firsts:
            try:
                seconds = min(cutoff.remaining() / 2, self._connect_seconds)
                return self._connect(address, target, cutoff, seconds)
            except OSError:
                continue  # the host's next address may answer
        return self._connect(last, target, cutoff, min(cutoff.remaining(), self._connect_seconds))

    def _connect(self, address: str, target: Target, cutoff: "Cutoff", seconds: float) -> socket.socket:
        sock = cutoff.watch(socket.create_connection((address, target.port), timeout=seconds))
        try:
            sock.settimeout(cutoff.remaining())
            if target.scheme == "https":
                sock = self._tls.wrap_socket(
                    sock, server_hostname=target.host, do_handshake_on_connect=False, suppress_ragged_eofs=False
                )
                cutoff.watch(sock)
                sock.do_handshake()
        except OSError:
            sock.close()
            raise
        return sock

    def _exchange(
        self,
        sock: socket.socket,
        target: Target,
        method: str,
        body: bytes | None,
        headers: Mapping[str, str],
        read: Callable[[http.client.HTTPResponse], bytes],
    ) -> Fetched:
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = sock
        connection.putrequest(method, target.path, skip_host=True, skip_accept_encoding=True)
        own = {"Host": target.host_header, "Accept-Encoding": "identity", "Connection": "close"}
        if body is not None:
            own["Content-Length"] = str(len(body))
        for name, value in {"User-Agent": USER_AGENT, **headers, **own}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        with connection.getresponse() as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            return Fetched(response.status, found, read(response))

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        if (response.length or 0) > self._body_limit:
            raise BodyTooLarge(f"the answer is over {self._body_limit} bytes")
        body = bytearray()
        while chunk := response.read1(CHUNK):
            body += chunk
            if len(body) > self._body_limit:
                raise BodyTooLarge(f"the answer is over {self._body_limit} bytes")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return bytes(body)

    def _read_some(self, response: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        with suppress(OSError, http.client.HTTPException):  # the status is what counts; the rest was cut off
            while len(body) < self._body_limit and (chunk := response.read1(self._body_limit - len(body))):
                body += chunk
        return bytes(body)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()


class Cutoff:
    """A deadline that shuts the watched socket, so that no read or write outlives it."""

    def __init__(self, seconds: float) -> None:
        self._ends = monotonic() + seconds
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self.expired = False

    def remaining(self) -> float:
        """Seconds left. Raises TimeoutError when there are none."""
        left = self._ends - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def watch(self, sock: socket.socket) -> socket.socket:
        """Shut this socket at the deadline, at once if that has passed."""
        with self._lock:
            self._sock = sock
        if self.expired:
            self._shut()
        return sock

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        self.expired = True
        self._shut()

    def _shut(self) -> None:
        with self._lock:
            if self._sock is None:
                return
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # SSLSocket's own would race with its reads
