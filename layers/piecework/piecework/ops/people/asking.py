"""Asks an issuer over HTTP: one request each, with bounds on time and size, and no redirect is followed."""

from typing import Final

from piecework.errors import Unavailable
from piecework.net.addresses import AddressRefused, chosen_target
from piecework.net.http_client import CallFailed, HttpClient, Request
from piecework.reasons import Warn, silent, tell

ANSWER_BYTES: Final = 128 * 1024  # a set of a hundred keys is smaller
SECONDS: Final = 4.0  # two of them fit in the time of a request
HEADERS: Final = {"Accept": "application/json"}
OUT_OF_REACH: Final = "who signs people in is out of reach; try again"


class Asking:
    """GET of addresses that the operator or the issuer chose; `warn` logs what fails."""

    def __init__(self, warn: Warn = silent) -> None:
        self._warn = warn
        self._client = HttpClient(body_limit=ANSWER_BYTES)

    def __call__(self, url: str) -> bytes:
        """The body of an answer 200. Raises Unavailable for everything else."""
        try:
            answer = self._client.send(Request("GET", chosen_target(url), HEADERS), SECONDS)
        except AddressRefused as refused:
            raise self._failed(reason=refused.code) from refused
        except CallFailed as failed:
            raise self._failed(reason=failed.why) from failed
        if answer.status != 200:
            raise self._failed(status=answer.status)
        return answer.body

    def _failed(self, **fields: str | int) -> Unavailable:
        tell(self._warn, "issuer", **fields)
        return Unavailable(OUT_OF_REACH)
