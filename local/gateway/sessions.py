"""Signs a browser in at the local operator's door, by a link that works once.

`make run` prints the link. The page posts its token to /console/session and gets a cookie that scripts cannot read.
A request with that cookie goes on with the credential of the name that started the door. Other credentials stay as
they are. After each use the next link is printed.
"""

import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from local.gateway.edge import Reply
from local.gateway.events import Call

ONCE: Final = "PIECEWORK_CONSOLE_ONCE"  # the token of the first link
SECRET: Final = "PIECEWORK_CONSOLE_SECRET"  # noqa: S105  # of the name that a session stands for; empty at an open door
PATH: Final = "/console/session"
LINK: Final = "{url}/console/now#once={token}"
COOKIE: Final = "piecework_console"
LASTS_SECONDS: Final = 12 * 3600
MOST_SESSIONS: Final = 32  # the oldest ends when another begins
MOST_BODY_BYTES: Final = 1_000
OWN_SITES: Final = frozenset({"", "same-origin", "none"})


class Sessions:
    """The sessions of one process; its key dies with it."""

    def __init__(
        self,
        url: str,
        once: str,
        secret: str,
        *,
        now: Callable[[], float] = time.time,
        say: Callable[[str], None] = print,
    ) -> None:
        self._hosts = {f"{host}:{urlsplit(url).port}" for host in ("127.0.0.1", "localhost")}
        self._url, self._once, self._secret = url, once, secret
        self._now, self._say = now, say
        self._key = secrets.token_bytes(32)
        self._live: dict[str, float] = {}  # nonce: when it ends; the oldest first

    @classmethod
    def of(cls, caller: Mapping[str, str], url: str) -> "Sessions | None":
        """The sessions of a door that was started with a link; else None."""
        return cls(url, caller[ONCE], caller.get(SECRET, "")) if caller.get(ONCE) else None

    def answer(self, call: Call) -> Reply | None:
        """The answer to a request for a session, or None where the request is for something else."""
        if call.path != PATH:
            return None
        if not self._is_own(call) or call.header("origin") not in self._origins:
            return _refusal(403, "forbidden", "sign in from the console's own page")
        if call.method == "DELETE":
            self._live.pop(self._nonce(call), None)
            return 204, [("Set-Cookie", f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"), *_no_store()], b""
        if call.method != "POST":
            return _refusal(405, "method_not_allowed", "use POST or DELETE here")
        if not self._spend(call.body):
            return _refusal(
                401, "unauthorized", "this link was used, or is another run's; the terminal has the next one"
            )
        return 204, [("Set-Cookie", self._begin()), *_no_store()], b""

    def admitted(self, call: Call) -> Call:
        """The call with the session's credential, if it has a session and no credential of its own."""
        if not self._secret or call.header("authorization") or not self._is_own(call) or not self._nonce(call):
            return call
        return replace(call, headers=(*call.headers, ("authorization", f"Bearer {self._secret}")))

    @property
    def _origins(self) -> set[str]:
        return {f"http://{host}" for host in self._hosts}

    def _is_own(self, call: Call) -> bool:
        """Whether the browser sent it from our own page to our own name: else a name that was bound to this address, or
        another site's page, would use the cookie."""
        origin = call.header("origin")
        return (
            call.header("host") in self._hosts
            and (not origin or origin in self._origins)
            and call.header("sec-fetch-site") in OWN_SITES
        )

    def _spend(self, body: bytes) -> bool:
        try:
            given = json.loads(body[:MOST_BODY_BYTES])["once"]
        except (ValueError, TypeError, LookupError):
            return False
        if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "replace"), self._once.encode()):
            return False
        self._once = secrets.token_urlsafe(24)
        self._say(f"console: signed in; the next browser signs in at {LINK.format(url=self._url, token=self._once)}")
        return True

    def _begin(self) -> str:
        while len(self._live) >= MOST_SESSIONS:
            self._live.pop(next(iter(self._live)))
        nonce, ends = secrets.token_urlsafe(18), self._now() + LASTS_SECONDS
        self._live[nonce] = ends
        return f"{COOKIE}={nonce}.{self._signature(nonce)}; Path=/; Max-Age={LASTS_SECONDS}; HttpOnly; SameSite=Strict"

    def _nonce(self, call: Call) -> str:
        """The nonce of the session that the call's cookie proves; empty if it proves none.

        Each pair is read by itself: other programs on this machine set cookies too, some of a form that Python's own
        reader ends at.
        """
        pairs = (pair.strip().partition("=") for pair in call.header("cookie").split(";"))
        proved = (nonce for nonce in (self._proved(value) for name, _, value in pairs if name == COOKIE) if nonce)
        return next(proved, "")

    def _proved(self, value: str) -> str:
        nonce, _, signature = value.partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(nonce).encode()):
            return ""
        if self._live.get(nonce, 0.0) <= self._now():
            self._live.pop(nonce, None)
            return ""
        return nonce

    def _signature(self, nonce: str) -> str:
        return hmac.new(self._key, nonce.encode("utf-8", "replace"), sha256).hexdigest()


def _refusal(status: int, code: str, text: str) -> Reply:
    return (
        status,
        [("Content-Type", "application/json"), *_no_store()],
        json.dumps({"error": text, "code": code}).encode(),
    )


def _no_store() -> list[tuple[str, str]]:
    return [("Cache-Control", "no-store")]
