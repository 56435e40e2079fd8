"""One JSON request to a service that the operator chose: a facilitator, a chain's RPC node.

What money depends on is whether a request may have arrived, so the two failures are told apart: `NotSent` (no
connection, no request) and `Interrupted` (sent, no complete answer). How a request is sent:
`piecework/net/http_client.py`. Of what the service does not do as asked, `warn` hears its status and a reason in one
word.
"""

import ssl
from collections.abc import Mapping
from typing import Final

from piecework.errors import BadRequest, SettingsError
from piecework.jsons import Json, canonical
from piecework.net.addresses import AddressRefused, chosen_target, is_https_or_loopback
from piecework.net.envelopes import read_envelope
from piecework.net.http_client import CallFailed, Fetched, HttpClient, Request, unpacked
from piecework.reasons import Warn, reason_in, silent, tell
from piecework.values import dataclass, replace

CONNECT_SECONDS: Final = 3.0  # look-up and TLS included
BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer; a page of logs is far smaller
USER_AGENT: Final = "hire-worker/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status; `document` is None when its body is not a JSON object."""

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
    """The base URL of a service that speaks JSON, called `to` in the log.

    Raises:
        SettingsError: the URL is neither https nor loopback, or names no host.
    """

    def __init__(
        self,
        base_url: str,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        tls: ssl.SSLContext | None = None,
        to: str = "service",
        warn: Warn = silent,
    ) -> None:
        if not is_https_or_loopback(base_url):
            raise SettingsError("a facilitator or RPC URL must be https, or on this machine")
        self.url = base_url.rstrip("/")
        try:
            self._target = chosen_target(self.url)
        except AddressRefused as refused:
            raise SettingsError(refused.message) from refused
        self._client = HttpClient(connect_seconds=connect_seconds, body_limit=BODY_LIMIT, tls=tls)
        self._to = to
        self._warn = warn

    def exchange(
        self, method: str, path: str, body: Json, headers: Mapping[str, str], seconds: float
    ) -> Answer | NotSent | Interrupted:
        """Send one request and read its whole answer within `seconds`, connecting included."""
        try:
            answer = self._answer(self._client.send(self._request(method, path, body, headers), seconds))
        except CallFailed as failed:
            tell(self._warn, self._to, reason=failed.why, sent=failed.sent)
            return Interrupted(failed.why) if failed.sent else NotSent(failed.why)
        is_failure = answer.status >= 300
        reason = reason_in(answer.document, failed=is_failure)
        if is_failure or reason:
            tell(self._warn, self._to, status=answer.status, reason=reason)
        return answer

    def _request(self, method: str, path: str, body: Json, headers: Mapping[str, str]) -> Request:
        own = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if body is not None:
            own["Content-Type"] = "application/json"
        before, mark, query = self._target.path.partition("?")
        target = replace(self._target, path=(before.rstrip("/") + path or "/") + mark + query)
        return Request(method, target, {**own, **headers}, None if body is None else canonical(body))

    def _answer(self, fetched: Fetched) -> Answer:
        return Answer(fetched.status, _document(unpacked(fetched, BODY_LIMIT)))


def _document(body: bytes) -> Mapping[str, Json] | None:
    try:
        value = read_envelope(body)
    except BadRequest:
        return None
    return value if isinstance(value, dict) else None
