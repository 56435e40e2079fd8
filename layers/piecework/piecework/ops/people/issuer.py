"""What an issuer publishes about itself: its endpoints (OpenID Connect Discovery 1.0, section 4) and its keys.

The issuer is one that the operator chose. Its answers are bounded in time and size, redirects are not followed, and
what it does not say correctly counts as no answer: the door then refuses with 503, and never lets anybody in.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from piecework.errors import BadRequest, Unavailable
from piecework.jsons import Json, loads
from piecework.net.addresses import is_https_or_loopback
from piecework.ops.people.kept import Kept
from piecework.ops.people.keys import Keys, keys_in
from piecework.reasons import Warn, silent

if TYPE_CHECKING:
    from piecework.ops.people.keys import PublicKey

DOCUMENT: Final = "/.well-known/openid-configuration"
ADDRESS_CHARACTERS: Final = 2_048


class Get(Protocol):
    """One GET of an address that the operator or the issuer chose."""

    def __call__(self, url: str) -> bytes:
        """The body of an answer 200. Raises Unavailable for everything else."""


class Endpoints(NamedTuple):
    """Where an issuer signs people in; `end_session` is empty where it does not say how they sign out."""

    authorization: str
    token: str
    keys: str
    end_session: str = ""


class Issuer:
    """An issuer by its address, which is compared with what tokens and the issuer say, character by character."""

    def __init__(self, url: str, get: Get, now: Callable[[], float] = time, warn: Warn = silent) -> None:
        self.url = url
        self._get, self._warn = get, warn
        self._endpoints = Kept(self._described, now)
        self._keys = Kept(self._published, now)

    def endpoints(self) -> Endpoints:
        """Its endpoints. Raises Unavailable while they are not known."""
        return self._endpoints.value()

    def key(self, name: str, algorithm: str) -> PublicKey | None:
        """A key that it publishes now, or None. An unknown one is asked for, at most every few seconds.

        Raises:
            Unavailable: its keys are not known.
        """
        found = self._keys.value().get((name, algorithm))
        return found or self._keys.newer().get((name, algorithm))

    def _described(self) -> Endpoints:
        said = self._read(self.url.rstrip("/") + DOCUMENT)
        if said.get("issuer") != self.url:
            raise self._wrong("another_issuer")
        named = (f"{name}_endpoint" for name in ("authorization", "token", "end_session"))
        authorization, token, end_session = (said.get(name, "") for name in named)
        found = Endpoints(authorization, token, said.get("jwks_uri", ""), end_session)
        if not all(map(self._is_address, found[:3])) or (end_session and not self._is_address(end_session)):
            raise self._wrong("address")
        return found

    def _published(self) -> Keys:
        found = keys_in(self._read(self._endpoints.value().keys))
        if not found:
            raise self._wrong("no_keys")
        return found

    def _read(self, url: str) -> dict[str, Json]:
        raw = self._get(url)
        try:
            found = loads(raw)
        except BadRequest:
            found = None
        if not isinstance(found, dict):
            raise self._wrong("not_json")
        return found

    def _wrong(self, reason: str) -> Unavailable:
        self._warn("issuer_not_understood", reason=reason)
        return Unavailable("who signs people in does not answer as an issuer does; the function's log says why")

    def _is_address(self, url: Json) -> bool:
        """Whether an address may be called, and shown to browsers: as secure as the issuer's own, without tricks."""
        if not isinstance(url, str) or not url.isascii() or not url.isprintable() or len(url) > ADDRESS_CHARACTERS:
            return False
        try:
            parts = urlsplit(url)
            is_plain = parts.scheme == urlsplit(self.url).scheme and not parts.fragment and "@" not in parts.netloc
            return is_plain and set(url).isdisjoint(" \\\"'<>;,") and is_https_or_loopback(url)
        except ValueError:
            return False
