"""One JSON request to a service that the operator chose: a facilitator, a chain's RPC node.

What money depends on is whether a request may have arrived, so the two failures are told apart: `NotSent` (no
connection, no request) and `Interrupted` (sent, no complete answer). Redirects are answers like any other, since one
would carry the credentials elsewhere; proxies from the environment are not used; a watchdog shuts the socket at the
deadline.
"""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from piecework.envelopes import read_envelope
from piecework.errors import BadRequest, SettingsError
from piecework.fetching import Cutoff
from piecework.hire.settings import is_https_or_loopback
from piecework.jsons import Json, canonical

CONNECT_SECONDS: Final = 3.0  # TLS included
BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer; a page of logs is far smaller
CHUNK: Final = 64 * 1024
USER_AGENT: Final = "hire-worker/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status; `document` is None when its body is no JSON object."""

    status: int
    document: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing reached the service: refused, unknown name, no TLS, no credentials."""

    why: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The request may have been received and acted upon; its answer is not known."""

    why: str


class Endpoint:
    """The base URL of a service that speaks JSON.

    Raises:
        SettingsError: the URL is neither https nor loopback.
    """

    def __init__(self, base_url: str, *, connect_seconds: float = CONNECT_SECONDS, tls: ssl.SSLContext | None = None):
        if not is_https_or_loopback(base_url):
            raise SettingsError("a facilitator or RPC URL must be https, or on this machine")
        self.url = base_url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._connect_seconds = connect_seconds
        self._tls = tls

    def exchange(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], seconds: float
    ) -> Answer | NotSent | Interrupted:
        """Send one request and read its whole answer within `seconds`, connecting included."""
        raw = None if body is None else canonical(body)
        with Cutoff(seconds) as cutoff:
            connection = self._connection(min(self._connect_seconds, seconds))
            try:
                connection.connect()
            except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a name that cannot be one
                connection.close()
                return NotSent(type(error).__name__)
            try:
                cutoff.watch(connection.sock)
                connection.sock.settimeout(cutoff.remaining())
                return _converse(connection, method, self._path(path), raw, headers, cutoff)
            except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a TLS socket shut in a read
                return Interrupted("TimeoutError" if cutoff.expired else type(error).__name__)
            finally:
                connection.close()

    def _path(self, path: str) -> str:
        query = f"?{self._parts.query}" if self._parts.query else ""
        return (self._parts.path + path or "/") + query

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls or _trusted())
        return http.client.HTTPConnection(host, port, timeout=seconds)


def _converse(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    raw: bytes | None,
    headers: Mapping[str, str],
    cutoff: Cutoff,
) -> Answer:
    own = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close", "User-Agent": USER_AGENT}
    if raw is not None:
        own["Content-Type"] = "application/json"
    connection.request(method, path, body=raw, headers={**own, **headers})
    with connection.getresponse() as response:
        body = bytearray()
        while chunk := response.read1(CHUNK):
            body += chunk
            if len(body) > BODY_LIMIT:
                raise http.client.HTTPException("the answer is too large")
        if response.length:
            raise http.client.IncompleteRead(bytes(body), response.length)
        cutoff.remaining()  # a socket that was shut reads like an answer that ended
        return Answer(response.status, _document(bytes(body)))


def _document(body: bytes) -> Mapping[str, Json] | None:
    try:
        value = read_envelope(body)
    except BadRequest:
        return None
    return value if isinstance(value, dict) else None


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()
