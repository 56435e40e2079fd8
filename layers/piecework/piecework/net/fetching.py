"""HTTP to addresses that strangers name: to public hosts only, one hop, bounded in time and size.

The name is resolved once, and the connection goes to a vetted address, so a second look-up cannot lead elsewhere.
Certificate, SNI and Host header are those of the name.
"""

import ssl
from collections.abc import Mapping
from typing import Final

from piecework.net.addresses import AddressRefused, Allow, Resolve, is_public, parse_target, resolve_name
from piecework.net.http_client import BodyTooLarge, CallFailed, Fetched, FetchTimedOut, HttpClient, Request, Unreachable
from piecework.reasons import Warn, silent, tell

__all__ = ["BodyTooLarge", "FetchTimedOut", "Fetched", "Fetcher", "Unreachable"]

BODY_LIMIT: Final = 8 * 1024 * 1024  # bytes; eight of them at once still fit a small function's memory
TIMEOUT_SECONDS: Final = 5.0  # per request, with its name look-up


class Fetcher:
    """Sends single requests to vetted addresses; `warn` logs each failed one as a call `to` another party."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve_name,
        allow: Allow = is_public,
        timeout_seconds: float = TIMEOUT_SECONDS,
        connect_seconds: float | None = None,
        body_limit: int = BODY_LIMIT,
        tls: ssl.SSLContext | None = None,
        to: str = "evidence",
        warn: Warn = silent,
    ) -> None:
        self._client = HttpClient(resolve, allow, connect_seconds, body_limit, tls)
        self._timeout_seconds = timeout_seconds
        self._to = to
        self._warn = warn

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
        """Send one request and read its whole answer; with `cut`, only as much of the body as the limits allow.

        Raises:
            AddressRefused: the URL is malformed or leads to an address that is not public; the request was not sent.
            Unreachable, FetchTimedOut, BodyTooLarge: as `HttpClient.send`.
        """
        host = None
        try:
            target = parse_target(url)
            host = target.host
            fetched = self._client.send(Request(method, target, headers or {}, body), self._timeout_seconds, cut=cut)
        except AddressRefused as refused:
            tell(self._warn, self._to, host=host, reason=refused.code)
            raise
        except CallFailed as failed:
            tell(self._warn, self._to, host=host, reason=failed.why)
            raise
        if fetched.status >= 300:
            tell(self._warn, self._to, host=host, status=fetched.status)
        return fetched
